// The row of a job in the hub's journal, and the statements that copy jobs, receipts and payments from the hub to D1. On a job's way: the copy to D1.
import * as z from "zod";
import { type JobStatus, Receipt } from "../../protocol/job.ts";
import { readAs } from "../../protocol/json.ts";
import { utf8Length } from "../../protocol/text.ts";
import type { Payment } from "../dispatch/index.ts";
import { TUNING } from "../tuning.ts";

/** The row of a job in the hub's journal, on its way to D1. */
export type JournalRow = {
  id: string;
  job_type: string;
  /** Null for an LLM_INFER, and in rows older than this column. */
  task_type: string | null;
  policy: string;
  privacy_class: string;
  user_id: string;
  /** Empty if the job ended and no worker started it [LM3]. */
  payload: string;
  payload_bytes: number;
  created_at: number;
  rev: number;
  status: JobStatus;
  attempt: number;
  provider_pubkey: string | null;
  holders: string;
  snapshot: string | null;
  result: string | null;
  receipt: string | null;
  completed_at: number | null;
  ended_at: number | null;
  synced_rev: number;
  /** Who it came from [LM3]; the hub only. */
  client: string;
  payer: string;
};

/** A row that was written a moment ago. Its receipt comes with it as a value, so its text need not be parsed again. */
export type WrittenRow = JournalRow & { parsedReceipt: StoredReceipt | null };

/** The bytes of payload and result that an ended job takes up; 0 for a row that is gone. A damaged row may have none. */
export function bytesOf(row: JournalRow | null): number {
  if (row === null) return 0;
  return (typeof row.payload_bytes === "number" ? row.payload_bytes : 0) + utf8Length(row.result ?? "");
}

const StoredReceipt = Receipt.extend({ verified: z.boolean() });
/** A receipt as it is stored, with the result of its check. */
export type StoredReceipt = z.infer<typeof StoredReceipt>;

/** Returns the receipt of a row; null if it has none that can be read. The result counts without it too. */
export function storedReceipt(row: Pick<JournalRow, "receipt"> & Partial<Pick<WrittenRow, "parsedReceipt">>): StoredReceipt | null {
  if (row.parsedReceipt !== undefined) return row.parsedReceipt;
  return readAs(StoredReceipt, row.receipt);
}

// A replayed or late write changes nothing: only a higher revision is written, and only to a job that has not ended.
const ON_CONFLICT = `ON CONFLICT (id) DO UPDATE SET status = excluded.status, rev = excluded.rev, attempt = excluded.attempt, result = excluded.result,
  payload = excluded.payload, provider_pubkey = excluded.provider_pubkey, holders = excluded.holders, completed_at = excluded.completed_at, ended_at = excluded.ended_at
  WHERE excluded.rev > jobs.rev AND jobs.status NOT IN ('completed', 'failed')`;
const JOB_COLUMNS = [
  "id",
  "job_type",
  "policy",
  "privacy_class",
  "user_id",
  "payload",
  "status",
  "rev",
  "attempt",
  "result",
  "provider_pubkey",
  "holders",
  "created_at",
  "completed_at",
  "ended_at",
] as const;
const RECEIPT_COLUMNS = ["job_id", "signed_job_id", "provider_pubkey", "output_hash", "completed_at", "payment_ref", "signature", "verified"] as const;

// Each row is an array in the order of its columns. As an object it would take SQLite a fifth longer.
const extract = (columns: readonly string[]) => columns.map((_, at) => `value ->> ${at}`).join(", ");
const rowsAsJson = <Column extends string>(columns: readonly Column[], rows: readonly Record<Column, unknown>[]) =>
  JSON.stringify(rows.map((row) => columns.map((column) => row[column])));
const JOBS_FROM_JSON = `INSERT INTO jobs (${JOB_COLUMNS.join(", ")}) SELECT ${extract(JOB_COLUMNS)} FROM json_each(?) WHERE true ${ON_CONFLICT}`;
const JOB_ALONE = `INSERT INTO jobs (${JOB_COLUMNS.join(", ")}) VALUES (${JOB_COLUMNS.map(() => "?").join(", ")}) ${ON_CONFLICT}`;
// The first receipt stays, because a recorded result never changes [RC5].
const RECEIPTS_FROM_JSON = `INSERT INTO receipts (${RECEIPT_COLUMNS.join(", ")}) SELECT ${extract(RECEIPT_COLUMNS)} FROM json_each(?) WHERE true ON CONFLICT (job_id) DO NOTHING`;

function sizeOf(row: JournalRow): number {
  // Three times the UTF-16 units is at least the number of UTF-8 bytes.
  return 3 * (row.payload.length + (row.result?.length ?? 0) + (row.receipt?.length ?? 0)) + 1_024;
}

/** The rows of one write to D1: as many as fit, at least one. They are added one by one, so that no row is read needlessly. */
export class RecordBatch {
  readonly rows: JournalRow[] = [];
  readonly #most: number;
  #bytes = 0;

  constructor(most: number) {
    this.#most = Math.min(most, TUNING.batchRows);
  }

  get isEmpty(): boolean {
    return this.rows.length === 0;
  }

  /** Adds a row if it fits. Returns false if it did not fit, or if no further row can fit. */
  add(row: JournalRow): boolean {
    const size = sizeOf(row);
    if (!this.isEmpty && (size > TUNING.aloneBytes || this.#bytes + size > TUNING.batchBytes)) return false;
    this.rows.push(row);
    this.#bytes += size;
    return size <= TUNING.aloneBytes && this.rows.length < this.#most;
  }
}

/** Returns the statements that write these rows to D1. They must run as one batch: jobs and receipts together or not at all [RC5]. */
export function recordStatements(db: D1Database, rows: readonly JournalRow[]): D1PreparedStatement[] {
  const [only] = rows;
  const statements =
    rows.length === 1 && only !== undefined && sizeOf(only) > TUNING.aloneBytes
      ? [db.prepare(JOB_ALONE).bind(...JOB_COLUMNS.map((column) => only[column]))]
      : [db.prepare(JOBS_FROM_JSON).bind(rowsAsJson(JOB_COLUMNS, rows))];
  const receipts = rows.flatMap((row) => {
    const receipt = storedReceipt(row);
    return receipt === null ? [] : [{ ...receipt, job_id: row.id, signed_job_id: receipt.job_id }];
  });
  if (receipts.length > 0) statements.push(db.prepare(RECEIPTS_FROM_JSON).bind(rowsAsJson(RECEIPT_COLUMNS, receipts)));
  return statements;
}

/** A row of the payment ledger on its way to D1. */
export type PaymentCopy = Payment & { rev: number; updatedAt: number };

const PAYMENT_COLUMNS = ["key", "rev", "state", "reason", "job_id", "payer", "asset", "amount", "settlement", "updated_at", "balance"] as const;

const PAYMENTS_FROM_JSON = `INSERT INTO payments (${PAYMENT_COLUMNS.join(", ")}) SELECT ${extract(PAYMENT_COLUMNS)} FROM json_each(?) WHERE true
  ON CONFLICT (key) DO UPDATE SET ${PAYMENT_COLUMNS.slice(1)
    .map((column) => `${column} = excluded.${column}`)
    .join(", ")} WHERE excluded.rev > payments.rev`;

/** Returns the statement that writes these rows to D1. A replayed or late one changes nothing. */
export function copyStatement(db: D1Database, rows: readonly PaymentCopy[]): D1PreparedStatement {
  return db.prepare(PAYMENTS_FROM_JSON).bind(rowsAsJson(PAYMENT_COLUMNS, rows.map(paymentRow)));
}

function paymentRow({
  key,
  rev,
  phase,
  jobId,
  payer,
  asset,
  amount,
  updatedAt,
  credit,
}: PaymentCopy): Record<(typeof PAYMENT_COLUMNS)[number], string | number | null> {
  const reason = "reason" in phase ? phase.reason : null;
  return {
    key,
    rev,
    state: phase.kind,
    reason,
    job_id: jobId,
    payer,
    asset,
    amount,
    settlement: ownTransaction(phase),
    updated_at: updatedAt,
    balance: credit?.left ?? null,
  };
}

/** The transaction that has moved a payment's own money; null if none has. A job that was paid from a balance shows its payer that of another payment. */
function ownTransaction(phase: PaymentCopy["phase"]): string | null {
  if (phase.kind === "void") return null;
  if (phase.kind === "covered") return phase.own;
  if (phase.kind === "spent") return phase.own ?? phase.transaction;
  return "transaction" in phase ? phase.transaction : null;
}
