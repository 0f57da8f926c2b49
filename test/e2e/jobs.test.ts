import { beforeAll, describe, expect, it } from "vitest";
import { ComputeRouter, NoTrustedWorkerError } from "../../src/sdk/index.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { type DesktopWorkerProcess, launchDesktopWorker } from "../support/desktop-worker.ts";
import { PlainWorker } from "../support/plain-worker.ts";
import { commit, ended, get, task } from "../support/rest.ts";
import { until } from "../support/until.ts";
import { runHere } from "../unit/worker/support/cli-here.ts";

const PROSE =
  "The bridge was closed for two years while the arches were rebuilt. Traders on both banks lost most of their customers. " +
  "It reopened on Sunday, and the first market in two years was wonderful: thousands came, and every stall was happy.";

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

  it("[SPEC health, quote] shows the worker and names the price", async () => {
    expect(await client().health()).toMatchObject({ status: "ok", workers_online: 1, network: "eip155:10143" });
    expect(await client().quote("TASK")).toEqual({
      price: "$0.001",
      endpoint: "/v1/jobs/commit/cheap",
      policy_resolved: "CHEAP",
      network: "eip155:10143",
      expires_at: null,
    });
  });

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

  it.each([{}, { stream: true }, { stream: true, stream_options: { include_usage: true } }])(
    "[API9] what a client of OpenAI's API saves of such a job can be verified by its reader: %j",
    async (how) => {
      const answer = await fetch(`${coordinator.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "auto", messages: [{ role: "user", content: "What is the capital of France?" }], ...how }),
      });
      expect(await runHere(["verify", "--job", "-"], { input: await answer.text() })).toMatchObject({ code: 0, stdout: expect.stringContaining(key) });
    },
  );

  it.each([
    ["summarize", PROSE, { summary: expect.stringMatching(/\S/), word_count: expect.any(Number) }],
    ["classify", PROSE, { sentiment: "positive", confidence: expect.any(Number) }],
    ["extract_json", "Invoice No: 17\nTotal due: EUR 12.50\nDate: 2026-03-14", { extracted: expect.any(Array), count: expect.any(Number) }],
  ] as const)("[SPEC task outputs, RC2] %s gives its shape, with a receipt that holds", async (task_type, input, output) => {
    const result = await client().run({ job_type: "TASK", task_type, input });
    expect(result).toMatchObject({ verified: true, price: "$0.001", receipt: { provider_pubkey: key } });
    expect(result.output).toEqual(output);
  });

  it("[API6] a commit that prefers to wait is answered with its finished job", async () => {
    const response = await fetch(`${coordinator.url}/v1/jobs/commit/cheap`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "wait=20" },
      body: JSON.stringify({ job_type: "TASK", user_id: "e2e", payload: { task_type: "classify", input: "What a lovely day." } }),
    });
    expect(response.status).toBe(201);
    expect(response.headers.get("preference-applied")).toBe("wait=20");
    expect(await response.json()).toMatchObject({ job: { status: "completed", receipt: { provider_pubkey: key } } });
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
  it("[JB4] takes over the job of a worker that vanished, once the grace to come back is over", async () => {
    const { url, socketUrl } = coordinator;
    const lost = new PlainWorker(socketUrl, { acks: true });
    await lost.connect();
    // Beside a proven worker a new one gets one job in five [JB11].
    const isAssigned = (id: string) => lost.frames.some((frame) => frame.type === "job_assign" && frame.job_id === id);
    const id = await until("job of the new worker", async () => {
      const next = await commit(url, "cheap", task("Who will do this?", "classify"));
      const hasLeft = async () => (isAssigned(next) || (await get(`${url}/v1/jobs/${next}`)).body.status === "completed" ? true : undefined);
      await until("worker for the job", hasLeft);
      return isAssigned(next) ? next : undefined;
    });
    lost.close();
    const job = await ended(url, id);
    expect(job).toMatchObject({ status: "completed", receipt: { provider_pubkey: key } });
  });

  it("[WS11] that is told to end finishes, says goodbye and is no longer counted", async () => {
    const { child } = worker;
    process.kill(child.pid, "SIGTERM");
    expect(await child.exited).toBe(0);
    expect((await get(`${coordinator.url}/v1/health`)).body.workers_online).toBe(0);
  });
});
