import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { DAY, RETRY_AFTER, SECOND, TIMING } from "../../../src/protocol/times.ts";
import { type Answer, commitInput, TestHub, until, withSettings } from "../support/worker-hub.ts";
import type { TestWorker } from "../support/worker.ts";

const FULL = 4_000_000;
const PER_CLIENT = 20_000;
const PER_PAYER = 3_000;
const RESULT_KEPT = 30 * SECOND;
withSettings({
  ...{ RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip", COMMITS_PER_MINUTE: "100000" },
  ...{ STORAGE_BYTES: String(FULL), CLIENT_STORED_BYTES: String(PER_CLIENT), PAYER_STORED_BYTES: String(PER_PAYER) },
  RETENTION_RESULT_DAYS: String(RESULT_KEPT / DAY),
});

afterEach(() => vi.restoreAllMocks());

/** The events that are logged from now on. */
function listen(): () => string[] {
  const lines: string[] = [];
  for (const level of ["warn", "error"] as const) vi.spyOn(console, level).mockImplementation((line: string) => void lines.push(line));
  return () => lines.map((line) => String((JSON.parse(line) as { event: unknown }).event));
}

/** Makes the hub's SQLite larger, and lets the hub measure it. */
async function fill(hub: TestHub, bytes: number): Promise<void> {
  await hub.sql("CREATE TABLE IF NOT EXISTS filling (data BLOB)");
  await hub.sql(`INSERT INTO filling VALUES (zeroblob(${bytes}))`);
  hub.skip(2_000);
}

test("[LM3] one run of the cron deletes as many idempotency keys as a busy hub gets between two runs", async () => {
  const hub = new TestHub();
  await hub.workersOnline();
  const rows = 3 * TUNING.purgedRows + 1;
  const old = Date.now() - 3 * 24 * 3_600_000;
  await hub.sql(
    `INSERT INTO idempotency WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows}) SELECT 'u', i, 'f', 'j', ${old} FROM n`,
  );
  await hub.stub.wake();
  expect(await hub.sql("SELECT count(*) AS n FROM idempotency")).toEqual([{ n: 0 }]);
});

test("[LM3] where retention keeps results for less than a minute, the cron has the hub forget those of ended jobs as early", async () => {
  const hub = new TestHub();
  const worker = await hub.worker();
  const id = await hub.commit();
  await worker.complete(await worker.assigned(), { summary: "s", word_count: 1 });
  await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "in D1");
  await env.DB.prepare("UPDATE jobs SET result = NULL WHERE id = ?").bind(id).run();
  for (const [after, result] of [
    [RESULT_KEPT - 5 * SECOND, { summary: "s", word_count: 1 }],
    [5 * SECOND, null],
  ] as const) {
    hub.skip(after);
    await hub.stub.wake();
    expect(await hub.job(id)).toMatchObject({ status: "completed", result });
  }
});

const from = (ip: string) => ({ "x-test-ip": ip });
/** The payload of a job whose result of so many bytes counts for its seeker. */
const asking = (bytes: number) => ({ task_type: "summarize", input: "i".repeat(Math.ceil(bytes / LIMITS.resultPerPayloadByte)) });
let clients = 0;
/** The header of a client that nobody has seen. */
const newClient = () => from(`198.51.100.${++clients}`);

/** Has a worker complete a job that asks for a result of about this many bytes, and sends one. */
async function complete(hub: TestHub, worker: TestWorker, bytes: number, headers: Record<string, string>): Promise<Answer> {
  const answer = await hub.post("cheap", { payload: asking(bytes) }, headers);
  if (answer.status === 201) await worker.complete(await worker.assigned(), { summary: "s".repeat(bytes), word_count: 1 });
  return answer;
}

describe("the watermark", () => {
  test("[LM3] a hub that is full accepts no commit; what it has accepted is run and recorded, and once there is room commits are accepted", async () => {
    const events = listen();
    const hub = new TestHub();
    const worker = await hub.worker();
    const key = { "idempotency-key": "before" };
    const id = String((await hub.post("cheap", {}, key)).body.job_id);
    const job = await worker.assigned();
    await fill(hub, FULL / 2);
    expect((await hub.post("cheap", {}, key)).body.job_id).toBe(id);
    await hub.commit();
    expect(events()).toContain("storage_half_full");
    expect(events()).not.toContain("storage_full");
    await fill(hub, FULL / 2);
    const refused = await hub.post("cheap");
    expect([refused.status, refused.body.error, refused.headers.get("retry-after")]).toEqual([503, "storage_full", String(RETRY_AFTER.storage_full)]);
    expect(refused.body.request_id).toBe(refused.headers.get("x-request-id"));
    expect(events()).toContain("storage_full");
    // The same commit again is no new job.
    expect((await hub.post("cheap", {}, key)).body.job_id).toBe(id);
    expect((await worker.complete(job)).status).toBe("accepted");
    await hub.recorded(id, "completed");
    await hub.sql("DELETE FROM filling");
    hub.skip(2_000);
    await hub.commit();
  });

  test("[JB9] [LM3] a commit whose first delivery is in D1 already has that job: storage_full would say that there is none", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput();
    await hub.stub.commit(input);
    await worker.complete(await worker.assigned());
    await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "copied to D1");
    await hub.evict();
    await fill(hub, FULL);
    expect(await hub.stub.commit(commitInput({ again: true }))).toMatchObject({ ok: false, reason: "storage_full" });
    expect(await hub.stub.commit({ ...input, again: true })).toMatchObject({ ok: true, jobId: input.id });
    await worker.quiet();
  });

  test("[LM3] [PY5] a payment is not even reserved", async () => {
    const hub = new TestHub();
    await hub.stub.workersOnline();
    await fill(hub, FULL);
    expect(await hub.stub.reserve(commitInput(), payment("0xaa"))).toEqual({ state: "refused", reason: "storage_full" });
    expect(await hub.sql("SELECT key FROM payments")).toEqual([]);
  });

  test("[LM3] [PY6] a payment that was spent, or has become a credit, still brings its own job, which needs no room", async () => {
    const hub = new TestHub();
    listen();
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ success: true, transaction: "0x01", network: "eip155:10143", payer: "0xaa" }));
    const worker = await hub.worker();
    const [input, paid] = [commitInput(), payment("0xaa")];
    await hub.stub.reserve(input, paid);
    await hub.stub.submit(input, paid.key, "0xaa", paid);
    const { job_id, attempt } = await worker.assigned();
    worker.send({ type: "job_failed", job_id, attempt, error: "worker_error", retryable: false });
    await until(async () => (await hub.job(input.id)).status === "failed", "failed");
    const [done, spent] = [commitInput(), payment("0xbb")];
    await hub.stub.reserve(done, spent);
    await hub.stub.submit(done, spent.key, "0xbb", spent);
    await worker.complete(await worker.assigned());
    await fill(hub, FULL);
    expect(await hub.stub.reserve(commitInput(), spent)).toMatchObject({ state: "known", jobId: done.id });
    expect(await hub.stub.reserve(commitInput(), paid)).toEqual({ state: "refused", reason: "storage_full" });
    expect(await hub.stub.reserve({ ...input, again: true }, paid)).toMatchObject({ state: "known", jobId: input.id });
  });

  test("[LM3] a D1 that is full counts too; the cron finds out when it has room again", async () => {
    const hub = new TestHub();
    let reported = false;
    await hub.breakD1({
      batch: async (run) => {
        const results = await run();
        reported = true;
        return results.map((result) => ({ ...result, meta: { ...result.meta, size_after: FULL } }));
      },
    });
    await hub.commit();
    await until(async () => reported && (await hub.post("cheap")).status === 503, "full");
    await hub.stub.wake();
    await until(async () => (await hub.post("cheap")).status === 201, "room again");
  });
});

describe("what one client stores in a day", () => {
  test("[LM3] [LM2] over its bytes it gets 429 until they are a day old, also from a hub that lost its memory; others go on, and so does what it began", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const client = newClient();
    expect((await complete(hub, worker, PER_CLIENT, client)).status).toBe(201);
    await hub.evict();
    const refused = await complete(hub, worker, 1, client);
    expect([refused.status, refused.body.error]).toEqual([429, "rate_limited"]);
    const wait = Number(refused.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(TIMING.parkHalving / 1_000);
    expect(wait).toBeLessThanOrEqual((1.1 * TIMING.parkHalving) / 1_000);
    expect((await complete(hub, worker, 1, newClient())).status).toBe(201);
    worker.close();
    await hub.online(0);
    await hub.pass(wait * 1_000);
    expect((await hub.post("cheap", {}, client)).status).toBe(201);
  });

  test("[LM3] a job under way when its client gets there still completes, and a commit that came before gets its answer", async () => {
    const hub = new TestHub();
    const client = newClient();
    const [one, two] = [await hub.worker(), await hub.worker()];
    const headers = { ...client, "idempotency-key": "k" };
    const id = String((await hub.post("cheap", { payload: asking(PER_CLIENT) }, headers)).body.job_id);
    await hub.post("cheap", { payload: asking(PER_CLIENT) }, client);
    const jobs = [await one.assigned(), await two.assigned()];
    await one.complete(jobs[0] ?? { job_id: "", attempt: 0 }, { summary: "s".repeat(PER_CLIENT), word_count: 1 });
    expect((await hub.post("cheap", {}, client)).status).toBe(429);
    expect((await two.complete(jobs[1] ?? { job_id: "", attempt: 0 })).status).toBe("accepted");
    expect((await hub.post("cheap", { payload: asking(PER_CLIENT) }, headers)).body.job_id).toBe(id);
  });

  test("[LM3] payloads that were erased do not count", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const client = newClient();
    const payload = { task_type: "summarize", input: "i".repeat(PER_CLIENT) };
    for (let n = 0; n < 3; n++) expect((await hub.post("cheap", { payload }, client)).status).toBe(201);
    await hub.pass(TIMING.claimWindow);
    expect((await hub.post("cheap", { payload }, client)).status).toBe(201);
  });

  test("[LM3] clients whose address is not known share no count", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (let n = 0; n < 3; n++) expect((await complete(hub, worker, PER_CLIENT, {})).status).toBe(201);
  });

  test("[LM3] what is counted is forgotten two days later", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    await complete(hub, worker, 1, newClient());
    worker.close();
    expect(await hub.sql("SELECT name FROM stored_bytes")).toHaveLength(1);
    hub.skip(2 * TIMING.parkHalving);
    await hub.stub.wake();
    expect(await hub.sql("SELECT name FROM stored_bytes")).toEqual([]);
  });
});

describe("what a result has beyond what its job asks for", () => {
  /** A worker at this address. */
  const workerAt = async (hub: TestHub, ip: string): Promise<TestWorker> => {
    const worker = await hub.connect(undefined, undefined, from(ip));
    await worker.register();
    return worker;
  };
  const padded = (bytes: number) => ({ summary: "s", word_count: 1, pad: "x".repeat(LIMITS.resultBytes + bytes) });
  /** Has a worker send such a result for a job of this seeker; the acknowledgement of it. */
  const send = async (hub: TestHub, worker: TestWorker, bytes: number, seeker = newClient()) => {
    expect((await hub.post("cheap", {}, seeker)).status).toBe(201);
    return worker.complete(await worker.assigned(), padded(bytes));
  };

  test("[LM3] does not use the share of its seeker: the largest result of a stranger leaves it room", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const seeker = newClient();
    expect((await send(hub, worker, LIMITS.outputBytes - LIMITS.resultBytes - 64, seeker)).status).toBe("accepted");
    expect((await hub.post("cheap", {}, seeker)).status).toBe(201);
  });

  test("[LM3] [LM1] counts for its worker's network, also in a hub that lost its memory: without room it is refused, and the job goes to another; results without excess are accepted", async () => {
    const hub = new TestHub();
    const greedy = await workerAt(hub, "203.0.113.1");
    expect((await send(hub, greedy, 0.6 * PER_CLIENT)).status).toBe("accepted");
    await hub.evict();
    const refused = await send(hub, greedy, 0.6 * PER_CLIENT);
    expect(refused).toMatchObject({ status: "rejected", error: "output_too_large", message: expect.stringContaining("more than its job asks for") });
    const other = await workerAt(hub, "203.0.113.2");
    expect((await other.complete(await other.assigned(), padded(0.6 * PER_CLIENT))).status).toBe("accepted");
    await greedy.quiet();
    other.close();
    await hub.online(1);
    expect((await complete(hub, greedy, 1, newClient())).status).toBe(201);
    // The commits of that network have a count of their own.
    expect((await hub.post("cheap", {}, from("203.0.113.1"))).status).toBe(201);
    expect((await greedy.complete(await greedy.assigned())).status).toBe("accepted");
  });

  test("[LM3] is told by the job: an answer of an LLM may be as long as max_tokens allow", async () => {
    const hub = new TestHub();
    const worker = await workerAt(hub, "203.0.113.3");
    const output = "x".repeat(LIMITS.resultBytes + 1_000 * LIMITS.resultPerToken);
    const answerTo = async (payload: object) => {
      await hub.commit("cheap", { job_type: "LLM_INFER", payload });
      return worker.complete(await worker.assigned(), output);
    };
    expect((await answerTo({ prompt: "p", max_tokens: 1_001 })).status).toBe("accepted");
    expect((await answerTo({ prompt: "p" })).error).toBe("output_too_large");
  });
});

describe("the counts in memory", () => {
  const sumOf = async (hub: TestHub): Promise<number> => {
    const rows = await hub.sql<{ counts: ArrayBuffer }>("SELECT counts FROM stored_bytes");
    return rows.reduce((sum, { counts }) => sum + new Float64Array(counts).slice(1).reduce((a, b) => a + b, 0), 0);
  };

  test("[LM3] they cost a job one statement, and none at its commit", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const client = newClient();
    await complete(hub, worker, 1, client);
    const statements: string[] = [];
    await hub.inside((_, state) => {
      const exec = state.storage.sql.exec.bind(state.storage.sql);
      vi.spyOn(state.storage.sql, "exec").mockImplementation((query: string, ...values: unknown[]) => {
        if (query.includes("stored_bytes")) statements.push(query.split(" ")[0] ?? "");
        return exec(query, ...values);
      });
    });
    await complete(hub, worker, 1, client);
    expect(statements).toEqual(["UPDATE"]);
  });

  test("[LM3] a job whose end could not be written is not counted twice", async () => {
    const events = listen();
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.post("cheap", {}, newClient());
    const frame = worker.completion(await worker.assigned(), { summary: "s", word_count: 1 });
    let broken = true;
    await hub.inside((_, state) => {
      const exec = state.storage.sql.exec.bind(state.storage.sql);
      vi.spyOn(state.storage.sql, "exec").mockImplementation((query: string, ...values: unknown[]) => {
        if (broken && query.startsWith("INSERT OR REPLACE INTO stored_bytes")) throw new Error("disk I/O error");
        return exec(query, ...values);
      });
    });
    worker.send(frame);
    await until(async () => events().includes("journal_failed"), "failed");
    broken = false;
    const again = await hub.worker({ key: worker.key });
    again.send(frame);
    expect((await again.next("job_complete_ack")).status).toBe("accepted");
    expect(await sumOf(hub)).toBeLessThan(2 * LIMITS.jobRowBytes);
  });
});

describe("what one payer stores in a day", () => {
  test("[LM3] from any address: over its bytes, a payment is refused before it is reserved, and where the payer is known later, before it is settled", async () => {
    const hub = new TestHub();
    hub.skip(0);
    for (let stored = 0; stored < PER_PAYER; stored += LIMITS.jobRowBytes) {
      const input = commitInput({ client: `10.0.0.${stored}` });
      const paid = payment("0xaa");
      await hub.stub.reserve(input, paid);
      expect(await hub.stub.submit(input, paid.key, "0xAA", paid)).toMatchObject({ ok: true });
      await hub.pass(TIMING.claimWindow);
    }
    expect(await hub.stub.reserve(commitInput(), payment("0xAA"))).toMatchObject({ state: "refused", reason: "rate_limited" });
    const [input, unnamed] = [commitInput(), payment(null)];
    expect(await hub.stub.reserve(input, unnamed)).toEqual({ state: "reserved" });
    expect(await hub.stub.submit(input, unnamed.key, "0xaa", unnamed)).toMatchObject({ ok: false, reason: "rate_limited" });
    expect(await hub.sql(`SELECT key FROM payments WHERE key = '${unnamed.key}'`)).toEqual([]);
    // It was not used: another request may bring it at once.
    expect(await hub.stub.reserve(commitInput(), unnamed)).toEqual({ state: "reserved" });
    expect(await hub.stub.reserve(commitInput(), payment("0xbb"))).toEqual({ state: "reserved" });
  });

  test("[LM3] [PY9] a job that is paid from a balance counts for the payer of the settled payment, also where the request does not name the payer", async () => {
    const hub = new TestHub();
    await hub.workersOnline();
    const input = commitInput();
    const paid = payment(null);
    const credit = JSON.stringify({ left: "1000", lent: "0", since: 1, transaction: "0x01" });
    await hub.sql(`INSERT INTO payments (key, digest, binding, payer, asset, amount, expires_at, job_id, doubts, phase, kind, updated_at, credit)
      VALUES ('${paid.key}', 'digest', 'binding', '0xaa', '${paid.asset}', '1000', 1, 'failed', 0, '{"kind":"credit","transaction":"0x01"}', 'credit', 1, '${credit}')`);
    expect(await hub.stub.reserve(input, paid)).toEqual({ state: "credit" });
    expect(await hub.stub.submit(input, paid.key, "", paid)).toMatchObject({ ok: true, jobId: input.id });
    expect(await hub.sql(`SELECT payer FROM jobs WHERE id = '${input.id}'`)).toEqual([{ payer: "0xaa" }]);
    for (let stored = 0; stored < PER_PAYER; stored += LIMITS.jobRowBytes) {
      const other = payment("0xaa");
      const job = commitInput({ client: `10.0.0.${stored}` });
      await hub.stub.reserve(job, other);
      await hub.stub.submit(job, other.key, "0xaa", other);
      await hub.pass(TIMING.claimWindow);
    }
    const again = payment(null);
    await hub.sql(`INSERT INTO payments (key, digest, binding, payer, asset, amount, expires_at, job_id, doubts, phase, kind, updated_at, credit)
      VALUES ('${again.key}', 'digest', 'binding', '0xaa', '${again.asset}', '1000', 1, 'failed too', 0, '{"kind":"credit","transaction":"0x02"}', 'credit', 1, '${credit}')`);
    expect(await hub.stub.reserve(commitInput(), again)).toMatchObject({ state: "refused", reason: "rate_limited" });
  });
});

/** A payment that nobody will settle. */
function payment(payer: string | null) {
  return {
    ...{ key: crypto.randomUUID(), digest: "digest", binding: "binding", payer, asset: "eip155:10143/0x00", amount: "1000" },
    ...{ expiresAt: Date.now() + 300_000, payload: "{}", requirements: "{}" },
  };
}

test("[LM3] D1 tells its size with every answer", async () => {
  const { meta } = await env.DB.prepare("SELECT 1").run();
  expect(meta.size_after).toBeGreaterThan(0);
});
