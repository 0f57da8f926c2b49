import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { TestHub } from "../support/worker-hub.ts";
import type { TestWorker } from "../support/worker.ts";

const PRIVATE = { user_id: "alice", privacy_class: "PRIVATE" };

/** Writes the rows that so many keys leave when each of them signs once and goes. */
async function othersSigned(hub: TestHub, count: number): Promise<void> {
  await hub.stub.workersOnline();
  await hub.sql(`INSERT INTO keys (key, authenticated_at, last_seen) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    SELECT 'other' || i, ${Date.now()}, ${Date.now()} + i FROM n`);
}

async function signsAndLeaves(hub: TestHub): Promise<TestWorker> {
  const worker = await hub.worker({ signed: true });
  worker.close();
  await hub.online(0);
  return worker;
}

describe("WORKER_AUTH=optional, and more keys sign than a hub remembers", () => {
  test("[WS5] a key that has signed must go on signing, however many others sign after it", async () => {
    const hub = new TestHub();
    const { key } = await signsAndLeaves(hub);
    await othersSigned(hub, LIMITS.newKeys - 1);
    for (let n = 0; n < 3; n++) await signsAndLeaves(hub);
    await expect((await hub.connect(key)).register()).rejects.toThrow("auth_required");
    expect(await hub.sql("SELECT key FROM keys WHERE key LIKE 'other%'")).toHaveLength(LIMITS.newKeys - 1);
  });

  test("[WS5] [JB8] from then on workers get no PRIVATE jobs unless they sign, the hub's memory lost or not", async () => {
    const hub = new TestHub();
    await othersSigned(hub, LIMITS.newKeys);
    const { key } = await signsAndLeaves(hub);
    await hub.pair("alice", key.publicKey);
    const stranger = await hub.worker({ key });
    for (const forget of [false, true]) {
      if (forget) await hub.evict();
      expect((await hub.post("cheap", PRIVATE)).status).toBe(422);
    }
    await hub.commit();
    await stranger.complete(await stranger.assigned());
    const owner = await hub.worker({ key, signed: true });
    const id = await hub.commit("cheap", PRIVATE);
    expect((await owner.assigned()).job_id).toBe(id);
  });

  test("[WS7] a worker that has signed is not replaced by one that does not, also if its key has no place and it was silent", async () => {
    const hub = new TestHub();
    await othersSigned(hub, LIMITS.newKeys);
    const { key } = await hub.worker({ signed: true });
    hub.skip(TIMING.alive + 1);
    await expect((await hub.connect(key)).register()).rejects.toThrow("auth_required");
  });

  test("[WS5] a key that completes a job is remembered, although there was no place for it before and the hub dies before it leaves", async () => {
    const hub = new TestHub();
    await othersSigned(hub, LIMITS.newKeys);
    const worker = await hub.worker({ signed: true });
    const id = await hub.commit();
    await worker.complete(await worker.assigned());
    await hub.recorded(id, "completed");
    await hub.abort();
    await expect((await hub.connect(worker.key)).register()).rejects.toThrow("auth_required");
  });

  test("[WS5] [LM3] 30 days after the last key without a place, workers that do not sign get PRIVATE jobs again", async () => {
    const hub = new TestHub();
    hub.skip(0);
    await othersSigned(hub, LIMITS.newKeys);
    await signsAndLeaves(hub);
    const wakeAfter = async (ms: number): Promise<void> => {
      hub.skip(ms);
      for (let n = 0; n < 2; n++) await hub.stub.wake();
    };
    await wakeAfter(TIMING.authenticatedKey - 1_000);
    const early = await hub.worker();
    await hub.pair("bob", early.key.publicKey);
    const secret = { ...PRIVATE, user_id: "bob" };
    expect((await hub.post("cheap", secret)).status).toBe(422);
    early.close();
    await hub.online(0);
    await wakeAfter(LIMITS.newKeys + 2_000);
    const late = await hub.worker({ key: early.key });
    const id = await hub.commit("cheap", secret);
    expect((await late.assigned()).job_id).toBe(id);
    expect(await hub.sql("SELECT key FROM keys")).toEqual([]);
  });
});
