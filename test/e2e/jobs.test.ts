import { beforeAll, describe, expect, it } from "vitest";
import { ComputeRouter, NoTrustedWorkerError } from "../../src/sdk/index.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { type DesktopWorkerProcess, launchDesktopWorker } from "../support/desktop-worker.ts";
import { get } from "../support/rest.ts";
import { runHere } from "../unit/worker/support/cli-here.ts";

let coordinator: CoordinatorHere;
let worker: DesktopWorkerProcess;
let key = "";

beforeAll(async () => {
  coordinator = await shareCoordinator("evm");
  worker = launchDesktopWorker(coordinator.socketUrl, { llm: true });
  key = String((await worker.note("starting")).provider_pubkey);
  expect(await worker.note("online")).toMatchObject({ authenticated: true, tier: "Open" });
  await worker.note("runtime_ready");
});

// On one instance; start.test.ts runs every kind of job on both.
describe("SDK → coordinator → desktop worker", () => {
  const client = (options: { userId?: string } = {}): ComputeRouter => new ComputeRouter({ baseUrl: coordinator.url, pollInterval: 50, ...options });

  it("[JB7, RC1] an LLM_INFER job gives real tokens of a real model, with a receipt that holds", async () => {
    const result = await client().run({ job_type: "LLM_INFER", prompt: "What is the capital of France?", max_tokens: 64 });
    expect(result).toMatchObject({ source: "router", output: "The capital of France is Paris.", verified: true, price: "$0.010", status: "completed" });
    expect(result.result).toEqual({
      finish_reason: "stop",
      model: "tiny-chat-q8_0",
      output: "The capital of France is Paris.",
      usage: { prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) },
    });
    expect(result.receipt).toMatchObject({ job_id: result.jobId, provider_pubkey: key, payment_ref: null });
  });

  it("[API9] the stream that a client of OpenAI's API saves of such a job can be verified by its reader", async () => {
    const answer = await fetch(`${coordinator.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "auto", messages: [{ role: "user", content: "What is the capital of France?" }], stream: true }),
    });
    expect(await runHere(["verify", "--job", "-"], { input: await answer.text() })).toMatchObject({ code: 0, stdout: expect.stringContaining(key) });
  });

  it("[JB8, TR1] a PRIVATE job is refused until its user has paired with the worker, and then done by it", async () => {
    const router = client();
    const job = { job_type: "TASK", task_type: "classify", input: "Mine alone, and I love it." } as const;
    const refusal = await router.run(job, { privacy: "PRIVATE" }).then(
      () => null,
      (error: unknown) => error,
    );
    expect(refusal).toBeInstanceOf(NoTrustedWorkerError);
    expect(String(refusal)).toContain("no_trusted_worker");

    const { pairing_code } = await router.trust.create();
    // As the worker's owner would: with the worker's key, which signs the claim [TR4].
    const claim = await runHere(["pair", "claim", pairing_code, "--url", coordinator.url, "--config-dir", worker.folder]);
    expect(claim).toMatchObject({ code: 0, stderr: "" });
    expect((await router.trust.list()).providers).toMatchObject([{ provider_pubkey: key }]);

    expect(await router.run(job, { privacy: "PRIVATE" })).toMatchObject({ verified: true, receipt: { provider_pubkey: key } });
    // The pairing is one user's.
    await expect(client().run(job, { privacy: "PRIVATE" })).rejects.toBeInstanceOf(NoTrustedWorkerError);
  });
});

describe("a desktop worker", () => {
  it("[WS11] that is told to end finishes, says goodbye and is no longer counted", async () => {
    const { child } = worker;
    process.kill(child.pid, "SIGTERM");
    expect(await child.exited).toBe(0);
    expect((await get(`${coordinator.url}/v1/health`)).body.workers_online).toBe(0);
  });
});
