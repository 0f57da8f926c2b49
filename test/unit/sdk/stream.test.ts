import { describe, expect, it } from "vitest";
import { InvalidOptionError, type JobEvent, JobFailedError, JobTimeoutError, NotFoundError, ProtocolError } from "../../../src/sdk/index.ts";
import { rejection, reply, reset } from "./support/faults.ts";
import { type Fault, RouterServer } from "./support/router-server.ts";

const PROMPT = { job_type: "LLM_INFER", prompt: "Say hello." } as const;
const EVENTS = "GET /v1/jobs/[^/]+/events";
const says = (text: string) => ({ statuses: [], work: () => ({ output: text }) });

/** Server-sent events as the router writes them; then the end of the answer, or of the connection, or nothing. */
function events(written: readonly [id: number, event: string, data: object][], then: "end" | "cut" | "hang" = "end"): Fault {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const text = written.map(([id, event, data]) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("");
    response.write(`:\n\n${text}`, () => {
      if (then === "end") response.end();
      if (then === "cut") response.socket?.destroy();
    });
  };
}

/** The same and at the end the job itself, as `done`. */
function whole(router: RouterServer, written: readonly [id: number, event: string, data: object][]): Fault {
  return (response, request, proceed) => {
    const end = router.jobs.get(request.path.split("/")[3] ?? "")?.end ?? {};
    events([...written, [9, "done", end]])(response, request, proceed);
  };
}

const delta = (seq: number, text: string): [number, string, object] => [seq + 2, "delta", { attempt: 1, seq, delta: text }];
const RUNNING: [number, string, object] = [1, "status", { status: "running", attempt: 1 }];

async function all(stream: AsyncIterable<JobEvent>): Promise<JobEvent[]> {
  const told: JobEvent[] = [];
  for await (const event of stream) told.push(event);
  return told;
}

describe("stream", () => {
  it("[API6] commits, yields the events of the router, and ends with the verified result", async () => {
    const router = await RouterServer.start(says("hello"));
    router.fail(EVENTS, whole(router, [RUNNING, delta(0, "hel"), [4, "from_the_future", {}], delta(1, "lo")]));
    const told = await all(router.client().stream(PROMPT));
    const jobId = [...router.jobs.keys()][0];
    expect(told).toMatchObject([
      { type: "job", jobId, price: "$0.010" },
      { type: "status", status: "running", attempt: 1 },
      { type: "delta", attempt: 1, seq: 0, delta: "hel" },
      { type: "delta", attempt: 1, seq: 1, delta: "lo" },
      { type: "done", result: { output: "hello", verified: true, jobId, price: "$0.010" } },
    ]);
    expect(router.to(`/v1/jobs/${jobId}/events`)[0]?.headers).toMatchObject({ accept: "text/event-stream" });
  });

  it.each(["cut", "end"] as const)("[API6] a stream that breaks (%s) continues after its last event", async (how) => {
    const router = await RouterServer.start(says("hello"));
    router.fail(EVENTS, events([RUNNING, delta(0, "hel")], how), reset, reply(500, { error: "internal_error" }), whole(router, [delta(1, "lo")]));
    const told = await all(router.client().stream(PROMPT));
    expect(told.map(({ type }) => type)).toEqual(["job", "status", "delta", "delta", "done"]);
    const asked = router.received.filter(({ path }) => path.endsWith("/events")).map(({ headers }) => headers["last-event-id"]);
    expect(asked).toEqual([undefined, "2", "2", "2"]);
  });

  it("[API6] follows a job by its id", async () => {
    const router = await RouterServer.start(says("hello"));
    const { jobId } = await router.client().submit(PROMPT);
    router.fail(EVENTS, whole(router, [delta(0, "hello")]));
    expect(await all(router.client().stream(jobId))).toMatchObject([
      { type: "job", price: null },
      { type: "delta" },
      { type: "done", result: { output: "hello" } },
    ]);
  });

  it.each([
    ["404", reply(404, { error: "not_found" })],
    ["503", reply(503, { error: "overloaded" }, { "retry-after": "2" })],
  ])("[API6] a router that answers %s is polled", async (_status, fault) => {
    const router = await RouterServer.start({ statuses: ["pending", "assigned", "assigned"], work: () => ({ output: "hello" }) });
    router.fail(EVENTS, fault);
    expect(await all(router.client().stream(PROMPT))).toMatchObject([
      { type: "job" },
      { type: "status", status: "pending", attempt: null },
      { type: "status", status: "assigned", attempt: null },
      { type: "status", status: "completed", attempt: null },
      { type: "done", result: { output: "hello" } },
    ]);
  });

  it("[JB5] a failed job throws as run does", async () => {
    const router = await RouterServer.start({ statuses: [], work: () => ({ error: "worker_lost" }) });
    router.fail(EVENTS, whole(router, [RUNNING]));
    expect(await rejection(all(router.client().stream(PROMPT)))).toBeInstanceOf(JobFailedError);
  });

  it("an unknown job throws NotFoundError, and for an invalid id no request is sent", async () => {
    const router = await RouterServer.start();
    expect(await rejection(all(router.client().stream("11111111-2222-4333-8444-555555555555")))).toBeInstanceOf(NotFoundError);
    const before = router.received.length;
    expect(() => router.client().stream("../health")).toThrow(InvalidOptionError);
    // A prompt in place of a job is the likely mistake, so the message shows a job.
    expect(() => router.client().stream("hi")).toThrow(
      'job must be a job, as { job_type: "LLM_INFER", prompt: "hi" }, or the UUID of a committed job, got "hi"',
    );
    expect(router.received).toHaveLength(before);
  });

  it("[SPEC] a timeout names the job and its last status", async () => {
    const router = await RouterServer.start(says("never"));
    router.fail(EVENTS, events([RUNNING], "hang"));
    const error = await rejection(all(router.client().stream(PROMPT, { timeout: 300 })));
    expect(error).toBeInstanceOf(JobTimeoutError);
    expect(error).toMatchObject({ jobId: [...router.jobs.keys()][0], lastStatus: "running" });
  });

  it("an aborted signal ends it with the signal's reason", async () => {
    const router = await RouterServer.start(says("never"));
    router.fail(EVENTS, events([RUNNING], "hang"));
    const abort = new AbortController();
    const stream = router.client().stream(PROMPT, { signal: abort.signal });
    await stream.next();
    await stream.next();
    const reason = new Error("enough");
    abort.abort(reason);
    expect(await rejection(stream.next())).toBe(reason);
  });

  it("leaving the loop closes the connection", async () => {
    const router = await RouterServer.start(says("never"));
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    router.fail(EVENTS, (response, request, proceed) => {
      response.on("close", resolve);
      events([RUNNING], "hang")(response, request, proceed);
    });
    for await (const event of router.client().stream(PROMPT)) if (event.type === "status") break;
    await closed;
  });

  it.each([
    ["a delta without text", events([[1, "delta", { attempt: 1, seq: 0 }]])],
    ["a status nobody knows", events([[1, "status", { status: "sleeping", attempt: 1 }]])],
    ["another job", events([[1, "done", { id: "11111111-2222-4333-8444-555555555555" }]])],
    ["no event stream", reply(200, {})],
  ])("%s is a ProtocolError", async (_what, fault) => {
    const router = await RouterServer.start(says("hello"));
    router.fail(EVENTS, fault);
    expect(await rejection(all(router.client().stream(PROMPT)))).toBeInstanceOf(ProtocolError);
  });
});
