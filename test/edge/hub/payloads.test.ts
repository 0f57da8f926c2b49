import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import type { JobAssign } from "../../../src/protocol/worker-messages.ts";
import { TestHub } from "../support/worker-hub.ts";
import type { TestWorker } from "../support/worker.ts";

/** A prompt that can be searched for. */
const SECRET = "the-prompt-of-this-test";
const FIELDS = { payload: { task_type: "summarize", input: SECRET } };

/** The payload in the hub's row and in D1's; null where there is no row. */
async function payloads(hub: TestHub, id: string): Promise<{ hub: string | null; d1: string | null }> {
  const [row] = await hub.sql<{ payload: string }>(`SELECT payload FROM jobs WHERE id = '${id}'`);
  const d1 = await env.DB.prepare("SELECT payload FROM jobs WHERE id = ?").bind(id).first<string>("payload");
  return { hub: row?.payload ?? null, d1 };
}

/** The worker says that the job cannot be done. */
function fail(worker: TestWorker, { job_id, attempt }: JobAssign): void {
  worker.send({ type: "job_failed", job_id, attempt, error: "worker_error", retryable: false });
}

/** Lets the claim window of the only job pass. */
const expire = (hub: TestHub) => hub.pass(TIMING.claimWindow);

describe("the payload of a job that ended and that no worker started", () => {
  test("[LM3] nobody took it: erased in D1, where it was while it waited, and the answer is that of any failed job", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit("cheap", FIELDS);
    expect((await hub.recorded(id, "pending")).payload).toContain(SECRET);
    await expire(hub);
    expect((await hub.recorded(id, "failed")).payload).toBe("");
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" }, receipt: null, completed_at: null });
  });

  test("[LM3] with D1 down it is erased in the hub at once, and never reaches D1", async () => {
    const hub = new TestHub();
    hub.skip(0);
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    const id = await hub.commit("cheap", FIELDS);
    expect((await payloads(hub, id)).hub).toContain(SECRET);
    await expire(hub);
    expect(await payloads(hub, id)).toEqual({ hub: "", d1: null });
    await hub.healD1();
    await hub.pass(2_000);
    expect((await hub.recorded(id, "failed")).payload).toBe("");
  });

  test("[JB8] [LM3] a PRIVATE job that is refused is never written with it", async () => {
    const hub = new TestHub();
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    const { status, body } = await hub.post("cheap", { ...FIELDS, privacy_class: "PRIVATE" });
    expect(status).toBe(422);
    expect(await payloads(hub, String(body.job_id))).toEqual({ hub: "", d1: null });
    expect(await hub.job(String(body.job_id))).toMatchObject({ status: "failed", result: { error: "no_trusted_worker" } });
  });

  test("[LM3] a worker that gave it back unstarted, or never acknowledged it, has not started it", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit("cheap", FIELDS);
    const job = await worker.assigned({ acks: false });
    worker.send({ type: "job_reject", job_id: job.job_id, reason: "busy" });
    await hub.recorded(id, "pending");
    await hub.pass(TIMING.retryTick);
    await worker.assigned({ acks: false });
    worker.close();
    await hub.online(0);
    await hub.pass(TIMING.grace);
    await expire(hub);
    expect((await hub.recorded(id, "failed")).payload).toBe("");
  });
});

describe("the payload of a job that a worker started", () => {
  const starts: [string, (hub: TestHub) => Promise<TestWorker>, (worker: TestWorker) => Promise<unknown>][] = [
    ["acknowledged it", (hub) => hub.worker(), async (worker) => fail(worker, await worker.assigned())],
    [
      "sent progress",
      (hub) => hub.worker(),
      async (worker) => {
        const job = await worker.assigned({ acks: false });
        worker.send({ type: "job_progress", job_id: job.job_id, attempt: job.attempt, seq: 0, delta: "a" });
        fail(worker, job);
      },
    ],
    ["does not announce ack, and was assigned it", (hub) => hub.plainWorker(), async (worker) => fail(worker, await worker.assigned())],
    ["completed it and never acknowledged it", (hub) => hub.worker(), async (worker) => worker.complete(await worker.assigned({ acks: false }))],
  ];
  for (const [what, connect, work] of starts) {
    test(`[LM3] a worker that ${what}: it stays, as its result does`, async () => {
      const hub = new TestHub();
      const worker = await connect(hub);
      const id = await hub.commit("cheap", FIELDS);
      await work(worker);
      const row = await hub.recorded(id, what.startsWith("completed") ? "completed" : "failed");
      expect(row.payload).toContain(SECRET);
    });
  }

  test("[LM3] a hub that lost its memory still knows that it was started", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit("cheap", FIELDS);
    const job = await worker.assigned();
    await hub.recorded(id, "running");
    await hub.evict();
    fail(worker, job);
    expect((await hub.recorded(id, "failed")).payload).toContain(SECRET);
  });
});
