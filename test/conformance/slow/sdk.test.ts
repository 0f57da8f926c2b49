import { beforeAll, describe, expect, test } from "vitest";
import { ComputeRouter, type JobInput, NoEligibleWorkerError } from "../../../src/sdk/index.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { stopwatch } from "../support/wait.ts";
import { keepSocketsOpen, specWorker } from "../support/worker.ts";

keepSocketsOpen();
const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const summarize = (input: string): JobInput => ({ job_type: "TASK", task_type: "summarize", input });

let evm: Subject;
let limited: Subject;

beforeAll(async () => {
  [evm, limited] = await Promise.all([start("evm"), start("evm", { TESTNET_MODE: "true", RATE_LIMITS: "on", POLLS_PER_TEN_SECONDS: "4" })]);
});

/** Returns the error of a rejected promise; fails the test if the promise resolves. */
async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => expect.unreachable(`resolved to ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
}

describe.concurrent("the SDK in the reference client's own times", () => {
  test("[SPEC] a TASK that nobody takes is told as such, not as a time-out: run, stream and waitFor", { timeout: 60_000 }, async () => {
    const clock = stopwatch();
    const client = new ComputeRouter({ baseUrl: evm.url });
    const streamed = async (): Promise<void> => {
      for await (const event of client.stream(CLASSIFY)) expect(event.type).not.toBe("done");
    };
    const { jobId } = await client.submit(CLASSIFY);
    const errors = await Promise.all([client.run(CLASSIFY), streamed(), client.waitFor(jobId, { timeout: 30_000 })].map(rejection));
    for (const error of errors) expect(error).toBeInstanceOf(NoEligibleWorkerError);
    expect(errors[0]).toMatchObject({ code: "no_eligible_worker", jobId: expect.any(String), message: expect.stringContaining("no_eligible_worker") });
    expect(clock()).toBeLessThan(38_000);
  });

  test("[SPEC] a job that is completed during the last look is a result", { timeout: 60_000 }, async () => {
    const worker = await specWorker(evm.socketUrl, { capabilities: ["LLM_INFER"] });
    let looked = (): void => {};
    const lastLook = new Promise<void>((resolve) => (looked = resolve));
    const telling: typeof fetch = (input, init) => {
      if (typeof input === "string" && input.includes("wait=")) looked();
      return fetch(input, init);
    };
    const client = new ComputeRouter({ baseUrl: evm.url, fetch: telling });
    const seen: string[] = [];
    const run = client.llm("Hi", { timeout: 30_000, onUpdate: ({ status }) => seen.push(status) });
    const { job_id } = await worker.frame("job_assign");
    await lastLook;
    await worker.complete(String(job_id), { text: "Hello" });
    expect(await run).toMatchObject({ output: "Hello", result: { text: "Hello" }, verified: true, jobId: job_id, price: "$0.010" });
    expect(seen.filter((status) => status === "completed")).toHaveLength(1);
  });

  test("[LM2] map waits out the router's 429 and gives every result, in order", { timeout: 180_000 }, async () => {
    const worker = new PlainWorker(limited.socketUrl);
    await worker.connect();
    worker.serve();
    let refused = 0;
    const counting: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (response.status === 429) refused += 1;
      return response;
    };
    const inputs = ["a", "b", "c", "d", "e"];
    const results = await new ComputeRouter({ baseUrl: limited.url, fetch: counting }).map(inputs.map(summarize), { concurrency: 4 });
    expect(results.map((one) => (one.status === "fulfilled" ? one.value.output : one.reason))).toEqual(inputs.map(() => ({ summary: "short", word_count: 1 })));
    expect(new Set(results.map((one) => one.status === "fulfilled" && one.value.jobId)).size).toBe(inputs.length);
    expect(refused).toBeGreaterThan(0);
    worker.close();
  });
});
