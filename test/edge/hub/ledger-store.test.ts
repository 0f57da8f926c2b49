// The rows of payments in the hub's SQLite: what later writes keep, what they erase, and what is read from them.
import { expect, test } from "vitest";
import type { Payment } from "../../../src/coordinator/dispatch/index.ts";
import { LedgerStore, type PaymentTexts } from "../../../src/coordinator/hub/ledger-store.ts";
import { TestHub } from "../support/worker-hub.ts";

const TEXTS = { payload: '{"signed":"payload"}', requirements: '{"amount":"1000"}' };
const SETTLED = { kind: "settled", transaction: "0x01" } as const;
const CREDIT = { left: "1000", lent: "0", since: 1, transaction: "0x01" };

const payment = (fields: Partial<Payment> = {}): Payment => ({
  ...{ key: "key", digest: "digest", binding: "binding", payer: "0xaa", asset: "eip155:10143/0x00", amount: "1000", expiresAt: 300_000, jobId: "job" },
  ...{ doubts: 0, lostAnswer: false, phase: { kind: "held" } },
  ...fields,
});

/** The ledger of a new hub, and its rows. */
class Ledger {
  readonly store: LedgerStore;
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.store = new LedgerStore(sql, "eip155:10143");
  }

  save(fields: Partial<Payment>, texts: PaymentTexts = {}, now = 1): void {
    this.store.save(payment(fields), texts, now);
  }

  /** Notes a payment's own job beside the one that it pays for, as an earlier hub did. */
  own(jobId: string): void {
    this.#sql.exec("UPDATE payments SET own_job_id = ?", jobId);
  }

  damage(): void {
    this.#sql.exec("UPDATE payments SET phase = '{'");
  }

  row(): Record<string, unknown> | undefined {
    return this.#sql.exec("SELECT * FROM payments").toArray()[0];
  }
}

const ledger = (look: (ledger: Ledger) => void) => () => new TestHub().inside((_, state) => look(new Ledger(state.storage.sql)));

test(
  "[PY8] the block before a payment was used is the first one that was known, and none that became known after a doubt: else a transfer could be older than the search for it",
  ledger((it) => {
    it.save({}, TEXTS);
    it.store.block = 5;
    it.save({ phase: { kind: "settling", until: 1 } });
    it.store.block = 9;
    it.save({ phase: { kind: "settling", until: 2 } });
    expect(it.row()).toMatchObject({ block: 5 });
    it.save({ doubts: 1, phase: { kind: "unknown", retryDue: 1 } });
    // A new `streamedAt` is written by another statement than a move alone.
    it.save({ doubts: 1, phase: { kind: "unknown", retryDue: 1 }, streamedAt: 7 });
    expect(it.row()).toMatchObject({ block: 5, streamed_at: 7 });
  }),
);

test(
  "[PY8] a payment whose first call ended in doubt before a block was known gets none when it is settled again",
  ledger((it) => {
    it.save({}, TEXTS);
    it.save({ doubts: 1, phase: { kind: "unknown", retryDue: 1 } });
    it.store.block = 9;
    it.save({ doubts: 1, phase: { kind: "settling", until: 1 } });
    expect(it.row()).toMatchObject({ block: null });
  }),
);

test(
  "[PY6] a payment whose row is damaged is still known, and matches no payment that can come: it buys nothing as a new one",
  ledger((it) => {
    expect(it.store.find("key")).toBeNull();
    it.save({ phase: { kind: "spent", transaction: "0x01" } });
    it.damage();
    expect(it.store.find("key")).toMatchObject({ jobId: "job", digest: "", phase: { kind: "void" } });
  }),
);

test(
  "[PY4] the facilitator's answer stays with its payment, whatever becomes of the money",
  ledger((it) => {
    const response = '{"success":true,"transaction":"0x01","amount":"1000"}';
    it.save({}, TEXTS);
    it.save({ phase: SETTLED }, { response });
    it.save({ phase: { kind: "settled", transaction: "0x01" }, streamedAt: 7 });
    it.save({ phase: { kind: "credit", transaction: "0x01" }, credit: CREDIT, streamedAt: 7 });
    it.save({ phase: { kind: "spent", transaction: "0x01", by: "others" }, streamedAt: 7 });
    expect(it.row()).toMatchObject({ kind: "spent", response });
  }),
);

test(
  "[PY9, LM3] the signed payload is kept while the facilitator may need it, and in no other phase, also not of a payment whose first phase needs none",
  ledger((it) => {
    it.save({}, TEXTS);
    for (const fields of [
      { phase: { kind: "settling", until: 1 } },
      { doubts: 1, phase: { kind: "unknown", retryDue: 1 } },
      { doubts: 1, phase: { kind: "unresolved", reason: "expired", retryDue: 1 } },
      { doubts: 1, phase: { kind: "unresolved", reason: "expired", retryDue: 1 }, streamedAt: 7 },
    ] satisfies Partial<Payment>[]) {
      it.save(fields);
      expect(it.store.settleTexts("key")).toEqual(TEXTS);
    }
    it.save({ doubts: 1, phase: { kind: "credit", transaction: "0x01" }, credit: CREDIT });
    expect(it.row()).toMatchObject({ payload: null, requirements: null });
  }),
);

test(
  "[PY9] a payment that a credit pays for is never written with its signed payload, which nobody has used",
  ledger((it) => {
    it.save({ phase: { kind: "covered", transaction: "0x01", parts: [{ key: "other", amount: "1000" }], own: null } }, TEXTS);
    expect(it.row()).toMatchObject({ kind: "covered", payload: null, requirements: null });
    expect(it.store.settleTexts("key")).toBeNull();
    expect(it.store.doubt("key")).toBeNull();
  }),
);

test(
  "[PY4, PY8] a refusal is told for the job that it ended: one of the facilitator, not another end of a payment, nor that of another job",
  ledger((it) => {
    const response = '{"success":false,"errorReason":"insufficient_funds"}';
    const told = (fields: Partial<Payment>): string | null => {
      it.store.drop("key");
      it.save(fields, { response });
      return it.store.refusalOf("key", "job");
    };
    expect(told({ phase: { kind: "void", reason: "refused" } })).toBe(response);
    expect(told({ phase: { kind: "unresolved", reason: "already_used", retryDue: null } })).toBe(response);
    expect(told({ doubts: 1, phase: { kind: "unresolved", reason: "already_used", retryDue: null } })).toBeNull();
    expect(told({ phase: { kind: "void", reason: "refused" }, jobId: "another" })).toBeNull();
    expect(told({ phase: { kind: "void", reason: "unused" } })).toBeNull();
    expect(told({ doubts: 1, phase: { kind: "unresolved", reason: "expired", retryDue: null } })).toBeNull();
  }),
);

test(
  "[PY4, PY8] the settlement of a job names the transaction that moved its money, also if the facilitator once named another one",
  ledger((it) => {
    const response = '{"success":true,"transaction":"0x01","network":"eip155:10143","amount":"1000"}';
    const told = (phase: Payment["phase"]): unknown => {
      it.store.drop("key");
      it.save({ phase }, { response });
      return JSON.parse(it.store.settlementOf("job", () => 0n) ?? "null");
    };
    const settled = (transaction: string) => told({ kind: "settled", transaction });
    expect(settled("0x01")).toEqual(JSON.parse(response));
    expect(settled("")).toEqual(JSON.parse(response));
    expect(settled("0x02")).toEqual({ success: true, transaction: "0x02", network: "eip155:10143", payer: "0xaa" });
    expect(told({ kind: "unresolved", reason: "illegal_move", retryDue: null })).toEqual(JSON.parse(response));
    expect(told({ kind: "unresolved", reason: "already_used", retryDue: null })).toBeNull();
    // A credit of the operator has no transaction.
    const paidByBalance: Payment["phase"][] = [
      { kind: "covered", transaction: "", parts: [], own: "0x01" },
      { kind: "spent", transaction: "", by: "balance", own: "0x01" },
      { kind: "void", reason: "given_back" },
    ];
    for (const phase of paidByBalance) expect(told(phase)).toMatchObject({ success: true, transaction: "" });
  }),
);

test(
  "[PY6] what D1 lacks is listed oldest first, on request without what will change soon; a copy of an older revision does not count as the newest",
  ledger((it) => {
    const phases: Payment["phase"][] = [
      { kind: "void", reason: "refused" },
      { kind: "unresolved", reason: "already_used", retryDue: null },
      { kind: "credit", transaction: "0x01" },
      { kind: "spent", transaction: "0x01" },
      { kind: "held" },
      { kind: "settling", until: 1 },
      { kind: "unknown", retryDue: 1 },
      SETTLED,
    ];
    for (const [n, phase] of phases.entries()) it.save({ key: `${8 - n}`, phase }, {}, n);
    const keys = (most: number, live?: boolean): string[] => it.store.uncopied(most, live).map(({ key }) => key);
    expect(keys(10)).toEqual(["8", "7", "6", "5", "4", "3", "2", "1"]);
    expect(keys(2)).toEqual(["8", "7"]);
    expect(keys(10, false)).toEqual(["8", "7", "6", "5"]);

    const [before] = it.store.uncopied(1);
    if (before === undefined) throw new Error("nothing is listed");
    it.save({ key: "8", phase: { kind: "void", reason: "refused" }, lostAnswer: true }, {}, 9);
    it.store.copied([before]);
    expect(it.store.uncopied(10).at(-1)).toMatchObject({ key: "8", rev: before.rev + 1, lostAnswer: true });
    it.store.copied([{ key: "8", rev: before.rev + 1 }]);
    // A copy that was under way before is reported later.
    it.store.copied([before]);
    expect(keys(10)).toEqual(["7", "6", "5", "4", "3", "2", "1"]);
  }),
);

test(
  "[PY9] money of an earlier hub that pays for the job of another request pays for that one until it is spent: else it would be a credit again, and that job free",
  ledger((it) => {
    it.save({ jobId: "another", phase: SETTLED });
    it.own("own");
    expect(it.store.find("key")).toMatchObject({ jobId: "another" });
    it.save({ jobId: "another", phase: { kind: "spent", transaction: "0x01" } });
    expect(it.store.find("key")).toMatchObject({ jobId: "another" });
    // Where it is a credit, it stands for its own job.
    it.save({ jobId: "another", phase: { kind: "credit", transaction: "0x01" }, credit: CREDIT });
    it.own("own");
    expect(it.store.find("key")).toMatchObject({ jobId: "own" });
  }),
);
