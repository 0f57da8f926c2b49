import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type ComputeRouter, InvalidOptionError, type JobList, type LocalJob, NotFoundError, type StreamOptions } from "../../../src/sdk/index.ts";
import { until } from "../../support/until.ts";
import { hang, paused, rejection, reply } from "./support/faults.ts";
import { RouterServer, tokenOf } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const PROMPT = { job_type: "LLM_INFER", prompt: "Say hello." } as const;
/** A router whose jobs do not end by themselves. */
const SLOW = { statuses: Array.from({ length: 1_000 }, () => "pending" as const) };
const CANCELLED = { status: "failed", result: { error: "cancelled" } };

const onlyJob = (router: RouterServer): string => [...router.jobs.keys()][0] ?? "";
/** Resolves when the router's only job is cancelled. */
const ended = (router: RouterServer) =>
  until("the job is cancelled", () => (router.jobs.get(onlyJob(router))?.end.result?.["error"] === "cancelled" ? true : undefined));
const deletes = (router: RouterServer) => router.received.filter(({ method }) => method === "DELETE");

describe("cancel", () => {
  it("[JB13] cancels the job of a handle, also when the handle was stored as JSON, in another client", async () => {
    const router = await RouterServer.start(SLOW);
    const handle = await router.client().submit(CLASSIFY);
    expect(handle).toEqual({ jobId: onlyJob(router), cancelToken: tokenOf(onlyJob(router)) });
    const cancellation = await router.client().cancel(JSON.parse(JSON.stringify(handle)));
    expect(cancellation).toMatchObject({ cancelled: true, job: { id: handle.jobId, ...CANCELLED }, charged: null, credit: null });
    expect(await router.client().cancel(handle)).toMatchObject({ cancelled: true });
  });

  it("[JB13] knows the tokens of the jobs of this client, by their id", async () => {
    const router = await RouterServer.start(SLOW);
    const client = router.client();
    const { jobId } = await client.submit(CLASSIFY);
    expect(await client.cancel(jobId)).toMatchObject({ cancelled: true });
    expect(await rejection(router.client().cancel(jobId))).toMatchObject({ name: "InvalidOptionError", option: "cancelToken" });
    expect(await router.client().cancel(jobId, { cancelToken: tokenOf(jobId) })).toMatchObject({ cancelled: true });
  });

  it("[JB13] a job that has ended stays as it is", async () => {
    const router = await RouterServer.start({ statuses: [] });
    const client = router.client();
    const { jobId } = await client.run(CLASSIFY);
    expect(await client.cancel(jobId ?? "")).toMatchObject({ cancelled: false, job: { status: "completed" } });
    router.rules.work = () => ({ error: "worker_error" });
    const failed = await client.submit(CLASSIFY);
    await rejection(client.waitFor(failed.jobId));
    expect(await client.cancel(failed)).toMatchObject({ cancelled: false, job: { status: "failed" } });
  });

  it("[JB13] a wrong token is a NotFoundError; a job that is no UUID is not asked about", async () => {
    const router = await RouterServer.start(SLOW);
    const { jobId } = await router.client().submit(CLASSIFY);
    expect(await rejection(router.client().cancel({ jobId, cancelToken: "0".repeat(32) }))).toBeInstanceOf(NotFoundError);
    const before = router.received.length;
    expect(await rejection(router.client().cancel("../health"))).toBeInstanceOf(InvalidOptionError);
    expect(await rejection(router.client().cancel(jobId, { cancelToken: "a b" }))).toMatchObject({ option: "cancelToken" });
    expect(router.received).toHaveLength(before);
  });

  it("[JB13, PY9] says what became of the money, by the PAYMENT-RESPONSE of the job", async () => {
    const router = await RouterServer.start(SLOW);
    const handle = await router.client().submit(CLASSIFY);
    const credit = { amount: "1000", asset: "eip155:10143/0x1", balance: "3000" };
    const settlement = Buffer.from(JSON.stringify({ success: true, extensions: { credit } })).toString("base64");
    router.fail("GET /v1/jobs", (_, __, proceed) => proceed(_.setHeader("payment-response", settlement)));
    expect(await router.client().cancel(handle)).toMatchObject({ cancelled: true, charged: true, credit });
  });

  it("[JB13] is sent again after a lost answer, and its outcome counts even if the payment cannot be read", async () => {
    const router = await RouterServer.start(SLOW);
    const handle = await router.client().submit(CLASSIFY);
    router.fail("DELETE /v1/jobs", reply(503, { error: "overloaded" }));
    router.fail("GET /v1/jobs", reply(500, { error: "internal_error" }));
    expect(await router.client().cancel(handle)).toMatchObject({ cancelled: true, charged: null });
    expect(deletes(router)).toHaveLength(2);
  });

  it("[JB13, LM2] waits out the 429 with which a router refuses a burst of cancels for more than a minute", async () => {
    const router = await RouterServer.start(SLOW);
    const handle = await router.client().submit(CLASSIFY);
    const waits = quickMinutes();
    router.fail("DELETE /v1/jobs", limited(66), limited(61));
    expect(await router.client().cancel(handle)).toMatchObject({ cancelled: true });
    expect(waits).toEqual([66_000, 61_000]);
    router.fail("DELETE /v1/jobs", limited(3_600));
    expect(await rejection(router.client().cancel(handle))).toMatchObject({ code: "rate_limited", retryAfter: 3_600_000 });
  });
});

const limited = (seconds: number) => reply(429, { error: "rate_limited" }, { "retry-after": String(seconds) });

/** Lets pauses of a minute or more pass at once. Returns how long they would have been. */
function quickMinutes(): number[] {
  const waits: number[] = [];
  const { setTimeout: real } = globalThis;
  const quick = (callback: () => void, ms = 0): unknown => (ms < 60_000 ? real(callback, ms) : (waits.push(ms), real(callback, 1)));
  const spy = vi.spyOn(globalThis, "setTimeout").mockImplementation(quick as typeof setTimeout);
  onTestFinished(() => spy.mockRestore());
  return waits;
}

/** The calls that commit one job. */
const COMMITTING: [string, (client: ComputeRouter, signal: AbortSignal) => Promise<unknown>][] = [
  ["run", (client, signal) => client.run(CLASSIFY, { signal })],
  ["submit", (client, signal) => client.submit(CLASSIFY, { signal })],
  ["stream", (client, signal) => client.stream(CLASSIFY, { signal }).result],
];

/**
 * A signal that fires as `AbortSignal.timeout` does in a browser: no JavaScript calls its listeners, so all promises that one of them settles go on before
 * the next one is called. In Node they go on after the last one.
 */
function platformSignal(): { signal: AbortSignal; fire: () => Promise<void> } {
  const abort = new AbortController();
  const { signal } = abort;
  const listeners = new Set<() => void>();
  signal.addEventListener = (_type: string, listener: unknown) => void listeners.add(listener as () => void);
  signal.removeEventListener = (_type: string, listener: unknown) => void listeners.delete(listener as () => void);
  const fire = async (): Promise<void> => {
    abort.abort(new DOMException("signal timed out", "TimeoutError"));
    for (const listener of listeners) {
      listener();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { signal, fire };
}

describe("an abort", () => {
  it.each([
    ...COMMITTING,
    ["the result of a stream whose loop was left", (client: ComputeRouter, signal: AbortSignal) => leftStream(client, { signal })] as const,
  ])("[JB13] of %s by a time-out of the platform cancels its job", async (call, start) => {
    const router = await RouterServer.start(SLOW);
    const { signal, fire } = platformSignal();
    const { promise: kept, resolve } = Promise.withResolvers<void>();
    const jobs: LocalJob[] = [];
    // A list that does not answer keeps the submit open.
    const add = (job: LocalJob): void | Promise<void> => (jobs.push(job), resolve(), call === "submit" ? new Promise(() => {}) : undefined);
    const answer = rejection(start(router.client({ jobList: { add, all: () => jobs }, timeout: 60_000 }), signal));
    await kept;
    if (call !== "submit") await until("it follows the job", () => (router.to(`/v1/jobs/${onlyJob(router)}`).length > 1 ? true : undefined));
    await fire();
    expect(await answer).toMatchObject({ name: "TimeoutError" });
    await ended(router);
    expect(deletes(router)).toHaveLength(1);
  });

  it.each([
    ["run", (client: ReturnType<RouterServer["client"]>, signal: AbortSignal) => client.run(CLASSIFY, { signal })],
    ["chat", (client: ReturnType<RouterServer["client"]>, signal: AbortSignal) => client.chat("hi", { signal })],
    ["map", (client: ReturnType<RouterServer["client"]>, signal: AbortSignal) => client.map([CLASSIFY], { signal })],
  ])("[JB13] of %s cancels its job, and the call does not wait for that", async (_call, start) => {
    const router = await RouterServer.start(SLOW);
    const abort = new AbortController();
    const { fault, arrived, release } = paused();
    router.fail("DELETE /v1/jobs", fault);
    router.fail("GET /v1/jobs", hang);
    const answer = rejection(start(router.client(), abort.signal));
    await router.arrival("/v1/jobs/commit");
    await until("a poll", () => (router.received.some(({ path }) => path.endsWith(onlyJob(router)) && onlyJob(router) !== "") ? true : undefined));
    abort.abort("enough");
    expect(await answer).toBe("enough");
    await arrived;
    release();
    await ended(router);
  });

  it.each([
    ["run", 66, (client: ComputeRouter, signal: AbortSignal) => client.run(CLASSIFY, { signal })],
    ["map", 1, (client: ComputeRouter, signal: AbortSignal) => client.map([CLASSIFY], { signal })],
    ["map", 66, (client: ComputeRouter, signal: AbortSignal) => client.map([CLASSIFY], { signal })],
  ])("[JB13, LM2] of %s cancels its job also if the router refuses the cancel for %i s", async (_call, seconds, start) => {
    const router = await RouterServer.start(SLOW);
    quickMinutes();
    const abort = new AbortController();
    router.fail("DELETE /v1/jobs", limited(seconds));
    router.fail("GET /v1/jobs", hang);
    const answer = rejection(start(router.client(), abort.signal));
    await until("a poll", () => (router.jobs.size > 0 && router.to(`/v1/jobs/${onlyJob(router)}`).length > 0 ? true : undefined));
    abort.abort("enough");
    expect(await answer).toBe("enough");
    await ended(router);
    expect(deletes(router)).toHaveLength(2);
  });

  it("[JB13] of a stream cancels its job, even if nobody reads on; leaving the loop does not", async () => {
    const router = await RouterServer.start(SLOW);
    const abort = new AbortController();
    const stream = router.client().stream(PROMPT, { signal: abort.signal });
    await stream.next();
    abort.abort();
    await ended(router);
    const other = await RouterServer.start(SLOW);
    const later = new AbortController();
    for await (const event of other.client().stream(PROMPT, { signal: later.signal })) if (event.type === "job") break;
    later.abort();
    await other.client().health();
    expect(deletes(other)).toEqual([]);
  });

  it.each(COMMITTING)("[JB13] of %s while the commit is under way cancels the job as soon as its token is there", async (_call, start) => {
    const router = await RouterServer.start(SLOW);
    const abort = new AbortController();
    const { fault, arrived, release } = paused();
    router.fail("POST /v1/jobs/commit", fault);
    const answer = rejection(start(router.client(), abort.signal));
    await arrived;
    abort.abort("enough");
    expect(await answer).toBe("enough");
    expect(router.jobs.size).toBe(0);
    release();
    await until("the commit", () => (router.jobs.size === 1 ? true : undefined));
    await ended(router);
  });

  it.each(COMMITTING)("[JB13] of %s cancels its job while the list of jobs does not answer", async (_call, start) => {
    const router = await RouterServer.start(SLOW);
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const jobList: JobList = { add: () => (resolve(), new Promise(() => {})), all: () => [] };
    const abort = new AbortController();
    const answer = rejection(start(router.client({ jobList }), abort.signal));
    await asked;
    abort.abort("enough");
    expect(await answer).toBe("enough");
    await ended(router);
  });

  it.each([
    ["of the call", {}, { cancelOnAbort: false }],
    ["of the client", { cancelOnAbort: false }, {}],
  ])("with the option cancelOnAbort: false %s leaves the job alone", async (_whose, ofClient, ofCall) => {
    const router = await RouterServer.start(SLOW);
    const client = router.client(ofClient);
    const abort = new AbortController();
    const answer = rejection(client.run(CLASSIFY, { signal: abort.signal, ...ofCall, onUpdate: () => abort.abort("enough") }));
    expect(await answer).toBe("enough");
    await client.health();
    expect(deletes(router)).toEqual([]);
  });

  it("of a call that only reads a job leaves it alone, and so does one after the end of a submit", async () => {
    const router = await RouterServer.start(SLOW);
    const client = router.client();
    const abort = new AbortController();
    const { jobId } = await client.submit(CLASSIFY, { signal: abort.signal });
    const answer = rejection(client.waitFor(jobId, { signal: abort.signal, onUpdate: () => abort.abort("enough") }));
    expect(await answer).toBe("enough");
    await client.health();
    expect(deletes(router)).toEqual([]);
  });
});

/** A list that never answers. */
const DEAF: JobList = { add: () => {}, all: () => new Promise(() => {}) };

/** The result of a stream whose loop was left: the client waits for the job by its id. */
async function leftStream(client: ComputeRouter, options: StreamOptions = {}): Promise<unknown> {
  const stream = client.stream(CLASSIFY, options);
  for await (const event of stream) if (event.type === "job") break;
  return stream.result;
}

/** The result of a map of one job. */
async function onlyResult(client: ComputeRouter): Promise<unknown> {
  const [one] = await client.map([CLASSIFY]);
  if (one?.status === "rejected") throw one.reason;
  return one?.value;
}

describe("a list of jobs that does not answer", () => {
  it("does not keep the result of a job", async () => {
    const router = await RouterServer.start();
    expect(await leftStream(router.client({ jobList: DEAF }), { signal: new AbortController().signal })).toMatchObject({ verified: true });
  });

  it.each<[string, (client: ComputeRouter) => Promise<unknown>]>([
    ["run", (client) => client.run(CLASSIFY)],
    ["submit", (client) => client.submit(CLASSIFY)],
    ["stream", (client) => client.stream(CLASSIFY).result],
    ["map", (client) => onlyResult(client)],
  ])("lets %s time out with the id of the job, which the router has accepted and the payer perhaps paid", async (_call, start) => {
    const router = await RouterServer.start({ gated: true });
    const jobList: JobList = { ...DEAF, add: () => new Promise(() => {}) };
    const fallback = [{ name: "spare", supports: () => true, run: async () => ({ sentiment: "positive", confidence: 1 }) }];
    const client = router.client({ jobList, timeout: 500, fallback, payment: async () => ({ "X-PAYMENT": "p" }) });
    const error = await rejection(start(client));
    expect(error).toMatchObject({ name: "JobTimeoutError", jobId: onlyJob(router), lastStatus: null });
    expect(router.charged).toHaveLength(1);
  });

  it("does not keep a call beyond its timeout", async () => {
    const router = await RouterServer.start(SLOW);
    expect(await rejection(leftStream(router.client({ jobList: DEAF }), { timeout: 3_000 }))).toMatchObject({ code: "job_timeout" });
  });

  it.each<[string, (client: ComputeRouter, signal: AbortSignal) => Promise<unknown>]>([
    ["jobs", (client, signal) => client.jobs({ signal })],
    ["cancel", (client, signal) => client.cancel("00000000-0000-4000-8000-000000000000", { signal })],
  ])("does not keep %s beyond an abort", async (_call, start) => {
    const router = await RouterServer.start();
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const jobList: JobList = { ...DEAF, all: () => (resolve(), DEAF.all()) };
    const abort = new AbortController();
    const answer = rejection(start(router.client({ jobList }), abort.signal));
    await asked;
    abort.abort("enough");
    expect(await answer).toBe("enough");
  });

  it("[JB13] but answers after the abort still gives the token that cancels the job", async () => {
    const router = await RouterServer.start(SLOW);
    const jobs: LocalJob[] = [];
    const { promise: late, resolve } = Promise.withResolvers<LocalJob[]>();
    const abort = new AbortController();
    const answer = rejection(leftStream(router.client({ jobList: { add: (job) => void jobs.push(job), all: () => late } }), { signal: abort.signal }));
    await until("it follows the job", () => (router.to(`/v1/jobs/${onlyJob(router)}`).length > 2 ? true : undefined));
    abort.abort("enough");
    expect(await answer).toBe("enough");
    resolve(jobs);
    await ended(router);
  });
});

it("[JB13] an abort after the loop of a stream was left cancels the job, also if the list of jobs has not kept it", async () => {
  const router = await RouterServer.start(SLOW);
  const jobList: JobList = { add: () => Promise.reject(new Error("disk full")), all: () => [] };
  const abort = new AbortController();
  const answer = rejection(leftStream(router.client({ jobList }), { signal: abort.signal }));
  await until("it follows the job", () => (router.to(`/v1/jobs/${onlyJob(router)}`).length > 2 ? true : undefined));
  abort.abort("enough");
  expect(await answer).toBe("enough");
  await ended(router);
});

describe("the list of jobs", () => {
  it("gets each job with its token, and gives the token to another client", async () => {
    const router = await RouterServer.start(SLOW);
    const kept: LocalJob[] = [];
    const jobList: JobList = { add: (job) => void kept.push(job), all: async () => kept };
    const client = router.client({ jobList, userId: "u" });
    const { jobId } = await client.submit(PROMPT);
    expect(kept).toEqual([{ jobId, jobType: "LLM_INFER", createdAt: expect.any(String), cancelToken: tokenOf(jobId), baseUrl: router.url, userId: "u" }]);
    expect(await router.client({ jobList }).cancel(jobId)).toMatchObject({ cancelled: true });
  });

  it("that fails does not fail the job", async () => {
    const router = await RouterServer.start({ statuses: [] });
    const jobList: JobList = { add: () => Promise.reject(new Error("disk full")), all: () => [] };
    expect(await router.client({ jobList }).run(CLASSIFY)).toMatchObject({ verified: true });
  });
});
