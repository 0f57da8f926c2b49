import { describe, expect, it } from "vitest";
import {
  InvalidOptionError,
  type JobEvent,
  JobFailedError,
  JobTimeoutError,
  NotFoundError,
  ProtocolError,
  UnexpectedOutputError,
} from "../../../src/sdk/index.ts";
import { hang, rejection, reply, reset } from "./support/faults.ts";
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
const ANOTHER_JOB = {
  ...{ id: "11111111-2222-4333-8444-555555555555", status: "completed", result: { output: "hello" }, receipt: null },
  ...{ created_at: "2026-01-01T00:00:00.000Z", completed_at: "2026-01-01T00:00:01.000Z" },
};

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

  it.each([
    ["ends each stream at once", events([]), {}],
    ["keeps each stream back", hang, { requestTimeout: 1_000 }],
  ])("[API6] a job behind a proxy that %s is polled after three tries", async (_what, fault, options) => {
    const router = await RouterServer.start(says("hello"));
    router.fail(EVENTS, ...Array.from({ length: 1_000 }, () => fault));
    expect(await all(router.client({ timeout: 20_000, maxRetries: 0, ...options }).stream(PROMPT))).toMatchObject([
      { type: "job" },
      { type: "status", status: "completed", attempt: null },
      { type: "done", result: { output: "hello" } },
    ]);
    expect(router.received.filter(({ path }) => path.endsWith("/events"))).toHaveLength(3);
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
    ["another job", events([[1, "done", ANOTHER_JOB]])],
    ["no event stream", reply(200, {})],
  ])("%s is a ProtocolError", async (_what, fault) => {
    const router = await RouterServer.start(says("hello"));
    router.fail(EVENTS, fault);
    expect(await rejection(all(router.client().stream(PROMPT)))).toBeInstanceOf(ProtocolError);
  });
});

async function pieces(text: AsyncIterable<string>): Promise<string[]> {
  const given: string[] = [];
  for await (const piece of text) given.push(piece);
  return given;
}

/** Pieces of a million characters without end. */
const endlessText: Fault = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  let seq = 0;
  const more = (): void => {
    if (response.destroyed) return;
    const [id, event, data] = delta(seq++, "x".repeat(1_000_000));
    response.write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`, more);
  };
  more();
};

const gone: [number, string, object] = [5, "reset", { attempt: 1 }];

describe("the text of a stream, and its result", () => {
  it("[API6] yields the text as it comes, what was not streamed at the end, and then the verified result", async () => {
    const router = await RouterServer.start(says("hello there"));
    router.fail(EVENTS, whole(router, [RUNNING, delta(0, "hel"), delta(1, "lo")]));
    const { text, result } = router.client().stream(PROMPT);
    expect(await pieces(text)).toEqual(["hel", "lo", " there"]);
    expect(await result).toMatchObject({ output: "hello there", verified: true, price: "$0.010" });
    expect(router.jobs.size).toBe(1);
  });

  it("each form alone runs the job, every reader sees it whole, and all of them make one job", async () => {
    const router = await RouterServer.start(says("hello"));
    expect(await router.client().stream(PROMPT).result).toMatchObject({ output: "hello", verified: true });
    expect(await pieces(router.client().stream(PROMPT).text)).toEqual(["hello"]);
    expect(router.jobs.size).toBe(2);
    const stream = router.client().stream(PROMPT);
    const [first, result, told] = [pieces(stream.text), stream.result, all(stream)];
    expect([await first, (await result).output, (await told).at(-1)?.type]).toEqual([["hello"], "hello", "done"]);
    expect(await pieces(stream.text)).toEqual(["hello"]);
    expect(router.jobs.size).toBe(3);
  });

  it("[API6] nothing is sent before one of the forms is read", async () => {
    const router = await RouterServer.start(says("hello"));
    const stream = router.client().stream(PROMPT);
    const { text } = stream;
    await router.client().health();
    expect(router.received.map(({ path }) => path)).toEqual(["/v1/health"]);
    expect(await pieces(text)).toEqual(["hello"]);
  });

  it("[API6] text that is repeated after a reset is given once", async () => {
    const router = await RouterServer.start(says("hello there"));
    router.fail(
      EVENTS,
      whole(router, [
        delta(0, "hel"),
        delta(1, "lo"),
        gone,
        [6, "delta", { attempt: 1, seq: 0, delta: "he" }],
        [7, "delta", { attempt: 1, seq: 1, delta: "llo th" }],
      ]),
    );
    expect(await pieces(router.client().stream(PROMPT).text)).toEqual(["hel", "lo", " th", "ere"]);
  });

  it("[API6] text without its beginning is not given; the result has all of it", async () => {
    const router = await RouterServer.start(says("hello there"));
    router.fail(EVENTS, whole(router, [gone, [6, "delta", { attempt: 1, seq: 4, delta: "there" }]]));
    expect(await pieces(router.client().stream(PROMPT).text)).toEqual(["hello there"]);
  });

  it("[JB6] another worker's other text is an error of the loop, and the result is there all the same", async () => {
    const router = await RouterServer.start(says("good bye"));
    router.fail(
      EVENTS,
      whole(router, [delta(0, "hello"), gone, [6, "delta", { attempt: 2, seq: 0, delta: "good " }], [7, "delta", { attempt: 2, seq: 1, delta: "b" }]]),
    );
    const stream = router.client().stream(PROMPT);
    const error = await rejection(pieces(stream.text));
    expect(error).toBeInstanceOf(UnexpectedOutputError);
    expect(error).toMatchObject({ result: { output: "good bye" }, message: expect.stringContaining("another worker has finished the job") });
    expect(await stream.result).toMatchObject({ output: "good bye", verified: true });
  });

  it("the output of a task has no text", async () => {
    const router = await RouterServer.start({ statuses: [], work: () => ({ output: { extracted: [], count: 0 } }) });
    const stream = router.client().stream({ job_type: "TASK", task_type: "extract_json", input: "[]" });
    expect(await rejection(pieces(stream.text))).toBeInstanceOf(UnexpectedOutputError);
    expect((await stream.result).output).toEqual({ extracted: [], count: 0 });
  });

  it("[JB5] a failed job throws in the loop, and rejects a result that was only taken without an unhandled rejection", async () => {
    const router = await RouterServer.start({ statuses: [], work: () => ({ error: "worker_lost" }) });
    const { text, result } = router.client().stream(PROMPT);
    expect(await rejection(pieces(text))).toBeInstanceOf(JobFailedError);
    expect(await rejection(result)).toBeInstanceOf(JobFailedError);
  });

  it("[API6] after the loop is left, the connection closes, and the result waits for the job", async () => {
    const router = await RouterServer.start(says("hello"));
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    router.fail(EVENTS, (response, request, proceed) => {
      response.on("close", resolve);
      events([RUNNING, delta(0, "hel")], "hang")(response, request, proceed);
    });
    const stream = router.client().stream(PROMPT);
    for await (const piece of stream.text) if (piece !== "") break;
    await closed;
    expect(await stream.result).toMatchObject({ output: "hello", verified: true, price: "$0.010" });
    expect(router.jobs.size).toBe(1);
    // Nobody follows it any more, so the rest of the text would be missing.
    expect(await rejection(pieces(stream.text))).toBeInstanceOf(ProtocolError);
  });

  it("[API6] a worker that writes text without end does not cost the result: the stream is left, and the job is polled", async () => {
    const router = await RouterServer.start(says("hello"));
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    router.fail(EVENTS, (response, request, proceed) => {
      response.on("close", resolve);
      endlessText(response, request, proceed);
    });
    const stream = router.client().stream(PROMPT);
    const text = rejection(pieces(stream.text));
    expect(await stream.result).toMatchObject({ output: "hello", verified: true });
    await closed;
    const error = await text;
    expect(error).toBeInstanceOf(UnexpectedOutputError);
    expect(error.message).not.toContain("another worker");
  });

  it("[API6] a router that sends events without end, and whose job does not end, is a timeout that names the job", async () => {
    const router = await RouterServer.start({ statuses: Array.from({ length: 1_000 }, () => "running" as const) });
    router.fail(EVENTS, endlessText);
    const { jobId } = await router.client().submit(PROMPT);
    const error = await rejection(router.client().stream(jobId, { timeout: 1_000 }).result);
    expect(error).toMatchObject({ name: "JobTimeoutError", jobId, message: expect.stringContaining(jobId) });
  });
});
