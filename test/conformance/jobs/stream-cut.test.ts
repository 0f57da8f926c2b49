// Connections that are cut in the middle of a stream, and resumed by the SDK [API6].
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { ComputeRouter, type JobEvent } from "../../../src/sdk/index.ts";
import { CutProxy } from "../../support/cut-proxy.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { within } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await share();
});

test("[API6] a stream that is cut twice goes on after the last event: each piece comes once, the result is verified, and there is one job", async () => {
  const proxy = await CutProxy.start(evm.port);
  onTestFinished(() => proxy.close());
  const worker = await fullWorker(evm.socketUrl);
  /** The `Last-Event-ID` of each connection to the stream. */
  const asked: (string | null)[] = [];
  const commits: string[] = [];
  const watched: typeof fetch = async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    if (pathname.endsWith("/events")) asked.push(new Headers(init?.headers).get("last-event-id"));
    if (pathname.includes("/commit/")) commits.push(pathname);
    return fetch(input, init);
  };
  const stream = new ComputeRouter({ baseUrl: proxy.url, fetch: watched, retryDelay: 20 }).stream({ job_type: "LLM_INFER", prompt: "Count." });
  const pieces: string[] = [];
  const events: JobEvent[] = [];
  const read = Promise.all([
    (async () => {
      for await (const piece of stream.text) pieces.push(piece);
    })(),
    (async () => {
      for await (const event of stream) events.push(event);
    })(),
  ]);
  const shows = (text: string) =>
    within(
      10_000,
      () => (pieces.join("") === text ? true : undefined),
      () => `"${text}", got ${JSON.stringify(pieces)}`,
    );
  const connected = (times: number) =>
    within(
      10_000,
      () => (asked.length === times ? true : undefined),
      () => `${times} connections, got ${asked.length}`,
    );

  const assign = await worker.frame("job_assign");
  worker.ack(assign);
  worker.progress(assign, 0, "One ");
  await shows("One ");
  proxy.cut();
  worker.progress(assign, 1, "two ");
  await shows("One two ");
  proxy.cut();
  await connected(3);
  worker.progress(assign, 2, "three");
  await worker.complete(String(assign.job_id), "One two three.");
  await read;

  expect(pieces.join("")).toBe("One two three.");
  expect(await stream.result).toMatchObject({ jobId: assign.job_id, output: "One two three.", verified: true });
  expect(events.filter(({ type }) => type === "reset")).toEqual([]);
  expect(events.flatMap((event) => (event.type === "delta" ? [event.seq] : []))).toEqual([0, 1, 2]);
  expect(asked[0]).toBeNull();
  const [, second, third] = asked.map(Number);
  expect(second).toBeGreaterThan(0);
  expect(third).toBeGreaterThan(second ?? 0);
  expect(commits).toHaveLength(1);
});
