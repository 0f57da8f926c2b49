import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Coordinator, INSTANCES } from "../../scripts/coordinator-process.ts";

import { launchCoordinator } from "../support/coordinator.ts";
import { foreignDialect, PlainWorker } from "../support/plain-worker.ts";
import { commit, ended, get, post, task } from "../support/rest.ts";
import { until } from "../support/until.ts";

describe.each(INSTANCES)("a worker written from the specification alone, on %s", (instance) => {
  let coordinator: Coordinator;
  const workers: PlainWorker[] = [];
  beforeAll(async () => {
    coordinator = await launchCoordinator(instance);
  });
  afterEach(async () => {
    for (const worker of workers.splice(0)) worker.close();
    await until("empty coordinator", async () => ((await online()) === 0 ? true : undefined));
  });

  async function online(): Promise<unknown> {
    return (await get(`${coordinator.url}/v1/health`)).body.workers_online;
  }

  async function join(kind?: "DESKTOP" | "MOBILE"): Promise<PlainWorker> {
    const worker = new PlainWorker(coordinator.socketUrl, { ...(kind !== undefined && { kind }) });
    workers.push(worker);
    expect(await worker.connect()).toMatchObject({ status: "ok", authenticated: false, heartbeat_interval_ms: 10_000 });
    return worker;
  }

  it("[WS5] registers without a signature on a testnet instance and is counted", async () => {
    await join();
    expect(await online()).toBe(1);
  });

  it("[WS8, WS10] is assigned a TASK and an LLM_INFER job, and its results are stored with their receipts", async () => {
    const worker = await join();
    worker.serve();
    const body = task("Some words.");
    const taskId = await commit(coordinator.url, "cheap", body);
    const llmId = await commit(coordinator.url, "fast", { job_type: "LLM_INFER", payload: { prompt: "Hello?" } });

    const done = await ended(coordinator.url, taskId);
    expect(done).toMatchObject({ id: taskId, status: "completed", result: { summary: "short", word_count: 1 } });
    expect(done.receipt).toMatchObject({ job_id: taskId, provider_pubkey: worker.publicKey, payment_ref: null });
    expect(Date.parse(done.completed_at ?? "")).toBeGreaterThanOrEqual(Date.parse(done.created_at));
    // [JB7]
    expect(await ended(coordinator.url, llmId)).toMatchObject({ status: "completed", result: { output: "an answer" } });

    const { payload, ...assign } = await worker.assigned(taskId);
    expect(payload).toEqual(body.payload);
    expect(assign).toMatchObject({ job_id: taskId, job_type: "TASK", policy: "CHEAP", privacy_class: "PUBLIC", attempt: 1 });
    expect(assign).not.toHaveProperty("user_id");
    // An absent payload.job_type is added.
    expect((await worker.assigned(llmId)).payload).toEqual({ job_type: "LLM_INFER", prompt: "Hello?" });
    expect(await worker.frame("job_complete_ack", (frame) => frame.job_id === taskId)).toMatchObject({ status: "accepted" });
  });

  it("[RC4] that signs other bytes in hex gets its jobs done too, and the receipt is what was sent", async () => {
    const worker = await join();
    worker.serve(foreignDialect);
    const job = await ended(coordinator.url, await commit(coordinator.url, "cheap", task("Some words.")));
    expect(job.status).toBe("completed");
    expect(job.receipt).toMatchObject({ provider_pubkey: worker.publicKey, signature: expect.stringMatching(/^[A-Za-z0-9+/]{86}==$/) });
  });

  it("[WS3] of the mobile kind gets TASK only", async () => {
    const mobile = await join("MOBILE");
    const desktop = await join("DESKTOP");
    mobile.serve();
    desktop.serve();
    const jobs = await Promise.all(
      Array.from({ length: 4 }, async (_, index) => commit(coordinator.url, "fast", { job_type: "LLM_INFER", payload: { prompt: `number ${index}` } })),
    );
    for (const id of jobs) expect((await ended(coordinator.url, id)).receipt?.provider_pubkey).toBe(desktop.publicKey);
    expect(mobile.frames.filter((frame) => frame.type === "job_assign")).toEqual([]);
  });

  it("[JB8, TR4] is paired without a signature and is the only one to get its user's PRIVATE jobs", async () => {
    const stranger = await join();
    stranger.serve();
    const body = { ...task("Only for my own machine."), user_id: "plain-private", privacy_class: "PRIVATE" };
    const refused = await post(`${coordinator.url}/v1/jobs/commit/cheap`, body);
    expect(refused).toMatchObject({ status: 422, body: { error: "no_trusted_worker", job_id: expect.any(String) } });
    expect((await ended(coordinator.url, String(refused.body.job_id))).result).toEqual({ error: "no_trusted_worker" });

    const own = await join();
    own.serve();
    const created = await post(`${coordinator.url}/v1/trust/create`, { user_id: "plain-private" });
    expect(created).toMatchObject({ status: 201, body: { pairing_code: expect.stringMatching(/^[0-9A-F]{6}$/) } });
    const claim = { pairing_code: created.body.pairing_code, provider_pubkey: own.publicKey };
    expect(await post(`${coordinator.url}/v1/trust/claim`, claim)).toMatchObject({ status: 200, body: { user_id: "plain-private" } });
    expect(await post(`${coordinator.url}/v1/trust/claim`, claim)).toEqual({ status: 400, body: { error: "already_claimed" } });

    const accepted = await post(`${coordinator.url}/v1/jobs/commit/cheap`, body);
    expect(accepted.status).toBe(201);
    const job = await ended(coordinator.url, String(accepted.body.job_id));
    expect(job).toMatchObject({ status: "completed", receipt: { provider_pubkey: own.publicKey } });
    expect(stranger.frames.filter((frame) => frame.type === "job_assign")).toEqual([]);
  });
});

describe("a coordinator that is not a testnet", () => {
  let coordinator: Coordinator;
  beforeAll(async () => {
    coordinator = await launchCoordinator("evm", { TESTNET_MODE: "false" });
  });

  it("[WS5] refuses a worker that does not sign, with close code 4401", async () => {
    const worker = new PlainWorker(coordinator.socketUrl);
    expect(await worker.connect()).toEqual({ type: "register_ack", status: "error", error: "auth_required" });
    await until("close", () => worker.closed ?? undefined);
    expect(worker.closed?.code).toBe(4401);
  });

  it("[PY1, PY4] answers a commit without payment 402, and nothing else is gated", async () => {
    const answer = await post(`${coordinator.url}/v1/jobs/commit/fast`, {});
    expect(answer).toMatchObject({
      status: 402,
      body: { error: expect.any(String), accepts: [{ scheme: "exact", price: "$0.010", network: "eip155:10143" }] },
    });
    expect((await get(`${coordinator.url}/v1/quote?job_type=TASK`)).status).toBe(200);
  });
});
