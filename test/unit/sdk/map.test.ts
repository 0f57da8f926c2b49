import { describe, expect, it, onTestFinished, vi } from "vitest";
import { JobFailedError, type JobInput, type MapResult, NotFoundError } from "../../../src/sdk/index.ts";
import { paused, rejection, reply, reset } from "./support/faults.ts";
import { type Fault, RouterServer } from "./support/router-server.ts";

const summarize = (input: string): JobInput => ({ job_type: "TASK", task_type: "summarize", input });
const INPUTS = Array.from({ length: 12 }, (_, at) => `text ${at}`);
const limited = (seconds: number) => reply(429, { error: "rate_limited" }, { "retry-after": String(seconds) });

/** What each job gave, failures by their code. */
const outcomes = (results: MapResult[]): unknown[] => results.map((one) => (one.status === "fulfilled" ? one.value.output : one.reason.code));
const summaries = (inputs: string[]): unknown[] => inputs.map((input) => ({ summary: `${input} …`, word_count: 3 }));

describe("map", () => {
  it("runs every job once and keeps the order of the list", async () => {
    const router = await RouterServer.start();
    const ended: number[] = [];
    const results = await router.client().map(INPUTS.map(summarize), { concurrency: 5, onResult: (_, index) => ended.push(index) });
    expect(outcomes(results)).toEqual(summaries(INPUTS));
    expect(results.every((one) => one.status === "fulfilled" && one.value.verified && one.value.price === "$0.001")).toBe(true);
    expect(router.jobs.size).toBe(INPUTS.length);
    expect(ended.toSorted((a, b) => a - b)).toEqual(INPUTS.map((_, at) => at));
    expect(await router.client().map([])).toEqual([]);
  });

  it("runs exactly `concurrency` jobs at the same time", async () => {
    const router = await RouterServer.start();
    let open = 0;
    let most = 0;
    const counting: typeof fetch = (input, init) => {
      if (init?.method === "POST") most = Math.max(most, ++open);
      return fetch(input, init);
    };
    await router.client({ fetch: counting }).map(INPUTS.map(summarize), { concurrency: 3, onResult: () => open-- });
    expect(most).toBe(3);
  });

  it("puts at most ten listeners on a signal at a time: with more, Node 20 prints a warning", async () => {
    const router = await RouterServer.start({ statuses: ["pending"] });
    const counts = new Map<EventTarget, number>();
    let most = 0;
    const counted = (name: "addEventListener" | "removeEventListener", step: number): void => {
      const method = EventTarget.prototype[name];
      const spy = vi.spyOn(EventTarget.prototype, name).mockImplementation(function (this: EventTarget, ...args: Parameters<typeof method>) {
        if (args[0] === "abort") counts.set(this, (counts.get(this) ?? 0) + step);
        most = Math.max(most, counts.get(this) ?? 0);
        return method.apply(this, args);
      });
      onTestFinished(() => spy.mockRestore());
    };
    counted("addEventListener", 1);
    counted("removeEventListener", -1);
    const jobs = Array.from({ length: 20 }, (_, at) => summarize(`text ${at}`));
    await router.client().map(jobs, { concurrency: 20, signal: new AbortController().signal });
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(10);
  });

  it("[API6] asks the router to hold its answer instead of polling", async () => {
    const router = await RouterServer.start({ statuses: ["pending", "pending", "pending"] });
    await router.client({ timeout: 90_000 }).map([summarize("a")]);
    expect(router.received.filter(({ path }) => /^\/v1\/jobs\/[0-9a-f-]{36}$/.test(path)).map(({ query }) => query.get("wait"))).toEqual(["25"]);
  });

  it("a job that fails does not stop the others", async () => {
    const router = await RouterServer.start({
      work: ({ input }) => (input === "text 1" ? { error: "worker_error" } : { output: { summary: "s", word_count: 1 } }),
    });
    router.fail("GET /v1/quote", reply(404, { error: "not_found" }));
    const results = await router.client().map(INPUTS.slice(0, 4).map(summarize), { concurrency: 1 });
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled", "fulfilled"]);
    expect(results[0]).toMatchObject({ reason: expect.any(NotFoundError) });
    expect(results[1]).toMatchObject({ reason: expect.any(JobFailedError) });
  });

  it("[LM2] after a 429 all jobs wait for the time that the router says, and it does not count as time of a job", async () => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", limited(3), limited(3));
    const results = await router.client({ timeout: 2_500, maxRetries: 0 }).map(INPUTS.map(summarize), { concurrency: 2 });
    expect(outcomes(results)).toEqual(summaries(INPUTS));
    const commits = router.to("/v1/jobs/commit");
    // Both lanes met one 429, both waited, and each came again under its own key.
    expect(commits).toHaveLength(INPUTS.length + 2);
    expect((commits[2]?.at ?? 0) - (commits[1]?.at ?? 0)).toBeGreaterThan(2_950);
    expect(new Set(commits.map(({ headers }) => headers["idempotency-key"])).size).toBe(INPUTS.length);
    expect(router.jobs.size).toBe(INPUTS.length);
  });

  it.each(["0", "Sat, 21 Nov 2020 00:00:05 GMT"])("[LM2] after a 429 with Retry-After: %s it still pauses, each time longer", async (retryAfter) => {
    const router = await RouterServer.start();
    const refusal = reply(429, { error: "rate_limited" }, { "retry-after": retryAfter });
    router.fail("POST /v1/jobs/commit", refusal, refusal, refusal);
    expect(outcomes(await router.client({ retryDelay: 40 }).map([summarize("a")]))).toEqual(summaries(["a"]));
    const times = router.to("/v1/jobs/commit").map(({ at }) => at);
    expect(times).toHaveLength(4);
    for (const [i, time] of times.slice(1).entries()) expect(time - (times[i] ?? 0)).toBeGreaterThan(40 * 2 ** i * 0.75 - 2);
  });

  it("[LM2] an accepted job whose polls were refused until its timeout is still followed", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/jobs", limited(3));
    const results = await router.client({ timeout: 2_000 }).map([summarize("a")]);
    expect(outcomes(results)).toEqual(summaries(["a"]));
    expect(results[0]).toMatchObject({ value: { price: "$0.001" } });
    expect(router.to("/v1/jobs/commit")).toHaveLength(1);
  });

  it("[PY6] after a lost answer to a payment and a 429 the same payment is sent again: neither another payment nor a fallback follows", async () => {
    const router = await RouterServer.start({ gated: true });
    const unpaid: Fault = (response, _, proceed) => proceed(response);
    router.fail("POST /v1/jobs/commit", unpaid, reset, limited(1));
    let payments = 0;
    const payment = async (): Promise<Record<string, string>> => ({ "X-PAYMENT": `payment ${++payments}` });
    const fallback = [{ name: "spare", supports: () => true, run: async () => ({ summary: "spare", word_count: 1 }) }];
    const results = await router.client({ fallback, payment, maxRetries: 1 }).map([summarize("a")]);
    expect(payments).toBe(1);
    expect(results).toMatchObject([{ status: "fulfilled", value: { source: "router", price: "$0.001" } }]);
    const sent = router.to("/v1/jobs/commit").map(({ headers }) => headers["x-payment"]);
    expect(sent).toEqual([undefined, "payment 1", "payment 1", "payment 1"]);
  });

  it("a job that an earlier try may have committed gets no fallback", async () => {
    const router = await RouterServer.start();
    const fine: Fault = (response, _, proceed) => proceed(response);
    router.fail("POST /v1/jobs/commit", reset, limited(1));
    router.fail("GET /v1/quote", fine, reply(500, { error: "internal" }));
    const fallback = [{ name: "spare", supports: () => true, run: async () => ({ summary: "spare", word_count: 1 }) }];
    const results = await router.client({ fallback }).map([summarize("a")]);
    expect(results).toEqual([{ status: "rejected", reason: expect.objectContaining({ code: "unavailable", idempotencyKey: expect.any(String) }) }]);
  });

  it("checks the list and every option before anything is sent", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const invalid = (option: string): unknown => expect.objectContaining({ code: "invalid_option", option });
    expect(await rejection(client.map("text" as never))).toEqual(invalid("jobs"));
    expect(await rejection(client.map([summarize("a"), summarize("")]))).toEqual(invalid("jobs[1].input"));
    for (const [option, value] of [
      ["concurrency", 0],
      ["concurrency", 101],
      ["onResult", 1],
      ["policy", "fast"],
      ["timeout", 0],
      ["signal", {}],
      ["idempotencyKey", "k"],
    ] as const) {
      expect(await rejection(client.map([], { [option]: value }))).toEqual(invalid(option));
    }
    expect(router.received).toEqual([]);
  });

  it("an abort rejects with its reason, and no job is started after it", async () => {
    const router = await RouterServer.start();
    const { fault, arrived, release } = paused();
    router.fail("POST /v1/jobs/commit", fault);
    const controller = new AbortController();
    const ended: number[] = [];
    const all = rejection(router.client().map(INPUTS.map(summarize), { concurrency: 1, signal: controller.signal, onResult: (_, index) => ended.push(index) }));
    await arrived;
    controller.abort("enough");
    expect(await all).toBe("enough");
    release();
    expect(ended).toEqual([]);
    expect(router.to("/v1/jobs/commit")).toHaveLength(1);
    expect(await rejection(router.client().map([summarize("a")], { signal: controller.signal }))).toBe("enough");
  });

  it("an abort ends the wait for the end of a 429", async () => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", limited(3_600));
    const controller = new AbortController();
    const all = rejection(router.client().map(INPUTS.map(summarize), { concurrency: 1, signal: controller.signal }));
    await router.arrival("/v1/jobs/commit");
    controller.abort("enough");
    expect(await all).toBe("enough");
  });

  it("an error of onResult ends the call", async () => {
    const router = await RouterServer.start();
    const bug = new Error("mine");
    const onResult = (): never => {
      throw bug;
    };
    expect(await rejection(router.client().map(INPUTS.map(summarize), { concurrency: 1, onResult }))).toBe(bug);
    expect(router.to("/v1/jobs/commit")).toHaveLength(1);
  });

  it("the fallback answers each job for which the router cannot be reached", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/quote", reply(500, { error: "internal" }));
    const fallback = [{ name: "spare", supports: () => true, run: async () => ({ summary: "spare", word_count: 1 }) }];
    const results = await router.client({ fallback }).map(INPUTS.slice(0, 2).map(summarize), { concurrency: 1 });
    expect(results.map((one) => (one.status === "fulfilled" ? one.value.source : one.reason))).toEqual(["fallback:spare", "router"]);
  });
});
