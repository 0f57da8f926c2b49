import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import main from "../../../src/coordinator/main.ts";
import { StoreUnavailable, withDeadline } from "../../../src/coordinator/store/database.ts";
import { findUserJobs } from "../../../src/coordinator/store/jobs.ts";
import { applyRetention } from "../../../src/coordinator/store/retention.ts";
import { noteUse } from "../../../src/coordinator/store/trust.ts";
import { faultyDatabase } from "../../chaos/workerd/faulty-database.ts";
import { failingDb, failingHub, freshInstance } from "./rest.ts";

const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
beforeEach(async () => {
  await freshInstance();
  logged.mockClear();
});

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 9, 1);
const retention = { result: 7 * DAY, job: 30 * DAY, idempotency: DAY, expiredCode: DAY, pairing: 180 * DAY };

async function insertJobs(prefix: string, count: number, endedAt: number | null): Promise<void> {
  const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
  const insert = `INSERT INTO jobs (id, job_type, policy, privacy_class, user_id, payload, status, rev, attempt, result, created_at, ended_at)
    ${numbers} SELECT ?1 || i, 'TASK', 'CHEAP', 'PUBLIC', 'u', '{}', ?2, 1, 1, ?3, 0, ?4 FROM n`;
  await env.DB.prepare(insert)
    .bind(prefix, endedAt === null ? "pending" : "completed", endedAt === null ? null : "{}", endedAt)
    .run();
  const receipts = `INSERT INTO receipts (job_id, signed_job_id, provider_pubkey, output_hash, completed_at, signature, verified)
    ${numbers} SELECT ?1 || i, ?1 || i, 'k', 'h', 't', 's', 1 FROM n`;
  if (endedAt !== null) await env.DB.prepare(receipts).bind(prefix).run();
}

const count = (from: string) => env.DB.prepare(`SELECT count(*) AS n FROM ${from}`).first<number>("n");

describe("retention", () => {
  test("[LM3] payload and result go 7 days after the end, job and receipt after 30, to the millisecond", async () => {
    await insertJobs("fresh", 1, NOW - 7 * DAY + 1);
    await insertJobs("empty", 1, NOW - 7 * DAY);
    await insertJobs("kept", 1, NOW - 30 * DAY + 1);
    await insertJobs("gone", 1, NOW - 30 * DAY);
    await insertJobs("live", 1, null);
    expect(await applyRetention(env.DB, { retention }, NOW)).toEqual({ emptied: 2, jobs: 1, codes: 0, pairings: 0, users: 0, payments: 0 });
    const { results } = await env.DB.prepare("SELECT id, payload, result FROM jobs ORDER BY id").all();
    expect(results).toEqual([
      { id: "empty1", payload: null, result: null },
      { id: "fresh1", payload: "{}", result: "{}" },
      { id: "kept1", payload: null, result: null },
      { id: "live1", payload: "{}", result: null },
    ]);
    expect(await count("receipts")).toBe(3);
    expect(await applyRetention(env.DB, { retention }, NOW)).toEqual({ emptied: 0, jobs: 0, codes: 0, pairings: 0, users: 0, payments: 0 });
  });

  test("[LM3] the times are settings", async () => {
    await insertJobs("a", 1, NOW - 1_000);
    await applyRetention(env.DB, { retention: { ...retention, result: 1_000 } }, NOW);
    expect(await count("jobs WHERE result IS NULL")).toBe(1);
    await applyRetention(env.DB, { retention: { ...retention, job: 1_000 } }, NOW);
    expect([await count("jobs"), await count("receipts")]).toEqual([0, 0]);
  });

  test("[LM3] rows that are already emptied are not read again: each search has its own index", async () => {
    const plan = (where: string) =>
      env.DB.prepare(`EXPLAIN QUERY PLAN SELECT id FROM jobs WHERE ${where}`)
        .all<{ detail: string }>()
        .then(({ results }) => results.map(({ detail }) => detail).join());
    expect(await plan("ended_at <= 1 AND payload IS NOT NULL LIMIT 500")).toContain("INDEX jobs_full");
    expect(await plan("ended_at <= 1 ORDER BY ended_at, id LIMIT 500")).toContain("INDEX jobs_ended_at");
  });

  test("[LM3] more rows than one statement may delete take several statements, each with the receipts of its jobs", async () => {
    await insertJobs("old", 1_234, NOW - 40 * DAY);
    await insertJobs("full", 1_234, NOW - 10 * DAY);
    expect(await applyRetention(env.DB, { retention }, NOW)).toEqual({ emptied: 1_234, jobs: 1_234, codes: 0, pairings: 0, users: 0, payments: 0 });
    expect([await count("jobs"), await count("receipts")]).toEqual([1_234, 1_234]);
  });

  test("[SPEC] unclaimed codes are deleted a day after they expired; claimed ones are the pairings and stay", async () => {
    const insert = env.DB.prepare("INSERT INTO pairings (pairing_code, user_id, claimed, created_at, expires_at) VALUES (?, 'u', ?, 0, ?)");
    await env.DB.batch([
      insert.bind("OPEN", 0, NOW + 1),
      insert.bind("LATE", 0, NOW - DAY + 1),
      insert.bind("DEAD", 0, NOW - DAY),
      insert.bind("PAIR", 1, NOW - 9 * DAY),
    ]);
    expect(await applyRetention(env.DB, { retention }, NOW)).toMatchObject({ codes: 1, payments: 0 });
    const { results } = await env.DB.prepare("SELECT pairing_code FROM pairings ORDER BY id").all();
    expect(results.map((row) => row.pairing_code)).toEqual(["OPEN", "LATE", "PAIR"]);
    await applyRetention(env.DB, { retention: { ...retention, expiredCode: 0 } }, NOW);
    expect(await count("pairings")).toBe(2);
  });
});

describe("pairings and users", () => {
  const pair = (userId: string, pairedAt: number, usedAt: number) =>
    env.DB.prepare(
      "INSERT INTO pairings (pairing_code, user_id, provider_pubkey, claimed, created_at, expires_at, paired_at, used_at) VALUES ('A', ?, 'k', 1, 0, 0, ?, ?)",
    )
      .bind(userId, pairedAt, usedAt)
      .run();
  const user = (userId: string, createdAt: number, usedAt: number) =>
    env.DB.prepare("INSERT INTO users (user_id, token_hash, created_at, used_at) VALUES (?, 'hash', ?, ?)").bind(userId, createdAt, usedAt).run();
  const LONG_AGO = NOW - 180 * DAY;

  test("[LM3] what nobody has used for 180 days goes; the token of a user with a pairing stays", async () => {
    for (const [name, pairedAt, usedAt] of [
      ["never", LONG_AGO, 0],
      ["kept", LONG_AGO + 1, 0],
      ["used", 0, LONG_AGO + 1],
      ["unused", 0, LONG_AGO],
    ] as const) {
      await pair(name, pairedAt, usedAt);
      await user(name, 0, usedAt);
    }
    await user("alone", LONG_AGO + 1, 0);
    expect(await applyRetention(env.DB, { retention }, NOW)).toMatchObject({ pairings: 2, users: 2 });
    const left = async (table: string) => (await env.DB.prepare(`SELECT user_id FROM ${table} ORDER BY user_id`).all()).results.map((row) => row.user_id);
    expect(await left("pairings")).toEqual(["kept", "used"]);
    expect(await left("users")).toEqual(["alone", "kept", "used"]);
  });

  test("[LM3] each search goes by an index of its own", async () => {
    const plan = async (query: string) =>
      (await env.DB.prepare(`EXPLAIN QUERY PLAN ${query}`).all<{ detail: string }>()).results.map(({ detail }) => detail).join();
    expect(await plan("SELECT id FROM pairings WHERE claimed = 0 AND expires_at <= 1")).toContain("INDEX pairings_unclaimed");
    expect(await plan("SELECT id FROM pairings WHERE claimed = 1 AND used_at <= 1 AND paired_at <= 1")).toContain("INDEX pairings_used");
    expect(await plan("SELECT user_id FROM users WHERE used_at <= 1 AND created_at <= 1")).toContain("INDEX users_used");
  });

  test("[LM3] a PRIVATE commit marks its user and the pairings that it may go to, once a day", async () => {
    await pair("owner", Date.now() - 10 * DAY, 0);
    await user("owner", Date.now() - 10 * DAY, 0);
    const headers = { "content-type": "application/json", "x-user-token": "t" };
    await env.DB.prepare("UPDATE users SET token_hash = NULL").run();
    const body = JSON.stringify({ job_type: "TASK", user_id: "owner", payload: { task_type: "summarize", input: "i" }, privacy_class: "PRIVATE" });
    const commit = () => main.fetch(new Request("http://x/v1/jobs/commit/cheap", { method: "POST", headers, body }), env);
    const began = Date.now();
    expect((await commit()).status).toBe(422);
    const marks = async () => [
      await env.DB.prepare("SELECT used_at FROM pairings").first<number>("used_at"),
      await env.DB.prepare("SELECT used_at FROM users").first<number>("used_at"),
    ];
    const first = await marks();
    for (const mark of first) expect(mark).toBeGreaterThanOrEqual(began);
    await commit();
    expect(await marks()).toEqual(first);
  });

  test.each([
    ["lists the user's jobs", "/v1/jobs?user_id=owner", undefined],
    ["lists the user's pairings", "/v1/trust/list?user_id=owner", undefined],
    ["asks for a code", "/v1/trust/create", { user_id: "owner" }],
  ])("[LM3] whoever %s with the token marks the user, once a day; a stranger does not", async (_, path, body) => {
    const request = async (token: string): Promise<number> => {
      const headers = { "content-type": "application/json", "x-user-token": token };
      const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
      return (await main.fetch(new Request(`http://x${path}`, init), env)).status;
    };
    const usedAt = async () => await env.DB.prepare("SELECT used_at FROM users").first<number>("used_at");
    const create = { method: "POST", headers: { "content-type": "application/json", "x-user-token": "a token of the owner's" }, body: '{"user_id":"owner"}' };
    expect((await main.fetch(new Request("http://x/v1/trust/create", create), env)).status).toBe(201);
    const set = (at: number) => env.DB.prepare("UPDATE users SET used_at = ?").bind(at).run();

    await set(Date.now() - 2 * DAY);
    const before = await usedAt();
    expect(await request("another token, of a stranger")).toBe(401);
    expect(await usedAt()).toBe(before);
    const began = Date.now();
    expect(await request("a token of the owner's")).toBeLessThan(300);
    expect(await usedAt()).toBeGreaterThanOrEqual(began);

    const today = Date.now() - DAY / 2;
    await set(today);
    expect(await request("a token of the owner's")).toBeLessThan(300);
    expect(await usedAt()).toBe(today);
  });

  test("[LM3] only these pairings of this user are marked", async () => {
    for (const name of ["owner", "other"]) for (const at of [1, 2]) await pair(name, at, 0);
    await env.DB.prepare("UPDATE pairings SET provider_pubkey = 'k' || paired_at").run();
    await noteUse(env.DB, { userId: "owner", keys: ["k2"], usedAt: 0, requestId: "r" }, NOW);
    const { results } = await env.DB.prepare("SELECT user_id || ' ' || provider_pubkey AS marked FROM pairings WHERE used_at > 0").all();
    expect(results).toEqual([{ marked: "owner k2" }]);
  });
});

test("[JB14] of the jobs of one time in D1 a page begins after the last one of the page before", async () => {
  await insertJobs("same", 5, NOW);
  const ids: string[] = [];
  let before: { at: number; id: string } | null = null;
  for (;;) {
    const page = await findUserJobs(env.DB, "u", { before, limit: 2 });
    const last = page.at(-1);
    if (last === undefined) break;
    ids.push(...page.map(({ id }) => id));
    before = { at: last.createdAt, id: last.id };
  }
  expect(ids).toEqual(["same5", "same4", "same3", "same2", "same1"]);
});

describe("cron", () => {
  const run = (overrides: Record<string, unknown>) => main.scheduled(createScheduledController(), { ...env, ...overrides });

  test("[LM3] deletes old rows and wakes the hub", async () => {
    await insertJobs("old", 1, Date.now() - 40 * DAY);
    const hub = failingHub({}, 0);
    await run(hub);
    expect(await count("jobs")).toBe(0);
    expect(hub.calls()).toBe(1);
    expect(logged).not.toHaveBeenCalled();
  });

  test("[LM3] if D1 fails the hub is still woken, and if the hub fails old rows are still deleted", async () => {
    const hub = failingHub({}, 0);
    await run({ ...hub, DB: failingDb() });
    expect(hub.calls()).toBe(1);
    await insertJobs("old", 1, Date.now() - 40 * DAY);
    await run(failingHub({ remote: true }));
    expect(await count("jobs")).toBe(0);
    expect(logged).toHaveBeenCalledTimes(2);
  });

  test("[LM3] the hub is woken while D1 does not answer, and old rows are deleted while the hub does not answer", async () => {
    const woken = failingHub({}, 0);
    const stalled = Promise.withResolvers<{ kind: "fails" }>();
    const first = run({ ...woken, DB: faultyDatabase(env.DB, () => stalled.promise) });
    await expect.poll(woken.calls).toBe(1);
    stalled.resolve({ kind: "fails" });
    await first;

    await insertJobs("old", 1, Date.now() - 40 * DAY);
    const hub = Promise.withResolvers<void>();
    const second = run({ HUB: { getByName: () => ({ wake: () => hub.promise }) } });
    await expect.poll(() => count("jobs")).toBe(0);
    hub.resolve();
    await second;
  });
});

describe("deadline of D1", () => {
  test("[API1] a call that never ends is StoreUnavailable when its time is over", async () => {
    await expect(withDeadline(new Promise(() => undefined), 10)).rejects.toThrow(StoreUnavailable);
  });

  test("[API1] the error has the message of D1, and not the message of drizzle with the parameters of the query", async () => {
    const drizzles = new Error("Failed query: select … params: user-secret", { cause: new Error("D1_ERROR: no such table: x") });
    const error: unknown = await withDeadline(Promise.reject(drizzles)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: "StoreUnavailable", message: "the store did not answer", safeReason: "D1_ERROR: no such table: x" });
  });
});
