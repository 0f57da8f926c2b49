// The coordinator as it is, for the curves of npm run bench: its hub counts its SQL statements and those of D1, and below /bench/ are endpoints that fill it.
import { TIMING } from "../../../src/protocol/times.ts";
import type { Env } from "../../../src/coordinator/config.ts";
import main, { WorkerHub as Hub } from "../../../src/coordinator/main.ts";
import { newJobId } from "../../../src/coordinator/routes/job-id.ts";

export { Settler } from "../../../src/coordinator/main.ts";

/** So many commits at once, and so many rows per statement. */
const AT_ONCE = 1_000;
/** D1 has a queue but for so many jobs: those that the workers are taking meanwhile. */
const FEW = 100;
/** A slow machine needs minutes to fill a queue, and neither the first jobs in it nor those that workers hold may end meanwhile. */
Object.assign(TIMING, { claimWindow: 3_600_000, executeTask: 3_600_000, total: 3_700_000 });

type Counts = { statements: number; d1Statements: number };
const RECEIPT = `{"verified":true,"signature":"${"A".repeat(86)}==","output_hash":"sha256:${"0".repeat(64)}"}`;

/** The hub with its counts. */
export class WorkerHub extends Hub {
  readonly #counts: Counts;
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState, env: Env) {
    const counts: Counts = { statements: 0, d1Statements: 0 };
    const { sql } = ctx.storage;
    const exec = sql.exec.bind(sql);
    sql.exec = (query, ...values) => {
      counts.statements++;
      return exec(query, ...values);
    };
    super(ctx, env);
    // Each statement is prepared once.
    const prepare = (query: string): D1PreparedStatement => (counts.d1Statements++, env.DB.prepare(query));
    this.db = new Proxy(env.DB, {
      get(db, member) {
        const value: unknown = member === "prepare" ? prepare : Reflect.get(db, member);
        return typeof value === "function" ? value.bind(db) : value;
      },
    });
    this.#counts = counts;
    this.#ctx = ctx;
  }

  override async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/bench/")) return super.fetch(request);
    if (pathname === "/bench/counts") return Response.json(this.#counts);
    const body: { jobs?: number; keys?: string[]; users?: number; stake?: number } = await request.json();
    const { jobs = 0, keys = [], users = 0, stake = 0 } = body;
    try {
      if (pathname === "/bench/prove") this.#prove(keys);
      if (pathname === "/bench/queue") await this.#queue(jobs);
      if (pathname === "/bench/store") await this.#store(jobs);
      if (pathname === "/bench/pair") await this.#pair(users, keys);
      if (pathname === "/bench/stakes") await this.#stakes(keys, stake);
      return Response.json({});
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  }

  /** These keys have completed enough jobs: they are proven, and none of their next jobs writes their row. */
  #prove(keys: readonly string[]): void {
    const rows = JSON.stringify(keys);
    this.#ctx.storage.sql.exec(
      "INSERT OR REPLACE INTO keys (key, last_seen, completed, has_completed) SELECT value, ?, 3, 1 FROM json_each(?)",
      Date.now(),
      rows,
    );
  }

  /** Commits jobs of many users, until so many wait, also from earlier rounds, and D1 has all of them. */
  async #queue(jobs: number): Promise<void> {
    const { live } = this.#ctx.storage.sql.exec<{ live: number }>("SELECT count(*) AS live FROM jobs WHERE ended_at IS NULL").one();
    const commit = async (n: number): Promise<void> => {
      const answer = await this.commit({
        ...{ id: newJobId(Date.now()), jobType: "TASK", taskType: "classify", policy: "CHEAP", privacyClass: "PUBLIC", userId: `queued-${n % AT_ONCE}` },
        ...{ trustedKeys: [], client: `10.${100 + (n % 100)}.${n % 250}.1`, idempotency: null, wait: 0, again: false },
        payload: `{"job_type":"TASK","task_type":"classify","input":"The parcel came early and the box was whole, number ${n}."}`,
      });
      if (answer.ok) return;
      if (answer.reason !== "queue_full") throw new Error(`a commit was refused: ${answer.reason}`);
      // D1 is behind.
      await scheduler.wait(100);
      return commit(n);
    };
    for (let n = live; n < jobs; n += AT_ONCE) await Promise.all(Array.from({ length: Math.min(AT_ONCE, jobs - n) }, (_, i) => commit(n + i)));
    const behind = "SELECT count(*) AS n FROM jobs WHERE synced_rev < rev";
    while (Number(this.#ctx.storage.sql.exec(behind).one().n) > FEW) await scheduler.wait(100);
  }

  /** Writes ended jobs to D1, as they would be there after days of work. */
  async #store(jobs: number): Promise<void> {
    const end = Date.now() - 60_000;
    const ids = "WITH RECURSIVE n (i) AS (SELECT CAST(?1 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)";
    // Ids as those of jobs that came one after the other, a millisecond apart.
    const at = `(${end - jobs} + i)`;
    const id = `printf('%02x%06x-%04x-4000-8000-%012x', i % 5, ${at} >> 16 & 0xffffff, ${at} & 0xffff, i)`;
    const payload = '{"job_type":"TASK","task_type":"classify","input":"The parcel came early and the box was whole, and nobody complained."}';
    for (let from = 0; from < jobs; from += 10 * AT_ONCE) {
      const to = Math.min(jobs, from + 10 * AT_ONCE);
      await this.db.batch([
        this.db
          .prepare(
            `${ids} INSERT OR IGNORE INTO jobs (id, job_type, policy, privacy_class, user_id, payload, status, rev, attempt, result, provider_pubkey, holders, created_at,
               completed_at, ended_at) SELECT ${id}, 'TASK', 'CHEAP', 'PUBLIC', 'stored-' || (i % 1000), ?4, 'completed', 3, 1,
               '{"sentiment":"positive","confidence":0.9312}', printf('%064x', i % 5000), '[]', ?3, ?3, ?3 FROM n`,
          )
          .bind(from, to, end, payload),
        this.db
          .prepare(
            `${ids} INSERT OR IGNORE INTO receipts (job_id, signed_job_id, provider_pubkey, output_hash, completed_at, payment_ref, signature, verified)
               SELECT ${id}, ${id}, printf('%064x', i % 5000), ?3 ->> 'output_hash', '2026-01-01T00:00:00.000Z', NULL, ?3 ->> 'signature', 1 FROM n`,
          )
          .bind(from, to, RECEIPT),
      ]);
    }
  }

  /** Pairs each of so many users with all of these keys. */
  async #pair(users: number, keys: readonly string[]): Promise<void> {
    const now = Date.now();
    const each = Math.max(1, Math.floor((10 * AT_ONCE) / Math.max(1, keys.length)));
    for (let from = 0; from < users; from += each) {
      await this.db
        .prepare(
          `WITH RECURSIVE n (i) AS (SELECT CAST(?1 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
             INSERT INTO pairings (pairing_code, user_id, provider_pubkey, claimed, created_at, expires_at, paired_at, used_at)
             SELECT 'ABCDEF', 'paired-' || i, value, 1, ?3, ?3, ?3, ?3 FROM n, json_each(?4)`,
        )
        .bind(from, Math.min(users, from + each), now, JSON.stringify(keys))
        .run();
    }
  }

  async #stakes(keys: readonly string[], amount: number): Promise<void> {
    const write = "INSERT OR REPLACE INTO stakes (provider_pubkey, amount, updated_at) SELECT value, ?, ? FROM json_each(?)";
    await this.db.prepare(write).bind(amount, Date.now(), JSON.stringify(keys)).run();
  }
}

export default {
  fetch: (request, env, context) => {
    const isDoor = new URL(request.url).pathname.startsWith("/bench/");
    return isDoor ? env.HUB.getByName("hub").fetch(request) : main.fetch(request, env, context);
  },
  scheduled: (controller, env) => main.scheduled(controller, env),
} satisfies ExportedHandler<Env>;
