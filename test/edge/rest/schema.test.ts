import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import main from "../../../src/coordinator/main.ts";
import { PairingCode } from "../../../src/protocol/rest.ts";
import { HOUR, TIMING } from "../../../src/protocol/times.ts";
import { keyPair } from "../../../src/receipt/index.ts";
import { migrate } from "../../../src/coordinator/store/database.ts";
import { MIGRATIONS } from "../../../src/coordinator/store/migrations.ts";
import { findJob } from "../../../src/coordinator/store/jobs.ts";
import { storeCode } from "../../../src/coordinator/store/trust.ts";
import type { DatabaseFault } from "../../chaos/database-fault.ts";
import { faultyDatabase } from "../../chaos/workerd/faulty-database.ts";
import { TestHub } from "../support/worker-hub.ts";
import { TASK, post, read, refusal, rest } from "./rest.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";

// Every test starts with an empty D1: `reset` empties it, and no migration is applied.
const errors = vi.spyOn(console, "error").mockImplementation(() => undefined);
beforeEach(async () => {
  await reset();
  errors.mockClear();
});
afterEach(() => void vi.useRealTimers());

const KEY = keyPair(new Uint8Array(32).fill(7)).publicKey;
const UNKNOWN = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const NAMES = MIGRATIONS.map(({ name }) => name);
const CODE = { userId: "u", now: Date.now(), openLimit: null };

/** D1 for an isolate that has just started. `calls` lists its calls, and `fault` decides how each call fails. */
function isolate(fault: (what: string, nth: number) => DatabaseFault | Promise<DatabaseFault> = () => ({ kind: "none" })) {
  const calls: string[] = [];
  const DB = faultyDatabase(env.DB, async (what) => await fault(what, calls.push(what)));
  return { DB, calls };
}

const names = async () => (await env.DB.prepare("SELECT name FROM d1_migrations ORDER BY id").all()).results.map(({ name }) => name);
const tables = async () =>
  (await env.DB.prepare("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\' AND sql IS NOT NULL ORDER BY name").all()).results.map(
    ({ name, sql }) => [name, String(sql).replaceAll(/\s+/g, " ")] as const,
  );
const create = (db: { DB: D1Database }, user = "u") => post("/v1/trust/create", { user_id: user }, {}, { DB: db.DB });
const events = () => errors.mock.calls.map(([line]) => String(JSON.parse(String(line)).event));

describe("an empty D1", () => {
  test("[API10] has the tables that wrangler makes after the first request, and wrangler finds nothing left to apply", async () => {
    expect((await create(isolate())).status).toBe(201);
    expect(await names()).toEqual(NAMES);
    const ours = await tables();
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
    expect(await names()).toEqual(NAMES);
    await reset();
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
    const withoutSpaces = (list: typeof ours) => list.map(([name, sql]) => [name, sql.replaceAll(/ ?([(),]) ?/g, "$1").replace(/IF NOT EXISTS /, "")]);
    expect(withoutSpaces(ours)).toEqual(withoutSpaces(await tables()));
  });

  const first: [name: string, status: number, ask: (db: { DB: D1Database }) => Promise<Response>][] = [
    ["a new code", 201, create],
    ["a claim", 400, ({ DB }) => post("/v1/trust/claim", { pairing_code: "ABCDEF", provider_pubkey: KEY }, {}, { DB })],
    ["a list", 200, ({ DB }) => rest("/v1/trust/list?user_id=u", {}, { DB })],
    ["a poll", 404, ({ DB }) => rest(`/v1/jobs/${UNKNOWN}`, {}, { DB })],
    ["an event stream", 404, ({ DB }) => rest(`/v1/jobs/${UNKNOWN}/events`, {}, { DB })],
    ["a PRIVATE commit", 422, ({ DB }) => post("/v1/jobs/commit/cheap", { ...TASK, privacy_class: "PRIVATE" }, {}, { DB })],
    ["a PUBLIC commit", 201, ({ DB }) => post("/v1/jobs/commit/cheap", TASK, {}, { DB })],
  ];
  test.each(first)("[API10] %s gets the same answer as with a migrated D1: %i", async (_, status, ask) => {
    expect((await ask(isolate())).status).toBe(status);
    expect(events()).toEqual([]);
  });

  test("[API10] the hub copies jobs to it", async () => {
    const hub = new TestHub();
    const id = await hub.commit();
    const worker = await hub.worker();
    await worker.assigned();
    await worker.complete({ job_id: id, attempt: 1 });
    await expect.poll(() => names().catch(() => [])).toEqual(NAMES);
    await hub.recorded(id, "completed");
  });

  test("[API10] the cron migrates it", async () => {
    const controller = { scheduledTime: Date.now(), cron: "*/5 * * * *", noRetry: () => undefined };
    await main.scheduled(controller, { ...env });
    expect(await names()).toEqual(NAMES);
    expect(events()).toEqual([]);
  });

  test.each([
    ["a body that is no JSON", 400, "/v1/trust/create", "nonsense"],
    ["a body without its fields", 400, "/v1/trust/create", {}],
    ["a wrong user_id", 400, "/v1/trust/create", { user_id: "" }],
    ["a claim of a wrong key", 400, "/v1/trust/claim", { pairing_code: "ABCDEF", provider_pubkey: "00" }],
    ["a claim of no code", 400, "/v1/trust/claim", { pairing_code: "hello", provider_pubkey: KEY }],
    ["a commit without a payload", 400, "/v1/jobs/commit/cheap", { job_type: "TASK", user_id: "u", privacy_class: "PRIVATE" }],
    ["an unknown path", 404, "/v1/trust", {}],
    ["a wrong method", 405, "/v1/trust/list", {}],
  ])("[API10] %s starts no migration: %i, and D1 is not asked", async (_, status, path, body) => {
    const { DB, calls } = isolate();
    await refusal(await post(path, body, {}, { DB }), status);
    expect(calls).toEqual([]);
    expect(await tables()).toEqual([]);
  });

  test("[API10] [PY1] a commit without a payment starts no migration either", async () => {
    const { DB, calls } = isolate();
    expect((await post("/v1/jobs/commit/cheap", { ...TASK, privacy_class: "PRIVATE" }, {}, { DB, TESTNET_MODE: "false" })).status).toBe(402);
    expect(calls).toEqual([]);
  });
});

describe("two isolates", () => {
  /** A barrier: resolves for all callers when `size` of them wait. */
  function meeting(size: number): () => Promise<DatabaseFault> {
    const waiting: (() => void)[] = [];
    return async () => {
      if (waiting.length < size) await new Promise<void>((go) => (waiting.push(go) === size ? waiting.forEach((each) => each()) : undefined));
      return { kind: "none" };
    };
  }

  test("[API10] find an empty D1 at the same time: each migration is applied once, and both answer", async () => {
    // Both isolates see the empty D1 before either of them writes.
    const meet = meeting(2);
    let batches = 0;
    const isolates = [1, 2].map(() => isolate((what) => (what === "BATCH" && ++batches <= 2 ? meet() : { kind: "none" })));
    await Promise.all(isolates.map(({ DB }) => migrate(DB)));
    expect(await names()).toEqual(NAMES);
    // At least one batch of the slower isolate was refused; it read the names again and went on.
    expect(batches).toBeGreaterThan(NAMES.length);
    expect(events()).toEqual([]);
  });

  test("[API10] twenty requests at once on twenty isolates are all 201", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => create(isolate(), `user ${n}`)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(await names()).toEqual(NAMES);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM pairings").first("n")).toBe(20);
    expect(events()).toEqual([]);
  });

  test("[API10] twenty requests at once on one isolate are all 201", async () => {
    const one = isolate();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => create(one, `user ${n}`)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(events()).toEqual([]);
  });
});

describe("a D1 that has some migrations", () => {
  test("[API10] that wrangler applied gets the others, with the rows that they copy", async () => {
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS.slice(0, 1));
    await env.DB.prepare("INSERT INTO pairings (pairing_code, user_id, claimed, created_at, expires_at) VALUES ('ABCDEF', 'early', 0, 1, 2)").run();
    expect((await create(isolate(), "late")).status).toBe(201);
    expect(await names()).toEqual(NAMES);
    expect(await env.DB.prepare("SELECT user_id FROM users ORDER BY created_at").raw()).toEqual([["early"], ["late"]]);
  });

  test("[API10] an isolate checks the schema before its first write, even if the old schema would accept the statement", async () => {
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS.slice(0, 1));
    expect(await storeCode(isolate().DB, { ...CODE, code: "ABCDEF" })).toMatchObject({ ok: true });
    expect(await names()).toEqual(NAMES);
  });

  test("[API10] is not changed by a read that does not need the others", async () => {
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS.slice(0, 1));
    const { DB, calls } = isolate();
    expect(await findJob(DB, UNKNOWN)).toBeNull();
    expect(calls).toEqual(["SELECT"]);
    expect(await names()).toEqual(NAMES.slice(0, 1));
  });

  test("[API10] of a newer version is not changed", async () => {
    await applyD1Migrations(env.DB, [...env.TEST_MIGRATIONS, { name: "9999_future.sql", queries: ["CREATE TABLE future (id text)"] }]);
    const before = await tables();
    expect((await create(isolate())).status).toBe(201);
    expect(await tables()).toEqual(before);
    expect(await names()).toEqual([...NAMES, "9999_future.sql"]);
  });
});

describe("a large D1", () => {
  /** A D1 that was migrated before its last indexes came, and that has no time for them. */
  async function large() {
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS.slice(0, -1));
    expect(MIGRATIONS.at(-1)?.statements).toEqual([expect.stringMatching(/^CREATE INDEX /)]);
    const { indexedAtOnce } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { indexedAtOnce }));
    Object.assign(TUNING, { indexedAtOnce: 0 });
    const builds = { tries: 0, canSucceed: false };
    const prepare = (query: string) => {
      if (query.startsWith("CREATE INDEX")) builds.tries++;
      if (query.startsWith("CREATE INDEX") && !builds.canSucceed) throw new Error("D1_ERROR: D1 DB exceeded its CPU time limit and was reset.");
      return env.DB.prepare(query);
    };
    const DB = new Proxy(env.DB, {
      get(target, member) {
        if (member === "prepare") return prepare;
        const value: unknown = Reflect.get(target, member);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    return { DB, builds };
  }

  test("[API10] needs no new index for its writes: the router and the hub write, and neither tries to build it", async () => {
    const { DB, builds } = await large();
    expect((await create({ DB })).status).toBe(201);
    const hub = new TestHub();
    await hub.inside((object) => void (object.db = DB));
    const id = await hub.commit();
    await hub.recorded(id, "pending");
    expect(builds.tries).toBe(0);
    expect(events()).toEqual([]);
  });

  test("[API10] gets it by the cron, which tries again an hour after a failure, and logs it once", async () => {
    const { DB, builds } = await large();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const cron = () => main.scheduled({ scheduledTime: Date.now(), cron: "*/5 * * * *", noRetry: () => undefined }, { ...env, DB });
    for (let run = 0; run < 3; run++) await cron();
    expect(builds.tries).toBe(1);
    vi.setSystemTime(Date.now() + HOUR);
    await cron();
    expect(builds.tries).toBe(2);
    expect(events()).toEqual(["migration_failed"]);
    expect((await create({ DB })).status).toBe(201);
    expect(await names()).toEqual(NAMES.slice(0, -1));
    builds.canSucceed = true;
    vi.setSystemTime(Date.now() + HOUR);
    await cron();
    expect(await names()).toEqual(NAMES);
  });
});

describe("calls of D1", () => {
  test("[API10] the check costs one read at the first write of an isolate, and nothing afterwards", async () => {
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
    const one = isolate();
    const { DB, calls } = one;
    const cost = async (ask: () => Promise<Response>) => {
      calls.length = 0;
      expect((await ask()).status).toBeLessThan(500);
      return [...calls];
    };
    expect(await cost(() => rest("/v1/trust/list?user_id=u", {}, { DB }))).toEqual(["SELECT"]);
    expect(await cost(() => create(one))).toEqual(["SELECT", "BATCH", "INSERT"]);
    const { pairing_code } = await read(await create(one), PairingCode);
    expect(await cost(() => create(one))).toEqual(["BATCH", "INSERT"]);
    expect(await cost(() => post("/v1/trust/claim", { pairing_code, provider_pubkey: KEY }, {}, { DB }))).toEqual(["UPDATE"]);
    expect(await cost(() => rest("/v1/trust/list?user_id=u", {}, { DB }))).toEqual(["SELECT"]);
    expect(await cost(() => rest(`/v1/jobs/${UNKNOWN}`, {}, { DB }))).toEqual(["SELECT"]);
    expect(await cost(() => post("/v1/jobs/commit/cheap", { ...TASK, privacy_class: "PRIVATE" }, {}, { DB }))).toEqual(["SELECT"]);
    expect(await cost(() => post("/v1/jobs/commit/cheap", TASK, {}, { DB }))).toEqual([]);
  });

  test("[API10] a table that somebody dropped causes a check from time to time, not at each request", async () => {
    await migrate(env.DB);
    await env.DB.prepare("DROP TABLE jobs").run();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const { DB, calls } = isolate();
    const poll = async () => {
      calls.length = 0;
      expect(await refusal(await rest(`/v1/jobs/${UNKNOWN}`, {}, { DB }), 503)).toBe("overloaded");
      return calls.length;
    };
    expect(await poll()).toBe(3);
    expect(await poll()).toBe(1);
    vi.setSystemTime(Date.now() + TUNING.migrationPause);
    expect(await poll()).toBe(3);
  });
});

describe("a migration that fails", () => {
  const broken = async () => {
    // The table was made by hand, so no migration is recorded.
    await env.DB.prepare("CREATE TABLE payments (key text)").run();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  };

  test("[API10] is logged once, answers 503, and is tried again after a pause, not at each request", async () => {
    await broken();
    const one = isolate();
    for (let n = 0; n < 3; n++) {
      const response = await create(one);
      expect(await refusal(response, 503)).toBe("overloaded");
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    }
    // It reads the names, applies the first migration, tries the second, reads the names again, and then stops.
    expect(one.calls).toEqual(["SELECT", "BATCH", "BATCH", "SELECT"]);
    vi.setSystemTime(Date.now() + TUNING.migrationPause);
    expect((await create(one)).status).toBe(503);
    expect(one.calls).toHaveLength(7);
    expect(events().filter((event) => event === "migration_failed")).toHaveLength(1);
    expect(JSON.parse(String(errors.mock.calls[0]?.[0]))).toMatchObject({ migration: NAMES[1], reason: expect.stringContaining("`payments` already exists") });
  });

  test("[API10] changes nothing, and the migrations before it stay applied", async () => {
    await broken();
    expect((await create(isolate())).status).toBe(503);
    expect(await names()).toEqual(NAMES.slice(0, 1));
    expect((await tables()).map(([name]) => name)).not.toContain("payments_state");
  });

  test("[API10] succeeds when its cause is gone", async () => {
    await broken();
    const one = isolate();
    expect((await create(one)).status).toBe(503);
    await env.DB.prepare("DROP TABLE payments").run();
    vi.setSystemTime(Date.now() + TUNING.migrationPause);
    expect((await create(one)).status).toBe(201);
    expect(await names()).toEqual(NAMES);
  });

  test("[API10] a clock that is set back does not make the pause longer", async () => {
    await broken();
    const one = isolate();
    expect((await create(one)).status).toBe(503);
    await env.DB.prepare("DROP TABLE payments").run();
    vi.setSystemTime(Date.now() - 24 * 60 * 60 * 1_000);
    expect((await create(one)).status).toBe(201);
  });

  test("[API10] if D1 fails during it: 503, nothing is half applied, and after the pause it goes on", async () => {
    const one = isolate((what, nth) => (what === "BATCH" && nth < 4 ? { kind: "fails" } : { kind: "none" }));
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    expect((await create(one)).status).toBe(503);
    expect(await tables()).toEqual([]);
    vi.setSystemTime(Date.now() + TUNING.migrationPause);
    expect((await create(one)).status).toBe(201);
  });

  test("[API10] if its answer is lost but it was applied, the next one follows", async () => {
    const one = isolate((what) => (what === "BATCH" ? { kind: "loses" } : { kind: "none" }));
    await migrate(one.DB);
    expect(await names()).toEqual(NAMES);
    expect(events()).toEqual([]);
  });

  test("[API10] if D1 does not answer which migrations it has: 503 at once, and the next request asks again", async () => {
    await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
    const one = isolate((_, nth) => (nth === 1 ? { kind: "fails" } : { kind: "none" }));
    expect((await create(one)).status).toBe(503);
    expect((await create(one)).status).toBe(201);
    expect(events()).toEqual(["overloaded"]);
  });

  test("[API10] may take longer than the statements of a request", async () => {
    const { store } = TIMING;
    onTestFinished(() => void Object.assign(TIMING, { store }));
    // The read of the names that comes first has this time too.
    Object.assign(TIMING, { store: 1_000 });
    const slow = isolate((what) => (what === "BATCH" ? { kind: "slow", ms: TIMING.store + 500 } : { kind: "none" }));
    await migrate(slow.DB, MIGRATIONS.slice(0, 1));
    expect(await names()).toEqual(NAMES.slice(0, 1));
  });
});
