// The ledger in the hub's SQLite: reads and writes the rows of payments. On a job's way: pay, and every change of the payment.
import * as z from "zod";
import { readAs } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { DAY } from "../../protocol/times.ts";
import type { OrderOutcome, Payment } from "../dispatch/index.ts";
import type { Doubt, Found } from "../payment/chain.ts";
import type { PaymentCopy } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { SettleTexts } from "./rpc.ts";

/** The phases in which a payment has a row and is not done. */
type OpenPhase = "held" | "settling" | "unknown" | "settled" | "credit" | "covered" | "unresolved";

/** The parts of a row of the ledger that never enter the core: texts for the facilitator, and its answer. */
export type PaymentTexts = Partial<SettleTexts> & { response?: string };

const Phase = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("reserved"), until: z.number() }),
  z.object({ kind: z.literal("held"), retryDue: z.number().exactOptional() }),
  // An earlier hub saved neither `until` nor `by`.
  z.object({ kind: z.literal("settling"), until: z.number().default(0), by: z.literal("request").exactOptional() }),
  z.object({ kind: z.literal("unknown"), retryDue: z.number() }),
  z.object({
    kind: z.literal("unresolved"),
    reason: z.enum(["expired", "already_used", "assumed", "illegal_move"]),
    retryDue: z.number().nullable(),
    assumedAt: z.number().exactOptional(),
  }),
  z.object({ kind: z.literal("settled"), transaction: z.string(), assumedAt: z.number().exactOptional() }),
  z.object({
    kind: z.literal("spent"),
    transaction: z.string(),
    assumedAt: z.number().exactOptional(),
    by: z.enum(["balance", "others"]).exactOptional(),
    own: z.string().exactOptional(),
  }),
  z.object({ kind: z.literal("credit"), transaction: z.string() }),
  z.object({
    kind: z.literal("covered"),
    transaction: z.string(),
    parts: z.array(z.object({ key: z.string(), amount: z.string() })),
    own: z.string().nullable(),
  }),
  z.discriminatedUnion("reason", [
    z.object({ kind: z.literal("void"), reason: z.enum(["unused", "refused"]) }),
    z.object({ kind: z.literal("void"), reason: z.enum(["paid_by_credit", "given_back"]), transaction: z.string().exactOptional() }),
    z.object({ kind: z.literal("void"), reason: z.literal("by_operator"), assumedAt: z.number().exactOptional() }),
    z.object({
      kind: z.literal("void"),
      reason: z.literal("by_chain"),
      proof: z.enum(["cancelled", "used_elsewhere", "failed", "expired"]),
      assumedAt: z.number().exactOptional(),
    }),
  ]),
]);

const SavedCredit = z.object({ left: z.string(), lent: z.string(), since: z.number(), transaction: z.string() });

const SettleResponse = z.looseObject({ success: z.literal(true), transaction: z.string() });

/** The chain's readings about a payment in doubt: when it is read next, ms since the epoch, how often it was read, and what the last reading has found. */
export type ChainRead = { due: number; readings: number; found: Found | null };

const SavedFound = z.object({
  searched: z.number().nullable(),
  unusedAt: z.number().nullable(),
  isOlder: z.literal(true).exactOptional(),
  before: z.string().exactOptional(),
});

type Row = {
  key: string;
  digest: string;
  binding: string;
  payer: string | null;
  asset: string;
  amount: string;
  expires_at: number;
  job_id: string;
  own_job_id: string | null;
  doubts: number;
  lost_answer: number;
  phase: string;
  rev: number;
  updated_at: number;
  credit: string | null;
  streamed_at: number | null;
};

/** Phases in which the facilitator may still need the payload. In all others it is erased [PY9]. */
const NEEDED = ["held", "settling", "unknown", "unresolved"];

/**
 * Phases in which nobody can have used the authorization of a payment, unless a settle call has ended in doubt. So the newest known block is older than its
 * use.
 */
const UNUSED = ["held", "settling"];

/** A member of a phase; null if the row is damaged, because SQLite throws at text that is not JSON. */
const member = (name: string) => `CASE WHEN json_valid(phase) THEN phase ->> '$.${name}' END`;
/**
 * A hub that wakes up waits for this query, and almost all payments are done, so each part of the query has an index of its own. A credit of which no live job
 * has a part is done too: its payer may never come back.
 */
const OPEN = `SELECT * FROM payments WHERE key IN (
  SELECT key FROM payments WHERE kind NOT IN ('spent', 'void', 'unresolved', 'credit')
  UNION ALL SELECT key FROM payments WHERE kind = 'unresolved' AND (${member("retryDue")} IS NOT NULL OR (updated_at > ?1 AND ${member("assumedAt")} > ?1))
  UNION ALL SELECT key FROM payments WHERE kind IN ('spent', 'void') AND updated_at > ?1 AND ${member("assumedAt")} > ?1
  UNION ALL SELECT key FROM payments WHERE credit IS NOT NULL AND instr(credit, '"lent":"0"') = 0
  UNION ALL SELECT key FROM payments WHERE streamed_at > ?1)`;

/**
 * Writes that a payment has moved, if nothing else of it has changed: then hardly any index changes with it. Its values are the first 13 of {@link SAVE}.
 */
const MOVE = `UPDATE payments SET doubts = ?6, lost_answer = ?7, phase = ?8, kind = ?9, updated_at = ?10, rev = rev + 1, payload = iif(?11, payload, NULL),
  requirements = iif(?11, requirements, NULL), response = coalesce(?12, response), block = coalesce(block, ?13)
  WHERE key = ?1 AND job_id = ?2 AND own_job_id IS NULL AND payer IS ?3 AND credit IS ?4 AND streamed_at IS ?5`;
const SAVE = `INSERT INTO payments (key, job_id, payer, credit, streamed_at, doubts, lost_answer, phase, kind, updated_at, response, block, digest, binding, asset, amount, expires_at,
    payload, requirements)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
  ON CONFLICT (key) DO UPDATE SET job_id = ?2, own_job_id = NULL, payer = ?3, credit = ?4, streamed_at = ?5, doubts = ?6, lost_answer = ?7, phase = ?8, kind = ?9,
    updated_at = ?10, rev = rev + 1, payload = iif(?11, coalesce(?19, payload), NULL), requirements = iif(?11, coalesce(?20, requirements), NULL),
    response = coalesce(?12, response), block = coalesce(block, ?13)`;

/** The ledger in the hub's SQLite: one row per real payment, written in one transaction with its job [PY6]. */
export class LedgerStore {
  readonly #sql: SqlStorage;
  readonly #network: string;
  /** A finalized block of the chain that is not newer than any payment that comes now; null if none is known [PY8]. */
  block: number | null = null;

  constructor(sql: SqlStorage, network: string) {
    this.#sql = sql;
    this.#network = network;
  }

  save(payment: Payment, texts: PaymentTexts, now: number): void {
    const { key, digest, binding, payer, asset, amount, expiresAt, jobId, doubts, lostAnswer, phase, credit, streamedAt = null } = payment;
    // A reservation has no row: if the hub loses its memory, the request that reserved has failed, and the same payment may be sent again [PY5].
    if (phase.kind === "reserved") return;
    const isNeeded = NEEDED.includes(phase.kind);
    const { payload = null, requirements = null } = isNeeded ? texts : {};
    // The values of MOVE, in its order.
    const moved = [
      key,
      jobId,
      payer,
      credit === undefined ? null : JSON.stringify(credit),
      streamedAt,
      doubts,
      lostAnswer ? 1 : 0,
      JSON.stringify(phase),
      phase.kind,
      now,
      isNeeded ? 1 : 0,
      texts.response ?? null,
      doubts === 0 && UNUSED.includes(phase.kind) ? this.block : null,
    ];
    if (payload === null && requirements === null && this.#sql.exec(MOVE, ...moved).rowsWritten > 0) return;
    this.#sql.exec(SAVE, ...moved, digest, binding, asset, amount, expiresAt, payload, requirements);
  }

  drop(key: string): void {
    this.#sql.exec("DELETE FROM payments WHERE key = ?", key);
  }

  /** The row of a payment, done or not. */
  find(key: string): Payment | null {
    const row = this.#sql.exec<Row>("SELECT * FROM payments WHERE key = ?", key).toArray()[0];
    if (row === undefined) return null;
    // A damaged row matches no payment that can come, so its payment is never accepted as a new one.
    return read(row) ?? { ...UNREADABLE, key, jobId: row.job_id };
  }

  /**
   * The payments that are not done: something may happen to them by itself, a live job has something of their credit, or they count against a limit of the last
   * day. Also the job ids of the rows that cannot be read. These rows stay as they are, for the operator.
   */
  open(now: number): { payments: Payment[]; damaged: string[] } {
    const payments: Payment[] = [];
    const damaged: string[] = [];
    for (const row of this.#sql.exec<Row>(OPEN, now - DAY)) {
      const payment = read(row);
      if (payment === null) damaged.push(row.job_id);
      else payments.push(payment);
    }
    return { payments, damaged };
  }

  /** The credits of a payment's owner. Rows that cannot be read are left out. */
  creditsOf({ payer, key }: Pick<Payment, "payer" | "key">): Payment[] {
    const rows =
      payer === null
        ? this.#sql.exec<Row>("SELECT * FROM payments WHERE key = ? AND payer IS NULL AND credit IS NOT NULL", key)
        : this.#sql.exec<Row>("SELECT * FROM payments WHERE payer = ? AND credit IS NOT NULL", payer);
    return rows.toArray().flatMap((row) => read(row) ?? []);
  }

  /** The texts that the facilitator needs to settle a payment; null if they are erased. */
  settleTexts(key: string): SettleTexts | null {
    const query = "SELECT payload, requirements FROM payments WHERE key = ?";
    const row = this.#sql.exec<{ payload: string | null; requirements: string | null }>(query, key).toArray()[0];
    if (row === undefined || row.payload === null || row.requirements === null) return null;
    return { payload: row.payload, requirements: row.requirements };
  }

  /**
   * What is needed to look for a payment on the chain; null if its texts are erased, or if it was made on another network than that of the instance now: the
   * chain of this network would say that it was never used. The asset of a payment of an earlier hub is empty.
   */
  doubt(key: string): Omit<Doubt, "found"> | null {
    const query = "SELECT payload, requirements, expires_at, block, asset FROM payments WHERE key = ? AND payload IS NOT NULL AND requirements IS NOT NULL";
    type Row = { payload: string; requirements: string; expires_at: number; block: number | null; asset: string };
    const row = this.#sql.exec<Row>(query, key).toArray()[0];
    if (row === undefined || (row.asset !== "" && !row.asset.startsWith(`${this.#network}/`))) return null;
    return { key, payload: row.payload, requirements: row.requirements, expiresAt: row.expires_at, block: row.block };
  }

  /** The unresolved payments, oldest first, a bounded number. Those that cannot be read are left out. */
  unresolved(): Payment[] {
    const query = "SELECT * FROM payments WHERE kind = 'unresolved' ORDER BY updated_at LIMIT ?";
    return this.#sql
      .exec<Row>(query, LIMITS.chainDoubts)
      .toArray()
      .flatMap((row) => read(row) ?? []);
  }

  /** What is stored about readings of the chain, by the keys of the payments. Damaged rows are left out: their payments begin again. */
  chainReads(): Map<string, ChainRead> {
    const query = "SELECT key, due, readings, found FROM chain_reads WHERE typeof(due) = 'integer' AND typeof(readings) = 'integer'";
    const rows = this.#sql.exec<{ key: string; due: number; readings: number; found: string | null }>(query);
    return new Map([...rows].map(({ key, due, readings, found }) => [key, { due, readings, found: readAs(SavedFound, found) }]));
  }

  keepChainRead(key: string, { due, readings, found }: ChainRead): void {
    const text = found === null ? null : JSON.stringify(found);
    this.#sql.exec("INSERT OR REPLACE INTO chain_reads (key, due, readings, found) VALUES (?, ?, ?, ?)", key, due, readings, text);
  }

  dropChainRead(key: string): void {
    this.#sql.exec("DELETE FROM chain_reads WHERE key = ?", key);
  }

  /**
   * JSON text of the SettleResponse for the payment of a job; null while no money has moved for it. If the job is paid from the balance, or its money has come
   * into it, the response has that as `credit`, with the `balance` in atomic units [PY9]. A settlement that was assumed was told while the job ran, and stays
   * told when the job has failed: otherwise the payer would read that nothing has moved [PY8].
   */
  settlementOf(jobId: string, balance: (payment: Payment) => bigint): string | null {
    const row = this.#sql.exec<Row & { response: string | null }>("SELECT * FROM payments WHERE job_id = ?", jobId).toArray()[0];
    const payment = row === undefined ? null : read(row);
    if (row === undefined || payment === null) return null;
    const { phase, payer, amount, asset } = payment;
    const isCredit = phase.kind === "credit" || phase.kind === "covered" || (phase.kind === "spent" && phase.by !== undefined);
    const usesBalance = phase.kind === "void" && (phase.reason === "paid_by_credit" || phase.reason === "given_back");
    const said = readAs(SettleResponse, row.response);
    // A quarantine does not undo the settlement.
    const hasMoved = phase.kind === "unresolved" && (phase.reason === "assumed" || (phase.reason === "illegal_move" && said !== null));
    if (!isCredit && !usesBalance && !hasMoved && phase.kind !== "settled" && phase.kind !== "spent") return null;
    const transaction = ("transaction" in phase ? phase.transaction : undefined) ?? "";
    // "Already used" showed that it is settled, but not by which transaction; a balance is paid by the transaction of another payment.
    const isBalance = usesBalance || phase.kind === "covered" || (phase.kind === "spent" && phase.by === "balance");
    const isSaid = said !== null && (said.transaction === transaction || (transaction === "" && !isBalance));
    const response = isSaid ? said : { success: true, transaction, network: this.#network, ...(payer !== null && { payer }) };
    if (!isCredit && !usesBalance) return isSaid ? row.response : JSON.stringify(response);
    return JSON.stringify({ ...response, extensions: { credit: { amount, asset, balance: String(balance(payment)) } } });
  }

  /**
   * JSON text of the SettleResponse with which the facilitator refused the payment of a job; null if it did not. After a doubt an answer refuses nothing: an
   * earlier call may have moved the money, so the job stays accepted [PY8].
   */
  refusalOf(key: string, jobId: string): string | null {
    const query = "SELECT response FROM payments WHERE key = ? AND job_id = ? AND doubts = 0 AND phase ->> '$.reason' IN ('refused', 'already_used')";
    return this.#sql.exec<{ response: string | null }>(query, key, jobId).toArray()[0]?.response ?? null;
  }

  /**
   * The payments whose newest revision D1 does not have, oldest first; with `live` false, without those that will change again soon.
   */
  uncopied(most: number, live = true): PaymentCopy[] {
    const done = live ? "" : "AND kind IN ('spent', 'credit', 'void', 'unresolved')";
    const query = `SELECT * FROM payments WHERE copied_rev < rev ${done} ORDER BY updated_at`;
    const copies: PaymentCopy[] = [];
    // The query has no limit: damaged rows are skipped, and they must not block the others forever.
    for (const row of this.#sql.exec<Row>(query)) {
      const payment = read(row);
      if (payment !== null) copies.push({ ...payment, rev: row.rev, updatedAt: row.updated_at });
      if (copies.length === most) break;
    }
    return copies;
  }

  /** Notes that D1 has these revisions. */
  copied(rows: readonly Pick<PaymentCopy, "key" | "rev">[]): void {
    this.#sql.exec(
      `UPDATE payments SET copied_rev = copied.rev FROM (SELECT value ->> 0 AS key, value ->> 1 AS rev FROM json_each(?)) AS copied
         WHERE payments.key = copied.key AND copied_rev < copied.rev`,
      JSON.stringify(rows.map(({ key, rev }) => [key, rev])),
    );
  }

  /** True if there is a payment that the operator may decide about [PY8]. */
  hasUnresolved(): boolean {
    return this.#sql.exec("SELECT 1 FROM payments WHERE kind = 'unresolved' LIMIT 1").toArray().length > 0;
  }

  /** How many payments are not done, by their phase. Those that are only reserved have no row. */
  counts(): Record<OpenPhase, number> {
    const counts: Record<OpenPhase, number> = { held: 0, settling: 0, unknown: 0, settled: 0, credit: 0, covered: 0, unresolved: 0 };
    const rows = this.#sql.exec<{ kind: OpenPhase; payments: number }>(
      `SELECT kind, count(*) AS payments FROM payments WHERE kind NOT IN ('spent', 'void', 'unresolved') GROUP BY kind
       UNION ALL SELECT 'unresolved', count(*) FROM payments WHERE kind = 'unresolved'`,
    );
    for (const { kind, payments } of rows) if (Object.hasOwn(counts, kind)) counts[kind] = payments;
    return counts;
  }

  /** The outcome of an order; null if it was not carried out. */
  orderOutcome(id: string): string | null {
    return this.#sql.exec<{ outcome: string }>("SELECT outcome FROM payment_orders WHERE id = ?", id).toArray()[0]?.outcome ?? null;
  }

  keepOrder(id: string, outcome: OrderOutcome, now: number): void {
    this.#sql.exec("INSERT OR IGNORE INTO payment_orders (id, outcome, done_at) VALUES (?, ?, ?)", id, outcome, now);
  }

  /** Deletes orders and payments that were done before this time, a bounded number at a time [LM3]. False if there were no payments. */
  purge(before: number): boolean {
    const done =
      "SELECT key FROM payments WHERE kind IN ('spent', 'void') AND credit IS NULL AND copied_rev >= rev AND updated_at <= ? ORDER BY updated_at LIMIT ?";
    const orders = "SELECT id FROM payment_orders WHERE done_at <= ? ORDER BY done_at LIMIT ?";
    this.#sql.exec(`DELETE FROM payment_orders WHERE id IN (${orders})`, before, TUNING.purgedRows);
    return this.#sql.exec(`DELETE FROM payments WHERE key IN (${done})`, before, TUNING.purgedRows).rowsWritten > 0;
  }
}

const UNREADABLE = {
  digest: "",
  binding: "",
  payer: null,
  asset: "",
  amount: "0",
  expiresAt: 0,
  doubts: 0,
  lostAnswer: false,
  phase: { kind: "void", reason: "refused" },
} as const;

/** The payment of a row; null if the row cannot be read. */
function read(row: Row): Payment | null {
  const phase = readAs(Phase, row.phase);
  const { key, digest, binding, payer, asset, amount, expires_at: expiresAt, doubts, streamed_at: streamedAt } = row;
  if (phase === null || typeof expiresAt !== "number" || typeof doubts !== "number") return null;
  const credit = row.credit === null ? undefined : readAs(SavedCredit, row.credit);
  if (credit === null) return null;
  // An earlier hub noted the job of another request that spent this payment as a credit, and beside it the payment's own job.
  const jobId = phase.kind === "settled" ? row.job_id : (row.own_job_id ?? row.job_id);
  const facts = { key, digest, binding, payer, asset, amount, expiresAt, jobId, doubts, lostAnswer: row.lost_answer === 1, phase };
  return { ...facts, ...(credit !== undefined && { credit }), ...(streamedAt !== null && { streamedAt }) };
}
