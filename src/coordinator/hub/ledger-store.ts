// The ledger in the hub's SQLite: reads and writes the rows of payments. On a job's way: pay, and every change of the payment.
import * as z from "zod";
import { TIMING } from "../../protocol/limits.ts";
import { readJson } from "../../protocol/text.ts";
import type { Payment } from "../dispatch/index.ts";
import type { PaymentCopy } from "../store/record.ts";
import { TUNING } from "../tuning.ts";

/** The parts of a row of the ledger that never enter the core: texts for the facilitator, and its answer. */
export type PaymentTexts = { payload?: string; requirements?: string; response?: string };

const Phase = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("reserved"), until: z.number() }),
  z.object({ kind: z.literal("held"), retryDue: z.number().exactOptional() }),
  // An earlier hub did not save until when.
  z.object({ kind: z.literal("settling"), until: z.number().default(0) }),
  z.object({ kind: z.literal("unknown"), retryDue: z.number() }),
  z.object({
    kind: z.literal("unresolved"),
    reason: z.enum(["expired", "already_used", "assumed", "illegal_move"]),
    retryDue: z.number().nullable(),
    assumedAt: z.number().exactOptional(),
  }),
  z.object({ kind: z.enum(["settled", "spent"]), transaction: z.string(), assumedAt: z.number().exactOptional() }),
  z.object({ kind: z.literal("credit"), transaction: z.string() }),
  z.object({ kind: z.literal("void"), reason: z.enum(["unused", "refused", "paid_by_credit"]) }),
]);

const Said = z.object({ success: z.literal(true) });

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
};

/** Phases in which the facilitator may still need the payload. In all others it is erased [PY9]. */
const NEEDED = ["reserved", "held", "settling", "unknown", "unresolved"];

/** A member of a phase; null if the row is damaged, because SQLite throws at text that is not JSON. */
const member = (name: string) => `CASE WHEN json_valid(phase) THEN phase ->> '$.${name}' END`;
const OPEN = `SELECT * FROM payments WHERE kind NOT IN ('spent', 'void', 'unresolved') OR (kind = 'unresolved' AND ${member("retryDue")} IS NOT NULL)
  OR (updated_at > ?1 AND ${member("assumedAt")} > ?1)`;

/** The ledger in the hub's SQLite: one row per real payment, written in one transaction with its job [PY6]. */
export class LedgerStore {
  readonly #sql: SqlStorage;
  readonly #network: string;

  constructor(sql: SqlStorage, network: string) {
    this.#sql = sql;
    this.#network = network;
  }

  save(payment: Payment, texts: PaymentTexts, now: number): void {
    const { key, digest, binding, payer, asset, amount, expiresAt, jobId, ownJobId = null, doubts, lostAnswer, phase } = payment;
    const needed = NEEDED.includes(phase.kind);
    const { payload = null, requirements = null } = needed ? texts : {};
    this.#sql.exec(
      `INSERT INTO payments (key, digest, binding, payer, asset, amount, expires_at, job_id, own_job_id, doubts, phase, kind, updated_at, payload, requirements, response,
         lost_answer)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?18)
       ON CONFLICT (key) DO UPDATE SET payer = ?4, job_id = ?8, own_job_id = ?9, doubts = ?10, phase = ?11, kind = ?12, updated_at = ?13, rev = rev + 1,
         lost_answer = ?18, payload = CASE WHEN ?17 THEN coalesce(?14, payload) END, requirements = CASE WHEN ?17 THEN coalesce(?15, requirements) END,
         response = coalesce(?16, response)`,
      ...[key, digest, binding, payer, asset, amount, expiresAt, jobId, ownJobId, doubts, JSON.stringify(phase), phase.kind, now],
      ...[payload, requirements, texts.response ?? null, needed ? 1 : 0, lostAnswer ? 1 : 0],
    );
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
   * The payments to which something may happen by itself, those whose settlement was assumed within the last day, and the job ids of the rows that cannot be
   * read. These rows stay as they are, for the operator.
   */
  open(now: number): { payments: Payment[]; damaged: string[] } {
    const payments: Payment[] = [];
    const damaged: string[] = [];
    for (const row of this.#sql.exec<Row>(OPEN, now - TIMING.day)) {
      const payment = read(row);
      if (payment === null) damaged.push(row.job_id);
      else payments.push(payment);
    }
    return { payments, damaged };
  }

  /** The texts that the facilitator needs to settle a payment; null if they are erased. */
  held(key: string): { payload: string; requirements: string } | null {
    const query = "SELECT payload, requirements FROM payments WHERE key = ?";
    const row = this.#sql.exec<{ payload: string | null; requirements: string | null }>(query, key).toArray()[0];
    if (row === undefined || row.payload === null || row.requirements === null) return null;
    return { payload: row.payload, requirements: row.requirements };
  }

  /** JSON text of the SettleResponse for the payment of a job; null while it is not settled. */
  settlementOf(jobId: string): string | null {
    const query = "SELECT response, payer FROM payments WHERE job_id = ? AND kind IN ('settled', 'spent', 'credit')";
    const row = this.#sql.exec<{ response: string | null; payer: string | null }>(query, jobId).toArray()[0];
    if (row === undefined) return null;
    const said = row.response === null ? null : readJson(row.response);
    if (row.response !== null && said?.ok && Said.safeParse(said.value).success) return row.response;
    // "Already used" showed that it is settled, but not by which transaction.
    return JSON.stringify({ success: true, transaction: "", network: this.#network, ...(row.payer !== null && { payer: row.payer }) });
  }

  /** JSON text of the SettleResponse with which the facilitator refused the payment of a job; null if it did not. */
  refusalOf(key: string, jobId: string): string | null {
    const query =
      "SELECT response FROM payments WHERE key = ? AND job_id = ? AND kind IN ('void', 'unresolved') AND phase ->> '$.reason' IN ('refused', 'already_used')";
    return this.#sql.exec<{ response: string | null }>(query, key, jobId).toArray()[0]?.response ?? null;
  }

  /** The payments whose newest revision D1 does not have, oldest first. Reservations are not copied, because they are not verified yet. */
  uncopied(most: number): PaymentCopy[] {
    const query = "SELECT * FROM payments WHERE copied_rev < rev AND kind <> 'reserved' ORDER BY updated_at";
    const copies: PaymentCopy[] = [];
    // The query has no limit: damaged rows are skipped, and they must not block the others for ever.
    for (const row of this.#sql.exec<Row>(query)) {
      const payment = read(row);
      if (payment !== null) copies.push({ ...payment, rev: row.rev, updatedAt: row.updated_at });
      if (copies.length === most) break;
    }
    return copies;
  }

  /** Notes that D1 has these revisions. */
  copied(rows: readonly Pick<PaymentCopy, "key" | "rev">[]): void {
    for (const { key, rev } of rows) this.#sql.exec("UPDATE payments SET copied_rev = ? WHERE key = ? AND copied_rev < ?", rev, key, rev);
  }

  /** Deletes payments that were done before this time, a bounded number at a time [LM3]. */
  purge(before: number): void {
    const done = "SELECT key FROM payments WHERE kind IN ('spent', 'void') AND copied_rev >= rev AND updated_at <= ? ORDER BY updated_at LIMIT ?";
    this.#sql.exec(`DELETE FROM payments WHERE key IN (${done})`, before, TUNING.purgedRows);
  }
}

const UNREADABLE = {
  ...{ digest: "", binding: "", payer: null, asset: "", amount: "0", expiresAt: 0, doubts: 0, lostAnswer: false },
  phase: { kind: "void", reason: "refused" },
} as const;

/** The payment of a row; null if the row cannot be read. */
function read(row: Row): Payment | null {
  const json = readJson(row.phase);
  const phase = json.ok ? Phase.safeParse(json.value).data : undefined;
  const { key, digest, binding, payer, asset, amount, expires_at: expiresAt, job_id: jobId, own_job_id: own, doubts } = row;
  if (phase === undefined || typeof expiresAt !== "number" || typeof doubts !== "number") return null;
  const lostAnswer = row.lost_answer === 1;
  return { key, digest, binding, payer, asset, amount, expiresAt, jobId, ...(own !== null && { ownJobId: own }), doubts, lostAnswer, phase };
}
