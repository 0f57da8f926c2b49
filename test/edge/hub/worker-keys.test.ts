import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { TestHub, withSettings } from "../support/worker-hub.ts";

withSettings({ WORKER_AUTH: "required", RECEIPT_POLICY: "strict" });

const keys = (hub: TestHub) => hub.sql<{ key: string }>("SELECT key FROM keys ORDER BY last_seen").then((rows) => rows.map(({ key }) => key));

/** Has a new worker complete or fail a job, and leave. Returns its key. */
async function worked(hub: TestHub, how: "completes" | "fails"): Promise<string> {
  const worker = await hub.worker({ signed: true });
  const id = await hub.commit("cheap", { user_id: crypto.randomUUID() });
  const { job_id, attempt } = await worker.assigned();
  if (how === "completes") await worker.complete({ job_id, attempt });
  else worker.send({ type: "job_failed", job_id, attempt, error: "worker_error", retryable: false });
  await hub.recorded(id, how === "completes" ? "completed" : "failed");
  worker.close();
  await hub.online(0);
  return worker.key.publicKey;
}

describe("the keys that a hub remembers", () => {
  test("[LM3] fresh keys that only register, and give a job back unstarted, leave no row; a completed job, a failed one and a strike do", async () => {
    const hub = new TestHub();
    for (let n = 0; n < 10; n++) (await hub.worker({ signed: true })).close();
    await hub.online(0);
    const rejects = await hub.worker({ signed: true });
    await hub.commit();
    rejects.send({ type: "job_reject", job_id: (await rejects.assigned({ acks: false })).job_id, reason: "busy" });
    await rejects.quiet();
    rejects.close();
    await hub.online(0);
    expect(await keys(hub)).toEqual([]);
    const strikes = await hub.worker({ signed: true });
    await strikes.complete(await strikes.assigned(), { summary: "s", word_count: 1 }, { receipt: null });
    strikes.close();
    await hub.online(0);
    expect(await keys(hub)).toEqual([strikes.key.publicKey]);
  });

  test("[JB3] the first row of a key keeps the time of its last job, which was known before", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker({ signed: true });
    await hub.commit();
    await worker.assigned();
    worker.close();
    await hub.online(0);
    expect(await keys(hub)).toEqual([]);
    await hub.pass(TIMING.grace + 1);
    const rows = await hub.sql<{ last_used: number }>("SELECT last_used FROM keys");
    expect(rows).toEqual([{ last_used: Date.now() - TIMING.grace - 1 }]);
  });

  test("[LM3] [WS5] a key that never completed a job is forgotten 24 h after it was last seen, one that did after 30 days", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const [done, failed] = [await worked(hub, "completes"), await worked(hub, "fails")];
    expect(await keys(hub)).toEqual(expect.arrayContaining([done, failed]));
    hub.skip(TIMING.newKey - 1_000);
    await hub.stub.wake();
    expect(await keys(hub)).toHaveLength(2);
    hub.skip(2_000);
    await hub.stub.wake();
    expect(await keys(hub)).toEqual([done]);
    hub.skip(TIMING.authenticatedKey);
    await hub.stub.wake();
    expect(await keys(hub)).toEqual([]);
  });

  test("[LM3] at most 10,000 keys that never completed a job, the oldest go first; those that did stay", async () => {
    const hub = new TestHub();
    await hub.stub.workersOnline();
    const rows = (name: string, count: number, hasCompleted: number) =>
      hub.sql(`INSERT INTO keys (key, last_seen, has_completed) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
        SELECT '${name}' || i, i, ${hasCompleted} FROM n`);
    await rows("done", 5, 1);
    await rows("new", LIMITS.newKeys, 0);
    const failed = await worked(hub, "fails");
    const left = await keys(hub);
    expect(left).toHaveLength(LIMITS.newKeys + 5);
    expect(left).toContain(failed);
    expect(left).not.toContain("new1");
    expect(left).toEqual(expect.arrayContaining(["new2", "done1"]));
  });
});
