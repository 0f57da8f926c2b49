import * as z from "zod";
import { type JobStatus, Receipt } from "../../protocol/job.ts";
import { readJson } from "../../protocol/text.ts";
import type { Payment } from "../dispatch/index.ts";
import { TUNING } from "../tuning.ts";

/** A job's row on its way to D1. */
export type JournalRow = {
  id: string;
  job_type: string;
  /** Null for an LLM_INFER, and in rows of before it was written down. */
  task_type: string | null;
  policy: string;
  privacy_class: string;
  user_id: string;
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
};

const StoredReceipt = Receipt.extend({ verified: z.boolean() });
/** A receipt as it is stored: with whether it was valid. */
export type StoredReceipt = z.infer<typeof StoredReceipt>;

/** The receipt of a stored row; null where there is none that can be read: the result counts all the same. */
export function storedReceipt(row: Pick<JournalRow, "receipt">): StoredReceipt | null {
  const json = row.receipt === null ? null : readJson(row.receipt);
  return json?.ok ? (StoredReceipt.safeParse(json.value).data ?? null) : null;
}

// A replayed or late write loses: only a higher revision of a job that has not ended changes anything.
const ON_CONFLICT = `ON CONFLICT (id) DO UPDATE SET status = excluded.status, rev = excluded.rev, attempt = excluded.attempt, result = excluded.result,
  provider_pubkey = excluded.provider_pubkey, holders = excluded.holders, completed_at = excluded.completed_at, ended_at = excluded.ended_at
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

const extract = (columns: readonly string[]) => columns.map((column) => `value ->> '$.${column}'`).join(", ");
const JOBS_FROM_JSON = `INSERT INTO jobs (${JOB_COLUMNS.join(", ")}) SELECT ${extract(JOB_COLUMNS)} FROM json_each(?) WHERE true ${ON_CONFLICT}`;
const JOB_ALONE = `INSERT INTO jobs (${JOB_COLUMNS.join(", ")}) VALUES (${JOB_COLUMNS.map(() => "?").join(", ")}) ${ON_CONFLICT}`;
// The first receipt stays: a result that was recorded never changes [RC5].
const RECEIPTS_FROM_JSON = `INSERT INTO receipts (${RECEIPT_COLUMNS.join(", ")}) SELECT ${extract(RECEIPT_COLUMNS)} FROM json_each(?) WHERE true ON CONFLICT (job_id) DO NOTHING`;

function sizeOf(row: JournalRow): number {
  // UTF-16 units times three bound the UTF-8 bytes.
  return 3 * (row.payload.length + (row.result?.length ?? 0) + (row.receipt?.length ?? 0)) + 1_024;
}

/** Rows that go to D1 in one write: as many as fit, one at least. Filled one by one, so that no more is read than is sent. */
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

  /** Takes a row; false when it does not fit any more, or nothing after it would. */
  add(row: JournalRow): boolean {
    const size = sizeOf(row);
    if (!this.isEmpty && (size > TUNING.aloneBytes || this.#bytes + size > TUNING.batchBytes)) return false;
    this.rows.push(row);
    this.#bytes += size;
    return size <= TUNING.aloneBytes && this.rows.length < this.#most;
  }
}

/** Statements that bring these rows into D1, to be run as one batch: jobs and receipts together or not at all [RC5]. */
export function recordStatements(db: D1Database, rows: readonly JournalRow[]): D1PreparedStatement[] {
  const [only] = rows;
  const statements =
    rows.length === 1 && only !== undefined && sizeOf(only) > TUNING.aloneBytes
      ? [db.prepare(JOB_ALONE).bind(...JOB_COLUMNS.map((column) => only[column]))]
      : [db.prepare(JOBS_FROM_JSON).bind(JSON.stringify(rows.map((row) => Object.fromEntries(JOB_COLUMNS.map((column) => [column, row[column]])))))];
  const receipts = rows.flatMap((row) => {
    const receipt = storedReceipt(row);
    return receipt === null ? [] : [{ ...receipt, job_id: row.id, signed_job_id: receipt.job_id }];
  });
  if (receipts.length > 0) statements.push(db.prepare(RECEIPTS_FROM_JSON).bind(JSON.stringify(receipts)));
  return statements;
}

/** A row of the ledger on its way to D1. */
export type PaymentCopy = Payment & { rev: number; updatedAt: number };

const COLUMNS = ["key", "rev", "state", "reason", "job_id", "payer", "asset", "amount", "settlement", "updated_at"] as const;

const COPY = `INSERT INTO payments (${COLUMNS.join(", ")}) SELECT ${COLUMNS.map((column) => `value ->> '$.${column}'`).join(", ")} FROM json_each(?) WHERE true
  ON CONFLICT (key) DO UPDATE SET ${COLUMNS.slice(1)
    .map((column) => `${column} = excluded.${column}`)
    .join(", ")} WHERE excluded.rev > payments.rev`;

/** The statement that brings these rows into D1. Replayed or late it changes nothing. */
export function copyStatement(db: D1Database, rows: readonly PaymentCopy[]): D1PreparedStatement {
  return db.prepare(COPY).bind(JSON.stringify(rows.map(recordOf)));
}

function recordOf({ key, rev, phase, jobId, payer, asset, amount, updatedAt }: PaymentCopy): Record<(typeof COLUMNS)[number], string | number | null> {
  const reason = phase.kind === "void" ? phase.reason : null;
  const settlement = "transaction" in phase ? phase.transaction : null;
  return { key, rev, state: phase.kind, reason, job_id: jobId, payer, asset, amount, settlement, updated_at: updatedAt };
}
