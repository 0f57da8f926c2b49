import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { shortJobId } from "../../../src/protocol/text.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { MOVES } from "../../../src/coordinator/dispatch/index.ts";
import { CancelTokens } from "../../../src/coordinator/hub/cancel-tokens.ts";
import { LedgerStore } from "../../../src/coordinator/hub/ledger-store.ts";
import type { PaymentInput, ReserveAnswer } from "../../../src/coordinator/hub/rpc.ts";
import { Settler } from "../../../src/coordinator/hub/settler.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { commitInput, TestHub, until } from "../support/worker-hub.ts";
import { newKey } from "../support/worker.ts";

/** How long a settlement may take, ms [PY8]: far more than an eviction. */
const SETTLE_TIMEOUT = 20_000;

/** A verified payment whose facilitator cannot be reached. */
function paymentInput(fields: Partial<PaymentInput> = {}): PaymentInput {
  const { network } = { network: "eip155:10143" };
  const terms = { scheme: "exact", network, amount: "1000", asset: "0x00", payTo: "0x00", maxTimeoutSeconds: 300, extra: {} };
  return {
    ...{ key: crypto.randomUUID(), digest: "digest", binding: "binding", payer: "0xAA", asset: `${network}/0x00`, amount: "1000" },
    ...{ expiresAt: Date.now() + 300_000, payload: JSON.stringify({ x402Version: 2, accepted: terms, payload: {} }), requirements: JSON.stringify(terms) },
    ...fields,
  };
}

/** Reserves and submits a paid job, as the router does. */
async function bought(hub: TestHub, payment: PaymentInput): Promise<string> {
  const input = commitInput();
  expect(await hub.stub.reserve(input, payment)).toEqual({ state: "reserved" });
  expect(await hub.stub.submit(input, payment.key, payment.payer ?? "", payment)).toMatchObject({ ok: true, jobId: input.id });
  return input.id;
}

const copy = async (key: string) => env.DB.prepare("SELECT * FROM payments WHERE key = ?").bind(key).first();

async function copied(key: string, state: string): Promise<Record<string, unknown>> {
  let row: Record<string, unknown> | null = null;
  await until(async () => (row = await copy(key))?.state === state, `${state} in D1`);
  return row ?? {};
}

/** Collects the events that are logged from now on. */
function listen(): () => Record<string, unknown>[] {
  const lines: string[] = [];
  for (const level of ["warn", "error"] as const) vi.spyOn(console, level).mockImplementation((line: string) => void lines.push(line));
  return () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("the operator's copy of the ledger", () => {
  test("[PY6] a held payment and a void one are in D1 without the signed payload", async () => {
    const hub = new TestHub();
    const payment = paymentInput();
    const jobId = await bought(hub, payment);
    const row = await copied(payment.key, "held");
    expect(row).toMatchObject({ job_id: jobId, payer: "0xaa", asset: payment.asset, amount: "1000", settlement: null, reason: null });
    expect(Object.keys(row)).not.toContain("payload");
    expect((await hub.stub.figures()).payments).toMatchObject({ held: 1, settling: 0, unresolved: 0 });
    await hub.pass(TIMING.claimWindow);
    expect((await hub.stub.figures()).payments).toMatchObject({ held: 0 });
    expect(await copied(payment.key, "void")).toMatchObject({ reason: "unused", settlement: null });
    expect(await hub.sql("SELECT payload, requirements FROM payments")).toEqual([{ payload: null, requirements: null }]);
  });

  test("[PY5] a reservation has no row: a hub that lost its memory has forgotten it, and the same payment may come again", async () => {
    const hub = new TestHub();
    const [payment, input] = [paymentInput(), commitInput()];
    expect(await hub.stub.reserve(input, payment)).toEqual({ state: "reserved" });
    expect(await hub.sql("SELECT key FROM payments")).toEqual([]);
    await hub.evict();
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toEqual({ ok: false, reason: "reservation_lost" });
    await bought(hub, payment);
    expect(await hub.sql("SELECT kind, payload, requirements FROM payments")).toEqual([
      { kind: "held", payload: payment.payload, requirements: payment.requirements },
    ]);
  });

  test("[PY5] [PY6] a submit of an earlier router, without the texts, is refused for now: nothing is stored, and the same payment may come again", async () => {
    const hub = new TestHub();
    const [payment, input] = [paymentInput(), commitInput()];
    // The clock stands still: the reservation does not end by itself.
    hub.skip(0);
    await hub.stub.reserve(input, payment);
    expect(await hub.stub.submit(input, payment.key, "0xaa")).toEqual({ ok: false, reason: "reservation_lost" });
    expect(await hub.stub.job(input.id, 0)).toBeNull();
    await bought(hub, payment);
  });

  test("[PY5] a reservation is not copied, because the payment is not verified yet", async () => {
    const hub = new TestHub();
    const [reserved, held] = [paymentInput(), paymentInput({ payer: "0xbb" })];
    await hub.stub.reserve(commitInput(), reserved);
    await bought(hub, held);
    await copied(held.key, "held");
    expect(await copy(reserved.key)).toBeNull();
  });

  test("[PY8] a settlement without an answer is logged without the payment, and copied as unknown", async () => {
    const hub = new TestHub();
    const logged = listen();
    await hub.worker();
    const payment = paymentInput();
    const jobId = await bought(hub, payment);
    await copied(payment.key, "unknown");
    expect(logged().filter(({ event }) => event === "settlement_unknown")).toContainEqual({
      ...{ level: "warning", event: "settlement_unknown", job: shortJobId(jobId), reason: "unreachable" },
    });
    expect(JSON.stringify(logged())).not.toContain("accepted");
    // A timer that was not cleared would delay the eviction until it fires.
    const asleep = performance.now();
    await hub.evict();
    expect(performance.now() - asleep).toBeLessThan(SETTLE_TIMEOUT);
  });

  test("[PY8] a hub that sleeps while the request settles takes its refusal: no job, no doubt, no call of its own", async () => {
    const hub = new TestHub();
    hub.skip(0);
    listen();
    const called = vi.spyOn(globalThis, "fetch");
    await hub.worker();
    const [payment, input] = [paymentInput(), { ...commitInput(), settles: true }];
    await hub.stub.reserve(input, payment);
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toMatchObject({ ok: true, settle: true, jobId: input.id });
    await hub.evict();
    await hub.pass(12_000);
    const refused = { kind: "refused", reason: "insufficient_funds", response: '{"success":false}' } as const;
    expect(await hub.stub.settled(input, payment.key, refused)).toMatchObject({ ok: false, reason: "payment_failed" });
    expect(await hub.sql("SELECT kind, doubts, phase ->> '$.reason' AS reason FROM payments")).toEqual([{ kind: "void", doubts: 0, reason: "refused" }]);
    expect(called).not.toHaveBeenCalled();
  });

  test("[PY8] a job that ran on an assumed settlement and failed still says that it was charged: its payer must not think that nothing has moved", async () => {
    const hub = new TestHub();
    listen();
    const worker = await hub.worker();
    const [payment, input] = [paymentInput(), { ...commitInput(), settles: true }];
    await hub.stub.reserve(input, payment);
    await hub.stub.submit(input, payment.key, "0xaa", payment);
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ success: false, errorReason: "invalid_exact_evm_nonce_already_used" }));
    await hub.stub.settled(input, payment.key, { kind: "unknown", reason: "timeout", lost: true });
    await hub.pass(TIMING.settleRetry);
    const { job_id, attempt } = await worker.assigned();
    const charged = JSON.parse((await hub.stub.settlement(input.id)) ?? "{}");
    expect(charged).toMatchObject({ success: true, transaction: "" });
    worker.send({ type: "job_failed", job_id, attempt, error: "worker_error", retryable: false });
    await until(async () => (await hub.job(input.id)).status === "failed", "failed");
    expect(await hub.sql("SELECT kind, phase ->> '$.reason' AS reason FROM payments")).toEqual([{ kind: "unresolved", reason: "assumed" }]);
    expect(JSON.parse((await hub.stub.settlement(input.id)) ?? "{}")).toEqual(charged);
  });

  test("[API5] the idempotency key is kept with its job, while its settlement is still under way", async () => {
    const hub = new TestHub();
    listen();
    await hub.worker();
    // The facilitator answers only when the test lets it, and the response must be created in the context of the hub.
    const facilitator = { mayAnswer: false };
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
      while (!facilitator.mayAnswer) await scheduler.wait(5);
      return Response.json({ success: false, errorReason: "insufficient_funds" });
    });
    const input = commitInput({ idempotency: { key: "order-1", fingerprint: "f" } });
    const payment = paymentInput();
    await hub.stub.reserve(input, payment);
    const submitted = hub.stub.submit(input, payment.key, "0xaa", payment);
    await until(async () => (await hub.sql("SELECT kind FROM payments"))[0]?.["kind"] === "settling", "settling");
    expect(await hub.sql("SELECT key, job_id FROM idempotency")).toEqual([{ key: "order-1", job_id: input.id }]);
    facilitator.mayAnswer = true;
    expect(await submitted).toMatchObject({ ok: false, reason: "payment_failed" });
    // Only 201s are stored.
    expect(await hub.sql("SELECT key FROM idempotency")).toEqual([]);
  });

  test("[LM3] a row that D1 does not have yet is not deleted; a lost copy is made again after the hub lost its memory", async () => {
    const hub = new TestHub();
    listen();
    await hub.breakD1({
      batch: async () => Promise.reject(new Error("down")),
      bound: () => {
        throw new Error("down");
      },
    });
    const payment = paymentInput();
    await bought(hub, payment);
    await hub.pass(TIMING.claimWindow);
    await hub.inside((self) => self.wake());
    expect(await hub.sql("SELECT kind FROM payments")).toEqual([{ kind: "void" }]);
    await hub.abort();
    await hub.stub.workersOnline();
    expect(await copied(payment.key, "void")).toMatchObject({ reason: "unused" });
  });

  test("[LM3] after the retention only what is done and in D1 is deleted: no money of a balance, no doubt, nothing that D1 lacks", async () => {
    const hub = new TestHub();
    await hub.workersOnline();
    const unused = { kind: "void", reason: "unused" };
    const rows = [
      { key: "done long ago", phase: unused },
      { key: "spent long ago", phase: { kind: "spent", transaction: "0x00" } },
      { key: "done just now", phase: unused, updatedAt: Date.now() },
      { key: "in a balance", phase: unused, credit: { left: "1000", lent: "0", since: 1, transaction: "0x00" } },
      { key: "in doubt", phase: { kind: "unresolved", reason: "expired", retryDue: null } },
      { key: "not in D1", phase: unused, rev: 2 },
    ];
    for (const { key, phase, updatedAt = 1, credit = null, rev = 1 } of rows) {
      await hub.sql(`INSERT INTO payments (key, digest, binding, amount, expires_at, job_id, doubts, phase, kind, updated_at, credit, rev, copied_rev)
        VALUES ('${key}', 'd', 'b', '1000', 1, '${key}', 0, '${JSON.stringify(phase)}', '${phase.kind}', ${updatedAt},
          ${credit === null ? "NULL" : `'${JSON.stringify(credit)}'`}, ${rev}, 1)`);
    }
    await hub.inside((self) => self.wake());
    // What only the operator can decide about is not in the memory of the hub, and counts all the same.
    expect((await hub.stub.figures()).payments).toMatchObject({ held: 0, unresolved: 1 });
    expect((await hub.sql("SELECT key FROM payments ORDER BY key")).map(({ key }) => key)).toEqual(["done just now", "in a balance", "in doubt", "not in D1"]);
  });

  test("[PY9] a hub that starts reads no credits of which nothing is lent, because their payers may never come back; they pay for jobs all the same", async () => {
    const hub = new TestHub();
    await hub.workersOnline();
    for (const number of [1, 2]) {
      const credit = JSON.stringify({ left: "600", lent: "0", since: number, transaction: `0x0${number}` });
      await hub.sql(`INSERT INTO payments (key, digest, binding, payer, asset, amount, expires_at, job_id, doubts, phase, kind, updated_at, credit)
        VALUES ('credit ${number}', 'd', 'b', '0xaa', '${paymentInput().asset}', '1000', 1, '${number}', 0, '{"kind":"credit","transaction":"0x0${number}"}', 'credit', 1,
          '${credit}')`);
    }
    const needed = () =>
      hub.inside((_, { storage }) => {
        const { payments } = new LedgerStore(storage.sql, "network").open(Date.now());
        return payments.map(({ key }) => key).toSorted();
      });
    await hub.evict();
    expect(await needed()).toEqual([]);
    const payment = paymentInput();
    const jobId = await bought(hub, payment);
    // What is lent to a live job must find its way back.
    await hub.evict();
    expect(await needed()).toEqual(["credit 1", "credit 2", payment.key].toSorted());
    await hub.inside((self, { storage }) => self.cancel(jobId, new CancelTokens(storage.sql).of(jobId)));
    expect(await needed()).toEqual([]);
    expect(JSON.parse((await hub.stub.settlement(jobId)) ?? "null")).toMatchObject({ transaction: "0x01", extensions: { credit: { balance: "1200" } } });
  });

  test("[PY6] if D1 refuses payments but accepts jobs, jobs are copied at once, and the fault is logged", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const logged = listen();
    const payment = paymentInput();
    await env.DB.prepare("CREATE TRIGGER refuse BEFORE INSERT ON payments BEGIN SELECT RAISE(ABORT, 'refused'); END").run();
    onTestFinished(() => void env.DB.prepare("DROP TRIGGER IF EXISTS refuse").run());
    await bought(hub, payment);
    const isTold = () => logged().some(({ event, of }) => event === "outbox_behind" && of === "payments");
    for (let tries = 0; tries < 30 && !isTold(); tries++) {
      const id = await hub.commit();
      // No time passes here: if jobs waited together with the payments, this one would wait for ever.
      await until(async () => (await hub.sql(`SELECT id FROM jobs WHERE id = '${id}' AND synced_rev > 0`)).length === 1, "in D1");
      await hub.pass(30_000);
    }
    expect(isTold()).toBe(true);
    await env.DB.prepare("DROP TRIGGER refuse").run();
    await hub.pass(30_000);
    await copied(payment.key, "void");
  });

  test("[PY6] rows that cannot be read do not keep others from D1", async () => {
    const hub = new TestHub();
    listen();
    await hub.stub.workersOnline();
    await hub.sql(`INSERT INTO payments (key, digest, binding, amount, expires_at, job_id, doubts, phase, kind, updated_at)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      SELECT 'many-' || i, 'd', 'b', '1', 1, 'job', 0, iif(i <= 10, '{', '{"kind":"void","reason":"unused"}'), 'void', i FROM n`);
    await hub.evict();
    await hub.stub.workersOnline();
    await until(async () => (await env.DB.prepare("SELECT count(*) AS n FROM payments WHERE key LIKE 'many-%'").first("n")) === 490, "490 in D1");
  });
});

describe("many requests with one payment or one idempotency key", () => {
  test.each([
    ["payment", null],
    ["idempotency key", { key: "many", fingerprint: "f" }],
  ] as const)("[PY6] [API5] [LM1] eight wait for the %s, one more is refused for now, and the eight get the job", async (_, idempotency) => {
    const hub = new TestHub();
    const [payment, input] = [paymentInput(), commitInput({ idempotency })];
    expect(await hub.stub.reserve(input, payment)).toEqual({ state: "reserved" });
    const paid = () => (idempotency === null ? payment : paymentInput());
    const many = Array.from({ length: LIMITS.waitersPerKey + 1 }, () => hub.stub.reserve(commitInput({ idempotency }), paid()));
    expect(await Promise.race(many)).toEqual({ state: "refused", reason: "overloaded" });
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toMatchObject({ ok: true, jobId: input.id });
    const known = (await Promise.all(many)).filter(({ state }) => state === "known");
    expect(known).toMatchObject(Array.from({ length: LIMITS.waitersPerKey }, () => ({ state: "known", jobId: input.id, job: null, settlement: null })));
  });
});

describe("a request with the payment of an earlier one", () => {
  test("[PY6] [API5] whose storage failed does not wait for it", { timeout: 20_000 }, async () => {
    const hub = new TestHub();
    const payment = paymentInput();
    const idempotency = { key: "one", fingerprint: "f" };
    await hub.stub.workersOnline();
    await hub.sql("ALTER TABLE idempotency RENAME TO away");
    await hub.inside(async (object) => {
      await expect(object.reserve(commitInput({ idempotency }), payment)).rejects.toThrow("idempotency");
      await expect(object.stored(commitInput({ idempotency }))).rejects.toThrow("idempotency");
    });
    await hub.sql("ALTER TABLE away RENAME TO idempotency");
    expect(await hub.stub.reserve(commitInput({ idempotency }), payment)).toEqual({ state: "reserved" });
  });

  test("[PY5] [PY6] whose router died waits until that reservation ends, a minute after it began", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const payment = paymentInput();
    await hub.stub.reserve(commitInput(), payment);
    hub.skip(TIMING.reservation - 100);
    const answers: unknown[] = [];
    void hub.stub.reserve(commitInput(), payment).then((answer) => answers.push(answer));
    for (let i = 0; i < 10 && answers.length === 0; i++) {
      await scheduler.wait(50);
      await hub.pass(500);
    }
    expect(answers).toEqual([{ state: "reserved" }]);
  });

  test("[API5] stores its idempotency key: the same key with another payment buys nothing", async () => {
    const hub = new TestHub();
    const payment = paymentInput();
    const jobId = await bought(hub, payment);
    const idempotency = { key: "later", fingerprint: "f" };
    expect(await hub.stub.reserve(commitInput({ idempotency }), payment)).toMatchObject({ state: "known", jobId });
    await hub.evict();
    expect(await hub.stub.reserve(commitInput({ idempotency }), paymentInput())).toMatchObject({ state: "known", jobId });
  });

  test("[PY8] whose payment was used before, and nobody knows for what, gets that answer again: a 402 without it would say that nothing was charged", async () => {
    const hub = new TestHub();
    listen();
    await hub.worker();
    const [payment, input] = [paymentInput(), commitInput({ settles: true })];
    await hub.stub.reserve(input, payment);
    await hub.stub.submit(input, payment.key, "0xaa", payment);
    const response = '{"success":false,"errorReason":"duplicate_settlement","transaction":""}';
    const answer = await hub.stub.settled(input, payment.key, { kind: "already_used", reason: "duplicate_settlement", response });
    expect(answer).toEqual({ ok: false, reason: "payment_failed", settlement: response });
    const refused = { state: "refused", reason: "payment_already_used" };
    expect(await hub.stub.reserve(commitInput(), payment)).toEqual({ ...refused, settlement: response });
    expect(await hub.stub.reserve(commitInput(), { ...payment, binding: "another" })).toEqual(refused);
    await hub.sql(`UPDATE payments SET kind = 'void', phase = '{"kind":"void","reason":"by_operator"}'`);
    expect(await hub.stub.reserve(commitInput(), payment)).toEqual(refused);
  });

  test("[API9] [JB13] keeps the job when the earlier one leaves", async () => {
    const hub = new TestHub();
    const payment = paymentInput();
    const jobId = await bought(hub, payment);
    const known = await hub.stub.reserve(commitInput(), payment);
    const token = known.state === "known" ? (known.cancelToken ?? "") : "";
    const leaves = async (): Promise<unknown> => {
      await hub.stub.cancel(jobId, token, true);
      return (await hub.job(jobId)).status;
    };
    expect(await leaves()).toBe("pending");
    expect(await leaves()).toBe("failed");
  });
});

describe("a router and a hub that disagree", () => {
  test("[API5] [PY8] requests with the payment of a router that settles wait for it; when that router is lost, they get the job", async () => {
    const hub = new TestHub();
    listen();
    await hub.worker();
    const [payment, input] = [paymentInput(), commitInput()];
    await hub.stub.reserve(input, payment);
    expect(await hub.stub.submit({ ...input, settles: true }, payment.key, "0xaa", payment)).toMatchObject({ ok: true, settle: true, jobId: input.id });
    const many = Array.from({ length: LIMITS.waitersPerKey + 1 }, () => hub.stub.reserve(commitInput(), payment));
    // Eight wait, so one more is refused.
    expect(await Promise.race(many)).toEqual({ state: "refused", reason: "overloaded" });
    await hub.pass(TIMING.settleReport);
    const known = (await Promise.all(many)).filter(({ state }) => state !== "refused");
    expect(known).toMatchObject(Array.from({ length: LIMITS.waitersPerKey }, () => ({ state: "known", jobId: input.id, settlement: null })));
  });

  describe("[API5, PY7] after a restart of the hub, requests with the payment or the key of a router that settles wait for it too", () => {
    const settledBy = { kind: "settled", transaction: "0x01", response: '{"success":true,"transaction":"0x01"}' } as const;
    const refusedBy = { kind: "refused", reason: "insufficient_funds", response: '{"success":false}' } as const;

    /** The answers to a request with the payment, and to one with the key and a payment of its own, which wait while the first request settles. */
    async function others(outcome: typeof settledBy | typeof refusedBy): Promise<{ jobId: string; answers: ReserveAnswer[] }> {
      const hub = new TestHub();
      listen();
      await hub.worker();
      const idempotency = { key: "once", fingerprint: "f" };
      const [payment, input] = [paymentInput(), commitInput({ idempotency, settles: true })];
      await hub.stub.reserve(input, payment);
      expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toMatchObject({ ok: true, settle: true });
      await hub.evict();
      const waiting = [hub.stub.reserve(commitInput(), payment), hub.stub.reserve(commitInput({ idempotency }), paymentInput())];
      expect(await Promise.race([...waiting, hub.stub.workersOnline()]), "the others wait").toBe(1);
      await hub.stub.settled(input, payment.key, outcome);
      return { jobId: input.id, answers: await Promise.all(waiting) };
    }

    test("settled: they get its job and its settlement", async () => {
      const { jobId, answers } = await others(settledBy);
      expect(answers).toMatchObject([0, 1].map(() => ({ state: "known", jobId, settlement: settledBy.response })));
    });

    test("refused: its payment is used, and its key is free", async () => {
      const { answers } = await others(refusedBy);
      expect(answers).toMatchObject([{ state: "refused", reason: "payment_already_used" }, { state: "reserved" }]);
    });
  });

  test("[PY8] money that moved for a void payment: the move is refused, nothing of it is kept, the operator is told, and the hub goes on", async () => {
    const hub = new TestHub();
    const logged = listen();
    const [payment, input] = [paymentInput(), commitInput()];
    await hub.stub.reserve(input, payment);
    await hub.stub.submit(input, payment.key, "0xaa", payment);
    await hub.pass(TIMING.claimWindow);
    await copied(payment.key, "void");
    const waiting = await hub.commit();
    const settled = { kind: "settled", transaction: "0x01", response: '{"success":true,"transaction":"0x01"}' } as const;
    const told = () => hub.stub.settled(input, payment.key, settled);
    expect(await told()).toEqual({ ok: false, reason: "reservation_lost" });
    expect(logged().filter(({ event }) => event === "payment_move_refused")).toEqual([
      { level: "error", event: "payment_move_refused", job: shortJobId(input.id), from: "void unused", to: "credit" },
    ]);
    expect(await copied(payment.key, "unresolved")).toMatchObject({ reason: "illegal_move" });
    // Told once more, it changes nothing; and the memory was rebuilt.
    await told();
    expect(await hub.sql("SELECT kind FROM payments")).toEqual([{ kind: "unresolved" }]);
    await hub.worker();
    await until(async () => (await hub.job(waiting)).status === "assigned", "assigned");
  });

  test("[PY8] a hub that would make an illegal move at each start starts: only that payment is set aside, and the others go on", async () => {
    const hub = new TestHub();
    const logged = listen();
    const [bad, good] = [paymentInput(), paymentInput({ payer: "0xbb" })];
    await bought(hub, bad);
    const waiting = await bought(hub, good);
    // Settled for a job that is not there. Without this entry of the table it cannot become a credit.
    await hub.sql(`UPDATE payments SET job_id = 'gone', kind = 'settled', phase = '{"kind":"settled","transaction":"0x01"}' WHERE key = '${bad.key}'`);
    const { settled } = MOVES;
    Object.assign(MOVES, { settled: ["spent"] });
    onTestFinished(() => void Object.assign(MOVES, { settled }));
    await hub.evict();
    expect((await hub.job(waiting)).status).toBe("pending");
    expect(logged()).toContainEqual({ level: "error", event: "payment_move_refused", job: "gone", from: "settled", to: "credit" });
    expect(await copied(bad.key, "unresolved")).toMatchObject({ reason: "illegal_move" });
    expect(await copied(good.key, "held")).toMatchObject({ payer: "0xbb" });
  });

  test("[PY8] an unknown outcome that turns out settled is not logged as refused", async () => {
    const hub = new TestHub();
    const logged = listen();
    const facilitator = { mayAnswer: false, calls: 0, answers: 0 };
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
      facilitator.calls++;
      while (!facilitator.mayAnswer) await scheduler.wait(5);
      facilitator.answers++;
      return Response.json({ success: false, errorReason: "insufficient_funds" });
    });
    await hub.worker();
    const [payment, input] = [paymentInput(), commitInput()];
    await hub.stub.reserve(input, payment);
    expect(await hub.stub.submit({ ...input, settles: true }, payment.key, "0xaa", payment)).toMatchObject({ ok: true, settle: true, jobId: input.id });
    await hub.pass(TIMING.settleReport);
    await hub.pass(TIMING.settleCall - TIMING.settleReport);
    await until(async () => facilitator.calls === 1, "a call of the hub");
    const response = JSON.stringify({ success: true, transaction: "0x01", network: "eip155:10143" });
    expect(await hub.stub.settled(input, payment.key, { kind: "settled", transaction: "0x01", response })).toMatchObject({ ok: true, settlement: response });
    await copied(payment.key, "settled");
    facilitator.mayAnswer = true;
    await until(async () => facilitator.answers === 1, "an answer");
    // The answer passes through the entrypoint that asked, before the hub has it.
    for (let turn = 0; turn < 20; turn++) await hub.stub.workersOnline();
    expect(logged()).toEqual([]);
    expect(await copied(payment.key, "settled")).toMatchObject({ settlement: "0x01" });
  });

  test("[API5] [PY8] an answer that comes late, after the facilitator said that the payment was used: the job stays accepted, and its key buys no second one", async () => {
    const hub = new TestHub();
    const logged = listen();
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ success: false, errorReason: "nonce_already_used" }));
    await hub.worker();
    const idempotency = { key: "late", fingerprint: "f" };
    const [payment, input] = [paymentInput(), commitInput({ idempotency })];
    await hub.stub.reserve(input, payment);
    expect(await hub.stub.submit({ ...input, settles: true }, payment.key, "0xaa", payment)).toMatchObject({ ok: true, settle: true, jobId: input.id });
    await hub.pass(TIMING.settleReport);
    const known = await hub.stub.reserve(commitInput(), payment);
    await hub.stub.cancel(input.id, known.state === "known" ? (known.cancelToken ?? "") : "");
    await hub.pass(TIMING.settleCall - TIMING.settleReport);
    expect(await copied(payment.key, "unresolved")).toMatchObject({ reason: "already_used" });
    // The operator has to decide about it, and is told so once.
    const told = () => logged().filter(({ event }) => event === "payment_unresolved");
    expect(told()).toEqual([{ level: "warning", event: "payment_unresolved", job: shortJobId(input.id), reason: "already_used" }]);
    expect(await hub.stub.settled(input, payment.key, { kind: "unknown", reason: "timeout", lost: true })).toMatchObject({ ok: true, jobId: input.id });
    expect(await hub.stub.reserve(commitInput({ idempotency }), paymentInput())).toMatchObject({ state: "known", jobId: input.id });
    expect(told()).toHaveLength(1);
  });

  test("[API5] a paid commit writes its key once, in the transaction of its job", async () => {
    const hub = new TestHub();
    await hub.worker();
    const [payment, input] = [paymentInput(), commitInput({ idempotency: { key: "once", fingerprint: "f" }, settles: true })];
    await hub.stub.reserve(input, payment);
    const transactions: string[][] = [];
    let running: string[] | null = null;
    await hub.inside((_, { storage }) => {
      const exec = storage.sql.exec.bind(storage.sql);
      const transact = storage.transactionSync.bind(storage);
      storage.transactionSync = (write) => {
        transactions.push((running = []));
        const answer = transact(write);
        running = null;
        return answer;
      };
      storage.sql.exec = (query, ...values) => {
        const written = /^(?:INSERT|UPDATE).*?\b(jobs|idempotency|payments)\b/s.exec(query)?.[1];
        if (written !== undefined) running?.push(written);
        return exec(query, ...values);
      };
    });
    await hub.stub.submit(input, payment.key, "0xaa", payment);
    const settled = { kind: "settled", transaction: "0x01", response: JSON.stringify({ success: true, transaction: "0x01" }) } as const;
    expect(await hub.stub.settled(input, payment.key, settled)).toMatchObject({ ok: true, jobId: input.id });
    expect(transactions.filter((tables) => tables.includes("idempotency"))).toEqual([["jobs", "payments", "idempotency"]]);
  });

  test("[PY7] a poll of a job is one call of the hub, with its settlement", async () => {
    const hub = new TestHub({ TESTNET_MODE: "false" });
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ success: true, transaction: "0x01", network: "eip155:10143", payer: "0xaa" }));
    await hub.worker();
    const id = await bought(hub, paymentInput());
    const { status, headers } = await hub.request(`/v1/jobs/${id}`);
    expect([status, JSON.parse(atob(headers.get("payment-response") ?? ""))]).toMatchObject([200, { success: true, transaction: "0x01" }]);
    expect(hub.rpcs.filter((name) => name !== "fetch")).toEqual(["poll"]);
  });

  test("[PY4] the facilitator's whole answer is told with the job, also when the job has ended", async () => {
    const hub = new TestHub();
    const answer = { success: true, transaction: "0x01", network: "eip155:10143", payer: "0xaa", amount: "1000" };
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json(answer));
    const worker = await hub.worker();
    const id = await bought(hub, paymentInput());
    await worker.complete(await worker.assigned());
    expect(await hub.sql("SELECT kind FROM payments")).toEqual([{ kind: "spent" }]);
    expect(JSON.parse((await hub.stub.settlement(id)) ?? "{}")).toEqual(answer);
  });

  test('[PY8] a settle call that failed at ours is in doubt, but no lost answer: "already used" after it proves nothing', async () => {
    const hub = new TestHub();
    const logged = listen();
    const payment = paymentInput();
    await bought(hub, payment);
    await hub.inside((_, { storage: { sql } }) => {
      const exec = sql.exec.bind(sql);
      vi.spyOn(sql, "exec").mockImplementation((query: string, ...values: unknown[]) => {
        if (query.startsWith("SELECT payload, requirements FROM payments")) throw new Error("unreadable");
        return exec(query, ...values);
      });
    });
    await hub.worker();
    await copied(payment.key, "unknown");
    expect(await hub.sql("SELECT doubts, lost_answer FROM payments")).toEqual([{ doubts: 1, lost_answer: 0 }]);
    expect(logged()).toContainEqual(expect.objectContaining({ level: "error", event: "settlement_failed" }));
  });

  test("[PY8] a settle call that breaks off on the way is a lost answer: the facilitator may have moved the money", async () => {
    const hub = new TestHub();
    listen();
    const settle = vi.spyOn(Settler.prototype, "settle").mockRejectedValue(new Error("cut"));
    onTestFinished(() => settle.mockRestore());
    const payment = paymentInput();
    await bought(hub, payment);
    await hub.worker();
    await copied(payment.key, "unknown");
    const row = "SELECT doubts, lost_answer, phase ->> '$.retryDue' - unixepoch() * 1000 > 20000 AS waits FROM payments";
    // It may still be at it, so no second call begins beside it.
    expect(await hub.sql(row)).toEqual([{ doubts: 1, lost_answer: 1, waits: 1 }]);
  });

  test("[PY8] a refusal is the answer of the request that waits for it, also while the hub is busy", async () => {
    const hub = new TestHub();
    listen();
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ success: false, errorReason: "insufficient_funds" }));
    await hub.worker();
    // The clock stands still, so the hub writes nothing at once: each write collects more first.
    hub.skip(0);
    const [payment, input] = [paymentInput(), commitInput()];
    expect(await hub.stub.reserve(input, payment)).toEqual({ state: "reserved" });
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toMatchObject({ ok: false, reason: "payment_failed" });
  });

  test("[JB8] a submit whose refusal was lost is refused again, and takes no idempotency key", async () => {
    const hub = new TestHub();
    const key = newKey();
    const worker = await hub.worker({ key });
    const payment = paymentInput();
    const idempotency = { key: "k", fingerprint: "f" };
    const input = commitInput({ privacyClass: "PRIVATE", trustedKeys: [key.publicKey], idempotency });
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    expect(await hub.stub.reserve(input, payment)).toEqual({ state: "reserved" });
    worker.close();
    await hub.online(0);
    const refused = { ok: false, reason: "no_trusted_worker", jobId: input.id };
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toEqual(refused);
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toEqual(refused);
    expect(await hub.stub.stored(input)).toBeNull();
  });

  test("[JB8] [PY6] a submit of a completed job comes again: the job, even if its result reads like the answer of a refused one", async () => {
    const hub = new TestHub();
    listen();
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ success: true, transaction: "0x01", network: "eip155:10143", payer: "0xaa" }));
    const worker = await hub.worker();
    const [payment, input] = [paymentInput(), commitInput()];
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    await hub.stub.reserve(input, payment);
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toMatchObject({ ok: true, jobId: input.id });
    await worker.complete(await worker.assigned());
    await hub.sql(`UPDATE jobs SET result = '{"error":"no_trusted_worker"}' WHERE id = '${input.id}'`);
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toMatchObject({ ok: true, jobId: input.id });
  });
});

describe("a balance", () => {
  const settles = (): void => {
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ success: true, transaction: "0x01", network: "eip155:10143", payer: "0xaa" }));
  };
  const told = async (hub: TestHub, id: string): Promise<unknown> => {
    const { headers } = await hub.request(`/v1/jobs/${id}`);
    const header = headers.get("payment-response");
    expect(headers.get("x-payment-response")).toBe(header);
    return header === null ? null : JSON.parse(atob(header));
  };

  test("[PY9] is told on the failed job and on the commit that spends it, falls by the price, and survives the loss of memory", async () => {
    const hub = new TestHub({ TESTNET_MODE: "false" });
    listen();
    settles();
    const worker = await hub.worker();
    const large = paymentInput({ amount: "10000" });
    const failed = await bought(hub, large);
    await worker.assigned();
    worker.send({ type: "job_failed", job_id: failed, attempt: 1, error: "worker_error", retryable: false });
    await until(async () => (await hub.job(failed)).status === "failed", "failed");
    const credit = { amount: "10000", asset: large.asset, balance: "10000" };
    expect(await told(hub, failed)).toEqual({ success: true, transaction: "0x01", network: "eip155:10143", payer: "0xaa", extensions: { credit } });
    expect(await copied(large.key, "credit")).toMatchObject({ balance: "10000", amount: "10000" });

    const small = paymentInput();
    const input = commitInput();
    await hub.stub.reserve(input, small);
    const answer = await hub.stub.submit(input, small.key, "0xaa", small);
    const spends = { amount: "1000", asset: large.asset, balance: "9000" };
    expect(JSON.parse((answer.ok && "settlement" in answer ? answer.settlement : null) ?? "null")).toMatchObject({
      ...{ success: true, transaction: "0x01", payer: "0xaa" },
      extensions: { credit: spends },
    });
    await hub.evict();
    const job = await worker.assigned();
    await worker.complete(job);
    expect((await hub.job(input.id)).receipt).toMatchObject({ payment_ref: "0x01" });
    expect(await told(hub, input.id)).toMatchObject({ transaction: "0x01", extensions: { credit: spends } });
    expect(await told(hub, failed)).toMatchObject({ extensions: { credit: { ...credit, balance: "9000" } } });
    expect(await copied(small.key, "void")).toMatchObject({ reason: "paid_by_credit", balance: null, settlement: null });
    expect(await copy(large.key)).toMatchObject({ state: "credit", balance: "9000" });
    // Retention keeps what is owed.
    await hub.inside((self) => self.wake());
    expect(await hub.sql(`SELECT kind FROM payments WHERE key = '${large.key}'`)).toEqual([{ kind: "credit" }]);
  });

  test("[PY9] a payment that comes again in the turn in which its last money is spent is paid by another credit, and keeps none of its own", async () => {
    const hub = new TestHub({ TESTNET_MODE: "false" });
    listen();
    settles();
    const [worker, other] = [await hub.worker(), await hub.worker()];
    const [first, second, third] = [paymentInput(), paymentInput(), paymentInput()];
    const jobs = [await bought(hub, first), await bought(hub, second)];
    await Promise.all([worker, other].map((one) => one.assigned({ acks: false })));
    // Settled and not started: each becomes a credit.
    await hub.inside(async (self, { storage }) => {
      const tokens = new CancelTokens(storage.sql);
      for (const id of jobs) await self.cancel(id, tokens.of(id));
    });
    await worker.next("job_cancel");
    other.close();
    await hub.online(1);
    await bought(hub, third);
    const running = await worker.assigned();
    const again = commitInput();
    expect(await hub.stub.reserve(again, first)).toEqual({ state: "credit" });
    const frame = worker.completion(running, { summary: "s", word_count: 1 });
    await hub.inside(async (self, state) => {
      const [ws] = state.getWebSockets();
      const completed = ws === undefined ? undefined : self.webSocketMessage(ws, JSON.stringify(frame));
      expect(await self.submit(again, first.key, "0xaa")).toMatchObject({ ok: true, jobId: again.id });
      await completed;
    });
    await worker.next("job_complete_ack");
    await worker.complete(await worker.assigned());
    const rows = await hub.sql(`SELECT key, kind, credit FROM payments ORDER BY rowid`);
    expect(rows).toEqual([
      { key: first.key, kind: "spent", credit: null },
      { key: second.key, kind: "spent", credit: null },
      { key: third.key, kind: "void", credit: null },
    ]);
  });

  test("[PY9] of an earlier hub is whole, and its payment belongs to its own job", async () => {
    const hub = new TestHub({ TESTNET_MODE: "false" });
    listen();
    const payment = paymentInput({ amount: "10000" });
    const first = await bought(hub, payment);
    await hub.sql("DELETE FROM jobs");
    await hub.sql(`UPDATE payments SET kind = 'credit', phase = '{"kind":"credit","transaction":"0x02"}', job_id = 'another', own_job_id = '${first}'`);
    // That hub had not run the last three migrations.
    await hub.sql("UPDATE version SET version = version - 3");
    await hub.evict();
    const [input, fresh] = [commitInput(), paymentInput()];
    await hub.stub.reserve(input, fresh);
    const answer = await hub.stub.submit(input, fresh.key, "0xaa", fresh);
    expect(JSON.parse((answer.ok && "settlement" in answer ? answer.settlement : null) ?? "null")).toMatchObject({
      ...{ transaction: "0x02", extensions: { credit: { balance: "9000" } } },
    });
    expect(await hub.stub.reserve(commitInput(), { ...payment, binding: "other" })).toEqual({ state: "refused", reason: "payment_already_used" });
    // It does not cover its own price any more.
    expect(await hub.stub.reserve(commitInput(), payment)).toEqual({ state: "refused", reason: "payment_already_used" });
  });
});

describe("a journal that cannot be written", () => {
  const broken = (hub: TestHub, what: string) => hub.sql(`CREATE TRIGGER broken BEFORE INSERT ON ${what} BEGIN SELECT RAISE(ABORT, 'disk'); END`);

  test.each(["jobs", "payments"])("[API1] [PY5] a submit is refused for now: nothing of it is in %s, and the same payment may come again", async (table) => {
    const hub = new TestHub();
    listen();
    const [payment, input] = [paymentInput(), commitInput()];
    await hub.stub.reserve(input, payment);
    await broken(hub, table);
    expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toEqual({ ok: false, reason: "reservation_lost" });
    await hub.sql("DROP TRIGGER broken");
    expect(await hub.stub.job(input.id, 0)).toBeNull();
    expect(await hub.sql("SELECT key FROM payments")).toEqual([]);
    await bought(hub, payment);
  });

  test.each([
    ["settled", { success: true, transaction: "0x77" }],
    ["void", { success: false, errorReason: "insufficient_funds" }],
    ["unresolved", { success: false, errorReason: "nonce_already_used" }],
  ])("[PY8] the outcome of a settle call of the hub is written again, %s: nobody else knows it", async (kind, told) => {
    const { outcomePauses } = TUNING;
    onTestFinished(() => void Object.assign(TUNING, { outcomePauses }));
    Object.assign(TUNING, { outcomePauses: [10, 10, 10, 10] });
    const hub = new TestHub();
    const logged = listen();
    let asked = 0;
    vi.spyOn(globalThis, "fetch").mockImplementation(async (_, init) => {
      // Hubs of other tests ask too.
      if (typeof init?.body === "string" && init.body.includes("written again")) asked++;
      return Response.json(told);
    });
    const id = await bought(hub, paymentInput({ payload: JSON.stringify({ x402Version: 2, payload: { mark: "written again" } }) }));
    // The first write fails, and the rest of its turn is undone with it.
    await hub.inside((_, { storage }) => {
      const run = storage.transactionSync.bind(storage);
      storage.transactionSync = (write) =>
        run(() => {
          const result = write();
          if (storage.sql.exec("SELECT 1 FROM payments WHERE kind = ?", kind).toArray().length === 0) return result;
          storage.transactionSync = run;
          throw new Error("disk");
        });
    });
    const worker = await hub.worker();
    if (kind === "settled") {
      expect((await worker.assigned()).job_id).toBe(id);
      expect(JSON.parse((await hub.stub.settlement(id)) ?? "null")).toMatchObject({ transaction: "0x77" });
    } else await until(async () => (await hub.job(id)).status === "failed", "failed");
    expect(await hub.sql("SELECT kind, doubts FROM payments")).toEqual([{ kind, doubts: 0 }]);
    expect(logged()).toContainEqual(expect.objectContaining({ event: "journal_failed" }));
    expect(asked).toBe(1);
  });
});
