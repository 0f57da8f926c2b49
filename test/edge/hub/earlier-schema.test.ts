import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { LedgerStore } from "../../../src/coordinator/hub/ledger-store.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { TestHub, until } from "../support/worker-hub.ts";
import d1 from "../state/earlier-d1.sql?raw";
import hubSql from "../state/earlier-hub.sql?raw";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** When that hub was killed, with jobs in every state. */
const RECORDED = 1_795_247_524_000;
/** Here it is killed tomorrow: the platform's alarms keep the real time, and one that is set into its past runs at once. */
const KILLED = Date.now() + DAY;
/** The times in the files: the minutes around {@link RECORDED}, in ms. */
const TIMES = /\b17952\d{8}\b/g;

const statements = (sql: string) =>
  sql
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("--"))
    .map((line) => line.replace(TIMES, (time) => String(Number(time) - RECORDED + KILLED)));
const FINISHED = "7ea581b3-2a52-4dd2-b098-d5344d2fded9";
const WAITING = "3bfe6883-21ff-4cc7-a45f-7336a3ba829e";
const SIGNED = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";
const PAIRED = "547d597e2a95bb8877d761e51ff6b0dde42259a24a1ecb32fb09f81170c03943";

/** A hub on state whose schema lacks the later steps, and with these rows too, woken this long after. */
async function earlierHub(after: number, rows: readonly string[] = []): Promise<TestHub> {
  const hub = new TestHub();
  await hub.stub.workersOnline();
  await hub.inside(async (_, { storage }) => {
    await storage.deleteAlarm();
    const tables = storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'").toArray();
    for (const { name } of tables) storage.sql.exec(`DROP TABLE "${name}"`);
    for (const statement of [...statements(hubSql), ...rows]) storage.sql.exec(statement);
  });
  vi.useFakeTimers({ toFake: ["Date"], now: KILLED + after });
  await hub.evict();
  return hub;
}

/** Until the end of the test a start copies no table with more rows. */
function copyAtMost(rows: number): void {
  const { copiedRows } = TUNING;
  onTestFinished(() => void Object.assign(TUNING, { copiedRows }));
  Object.assign(TUNING, { copiedRows: rows });
}

/** 1 if the rows of a table are sorted by its key, 0 if they are in the order of their arrival. */
async function isByKey(hub: TestHub, table: string): Promise<unknown> {
  return (await hub.sql(`SELECT sql LIKE '%WITHOUT ROWID' AS by_key FROM sqlite_master WHERE name = '${table}'`))[0]?.by_key;
}

/** A worker does the job that waited when the earlier hub was killed. */
async function doWaiting(hub: TestHub): Promise<void> {
  const worker = await hub.worker();
  expect(await worker.assigned()).toMatchObject({ job_id: WAITING, payload: { input: "a job that waits" } });
  expect((await worker.complete({ job_id: WAITING, attempt: 1 })).status).toBe("accepted");
  await hub.recorded(WAITING, "completed");
}

beforeEach(async () => {
  await reset();
  await env.DB.batch(statements(d1).map((statement) => env.DB.prepare(statement)));
  await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
});

describe("a hub with an earlier schema takes the missing steps", () => {
  test("[JB9] its jobs, pairings and idempotency keys can be read: a waiting job is assigned", async () => {
    const hub = await earlierHub(1_000);
    expect(await hub.job(FINISHED)).toMatchObject({ status: "completed", result: { summary: "short", word_count: 1 }, receipt: { payment_ref: null } });
    expect(await hub.job(WAITING)).toMatchObject({ status: "pending" });
    const again = { id: crypto.randomUUID(), trustedKeys: [], wait: 0, payload: "{}", jobType: "TASK", policy: "CHEAP", privacyClass: "PRIVATE" } as const;
    const idempotency = { key: "old-key", fingerprint: "3439fbc72bc1097d75f870adb72a7a55f4163da19722b83febe41d70192631bb" };
    expect(await hub.stub.commit({ ...again, trustedKeys: [], userId: "old user", idempotency })).toMatchObject({ ok: true, jobId: FINISHED });
    const { body } = await hub.request("/v1/trust/list?user_id=old%20user");
    expect(body).toMatchObject({ providers: [{ provider_pubkey: PAIRED }] });
    await doWaiting(hub);
    expect(await isByKey(hub, "jobs")).toBe(0);
  });

  test("[JB9] more jobs than a start can copy stay where they are, and go on", async () => {
    copyAtMost(0);
    const hub = await earlierHub(1_000);
    await doWaiting(hub);
    expect(await isByKey(hub, "jobs")).toBe(1);
  });

  test("[PY6] its payments are known: one that is spent is its job, also if the hub takes the step twice", async () => {
    const phase = JSON.stringify({ kind: "spent", transaction: "0x01" });
    const hub = await earlierHub(1_000, [
      `INSERT INTO payments (key, digest, binding, payer, amount, expires_at, job_id, doubts, phase, kind, updated_at, response)
         VALUES ('key', 'digest', 'binding', '0xaa', '1000', 1, '${FINISHED}', 0, '${phase}', 'spent', ${KILLED}, '{}')`,
    ]);
    const input = {
      ...{ trustedKeys: [], wait: 0, payload: "{}", userId: "old user", idempotency: null },
      jobType: "TASK",
      policy: "CHEAP",
      privacyClass: "PUBLIC",
    } as const;
    const payment = {
      ...{ key: "key", digest: "digest", binding: "binding", payer: "0xaa", asset: "", amount: "1000" },
      expiresAt: 1,
      payload: "",
      requirements: "",
    };
    for (const isAgain of [false, true]) {
      if (isAgain) {
        await hub.sql("DELETE FROM version");
        await hub.evict();
      }
      const known = await hub.stub.reserve({ ...input, id: crypto.randomUUID() }, payment);
      expect(known).toMatchObject({ state: "known", jobId: FINISHED, settlement: expect.stringContaining("0x01") });
    }
    expect(await hub.sql("SELECT name FROM sqlite_master WHERE tbl_name = 'payments' AND sql IS NULL")).toHaveLength(1);
  });

  test("[PY6] more payments than a start can copy stay where they are: they are known, move, and get new ones beside them", async () => {
    copyAtMost(2);
    const row = (key: string) => `INSERT INTO payments (key, digest, binding, payer, amount, expires_at, job_id, doubts, phase, kind, updated_at)
      VALUES ('${key}', 'digest', 'binding', '0xaa', '1000', 1, 'job of ${key}', 1, '{"kind":"unknown","retryDue":1}', 'unknown', ${KILLED})`;
    expect(await isByKey(await earlierHub(1_000, ["a", "b"].map(row)), "payments")).toBe(0);
    const hub = await earlierHub(1_000, ["a", "b", "c"].map(row));
    expect(await isByKey(hub, "payments")).toBe(1);
    const kinds = await hub.inside((_, { storage }) => {
      const ledger = new LedgerStore(storage.sql, "eip155:10143");
      const old = ledger.find("a") ?? expect.unreachable();
      ledger.save({ ...old, phase: { kind: "void", reason: "refused" } }, {}, KILLED);
      ledger.save({ ...old, key: "new", phase: { kind: "held" } }, { payload: "{}", requirements: "{}" }, KILLED);
      expect(ledger.purge(KILLED)).toBe(false);
      ledger.copied([{ key: "a", rev: 2 }]);
      expect(ledger.purge(KILLED)).toBe(true);
      return ["a", "b", "new"].map((key) => ledger.find(key)?.phase.kind);
    });
    expect(kinds).toEqual([undefined, "unknown", "held"]);
    // The step counts as taken, also when there are fewer payments later.
    await hub.sql("DELETE FROM payments");
    await hub.evict();
    expect(await isByKey(hub, "payments")).toBe(1);
  });

  test("[TR2] its users have no token and need none", async () => {
    const hub = await earlierHub(1_000);
    for (const user_id of ["old user", "another old user"]) {
      const create = (headers: Record<string, string>) => hub.request("/v1/trust/create", { method: "POST", body: JSON.stringify({ user_id }), headers });
      expect((await create({ "x-user-token": "late" })).status).toBe(201);
      expect((await create({})).status).toBe(201);
    }
  });

  test("[WS5] a key that has signed must keep signing; keys that never signed are not kept", async () => {
    const hub = await earlierHub(1_000);
    await hub.stub.workersOnline();
    expect(await hub.sql("SELECT key FROM keys")).toEqual([{ key: SIGNED }]);
    await hub.worker();
    expect(await hub.sql("SELECT key FROM keys")).toEqual([{ key: SIGNED }]);
    await hub.worker({ signed: true });
    expect(await hub.sql("SELECT key FROM keys")).toHaveLength(2);
  });

  test("[JB9] [LM3] after days without an alarm the cron wakes it: overdue jobs end, old rows are deleted, and its alarm is set", async () => {
    const hub = await earlierHub(3 * DAY);
    await hub.stub.wake();
    expect(await hub.job(WAITING)).toMatchObject({ status: "failed", result: { error: "deadline_exceeded" } });
    await hub.recorded(WAITING, "failed");
    expect(await hub.sql("SELECT * FROM idempotency")).toEqual([]);
    expect(await hub.sql("SELECT key FROM keys")).toEqual([{ key: SIGNED }]);
    const id = await hub.commit();
    expect(await hub.alarmAt()).toBeLessThanOrEqual(KILLED + 3 * DAY + TIMING.retryTick);
    const worker = await hub.worker();
    expect((await worker.assigned()).job_id).toBe(id);
  });

  test("[WS5] [LM3] 30 days after it was last seen a key is forgotten, unless it is connected", async () => {
    const hub = await earlierHub(TIMING.authenticatedKey - 1_000);
    const stays = await hub.worker({ signed: true });
    await hub.stub.wake();
    expect(await hub.sql("SELECT key FROM keys")).toHaveLength(2);
    vi.setSystemTime(KILLED + 2 * TIMING.authenticatedKey);
    await hub.stub.wake();
    await until(async () => (await hub.sql("SELECT key FROM keys")).length === 1, "forgotten");
    expect(await hub.sql("SELECT key FROM keys")).toEqual([{ key: stays.key.publicKey }]);
  });
});
