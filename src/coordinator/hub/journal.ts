// The hub's SQLite: the rows of jobs until D1 has their end, and of idempotency keys. On a job's way: store, and every change until D1 has it.
import * as z from "zod";
import { type JobStatus, JobType, PrivacyClass, ResolvedPolicy, TaskType } from "../../protocol/job.ts";
import { type JobEnd, type JobFacts, type LiveJob, type SavedJob, Snapshot, snapshotOf, statusOf } from "../dispatch/index.ts";
import type { StoredResult } from "../store/jobs.ts";
import type { JournalRow, StoredReceipt, WrittenRow } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { CheckedCompletion } from "./completion-check.ts";
import type { UserJob } from "./rpc.ts";
import type { Origin } from "./storage-room.ts";

/** Finds jobs whose stored end is damaged, so that it can be neither told nor copied to D1. */
const DAMAGED_ENDS = `SELECT id FROM jobs WHERE ended_at IS NOT NULL AND (status NOT IN ('completed', 'failed') OR result IS NULL OR NOT json_valid(result)
  OR typeof(created_at) <> 'integer' OR typeof(ended_at) <> 'integer' OR typeof(rev) <> 'integer')`;

const WRITTEN_ONCE = ["job_type", "task_type", "policy", "privacy_class", "user_id", "payload", "payload_bytes", "created_at", "client", "payer"] as const;
/** The columns of a job that are written at its commit and never change before its end. */
type WrittenOnce = Pick<JournalRow, (typeof WRITTEN_ONCE)[number]>;

const INSERT = `INSERT INTO jobs (id, rev, status, attempt, provider_pubkey, holders, snapshot, ${WRITTEN_ONCE.join(", ")})
  VALUES (?, ?, ?, ?, ?, ?, ?, ${WRITTEN_ONCE.map(() => "?").join(", ")})`;
// The payload of a damaged row may be no text.
const READ_WRITTEN_ONCE = `SELECT ${WRITTEN_ONCE.map((column) => (column === "payload" ? "CAST(payload AS TEXT) AS payload" : column)).join(", ")}, ended_at
  FROM jobs WHERE id = ?`;

/** What a row takes up in memory besides its payload, in UTF-16 units. */
const KEPT_ROW_CHARS = 500;

const Facts = z.object({ jobType: JobType, policy: ResolvedPolicy, privacyClass: PrivacyClass, payloadBytes: z.int(), createdAt: z.int() });

/**
 * The journal in the hub's SQLite: every job whose end D1 does not have yet.
 * The statements are fixed text and not built by drizzle, because building a statement costs more than running it (12 µs).
 */
export class Journal {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  /** What assignment and end need of the rows of live jobs. Bounded; the others are read. */
  readonly #kept = new Map<string, WrittenOnce>();
  #keptChars = 0;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
  }

  /** Runs `write` as one transaction: all of its changes become durable, or none. */
  transaction(write: () => void): void {
    this.#storage.transactionSync(write);
  }

  insert(job: LiveJob, payload: string, origin: Origin): void {
    const written = writtenOnce(job, payload, origin);
    this.#insertRow(job, written, statusOf(job), JSON.stringify(snapshotOf(job)));
    this.#keep(job.id, written);
  }

  /** Writes a job that ended before its first write, for example because it was refused at commit [JB8]; returns its row. */
  insertEnded(facts: JobFacts, payload: string, origin: Origin, end: JobEnd, completion: CheckedCompletion | undefined): WrittenRow | null {
    const written = writtenOnce(facts, end.started ? payload : "", origin);
    this.#insertRow({ id: facts.id, rev: end.rev, attempts: 0, holders: [] }, written, end.outcome.status, null);
    this.#keep(facts.id, written);
    return this.end(end, completion);
  }

  save(job: LiveJob): void {
    this.#sql.exec(
      "UPDATE jobs SET rev = ?, status = ?, attempt = ?, provider_pubkey = ?, holders = ?, snapshot = ? WHERE id = ?",
      job.rev,
      statusOf(job),
      job.attempts,
      job.holders.at(-1)?.key ?? null,
      JSON.stringify(job.holders.map((holder) => holder.key)),
      JSON.stringify(snapshotOf(job)),
      job.id,
    );
  }

  /**
   * Writes the end of a job, for a completed one with its worker's result and receipt. The payload of a job that no worker started is erased [LM3].
   * @returns the row as it is now, so that polls, streams and D1 need not read it again; null if the journal does not have the job
   */
  end({ jobId, outcome, started, paymentRef, rev, attempts, holders, endedAt }: JobEnd, completion: CheckedCompletion | undefined): WrittenRow | null {
    const written = this.#kept.get(jobId) ?? this.#writtenOnce(jobId);
    if (written === null) return null;
    this.#forget(jobId);
    const isCompleted = outcome.status === "completed";
    const result = isCompleted ? (completion?.result ?? "null") : JSON.stringify({ error: outcome.cause, message: outcome.message });
    const receipt = isCompleted ? receiptOf(completion, paymentRef) : null;
    const ended = { holders: JSON.stringify(holders), receipt: receipt === null ? null : JSON.stringify(receipt), completed_at: isCompleted ? endedAt : null };
    const createdAt = Number.isSafeInteger(written.created_at) ? written.created_at : endedAt;
    const provider = isCompleted ? outcome.key : (holders.at(-1) ?? null);
    // Not RETURNING: SQLite would copy each page that the statement changes once more, to be able to undo it alone (docs/decisions/0016).
    const { rowsWritten } = this.#sql.exec(
      `UPDATE jobs SET rev = ?2, status = ?3, attempt = ?4, provider_pubkey = ?5, holders = ?6, snapshot = NULL,
         payload = iif(?7, payload, ''), payload_bytes = iif(?7, payload_bytes, 0), result = ?8, receipt = ?9, completed_at = ?10, ended_at = ?11,
         created_at = ?12 WHERE id = ?1`,
      ...[jobId, rev, outcome.status, attempts, provider, ended.holders, started ? 1 : 0, result, ended.receipt, ended.completed_at, endedAt, createdAt],
    );
    if (rowsWritten === 0) return null;
    return {
      ...written,
      ...(!started && { payload: "", payload_bytes: 0 }),
      ...ended,
      id: jobId,
      created_at: createdAt,
      rev,
      status: outcome.status,
      attempt: attempts,
      provider_pubkey: provider,
      snapshot: null,
      synced_rev: 0,
      result,
      ended_at: endedAt,
      parsedReceipt: receipt,
    };
  }

  row(id: string): JournalRow | null {
    return this.#sql.exec<JournalRow>("SELECT * FROM jobs WHERE id = ?", id).toArray()[0] ?? null;
  }

  /** What a late result is compared with; null if the journal does not have the job. Payload and result, which may be large, are not read. */
  ended(id: string): Pick<JournalRow, "status" | "provider_pubkey" | "holders" | "receipt"> | null {
    const query = "SELECT status, provider_pubkey, holders, receipt FROM jobs WHERE id = ?";
    return this.#sql.exec<Pick<JournalRow, "status" | "provider_pubkey" | "holders" | "receipt">>(query, id).toArray()[0] ?? null;
  }

  /** The rows of these jobs, those that are there, by their ids. */
  rows(ids: readonly string[]): Map<string, JournalRow> {
    if (ids.length === 0) return new Map();
    const rows = this.#sql.exec<JournalRow>("SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(?))", JSON.stringify(ids)).toArray();
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** Those of these jobs that are of this user and have ended [JB14]. */
  endedOf(userId: string, ids: readonly string[]): UserJob[] {
    if (ids.length === 0) return [];
    const query = `SELECT id, job_type AS jobType, status, created_at AS createdAt, completed_at AS completedAt FROM jobs
      WHERE id IN (SELECT value FROM json_each(?)) AND user_id = ? AND ended_at IS NOT NULL`;
    return this.#sql.exec<UserJob>(query, JSON.stringify(ids), userId).toArray();
  }

  /** Status and result of a job; null if the journal does not have it. */
  result(id: string): StoredResult | null {
    return this.#sql.exec<StoredResult>("SELECT status, result FROM jobs WHERE id = ?", id).toArray()[0] ?? null;
  }

  /** The payload of a job that is assigned now; null if the journal does not have the job. */
  payload(id: string): string | null {
    const kept = this.#kept.get(id);
    if (kept !== undefined) return kept.payload;
    const written = this.#writtenOnce(id);
    // Nothing would forget a job that has ended.
    if (written?.ended_at === null) this.#keep(id, written);
    return written?.payload ?? null;
  }

  /** The `max_tokens` of a job; null if it has none that can be read. */
  maxTokens(id: string): number | null {
    const query = "SELECT iif(json_valid(payload), payload ->> '$.max_tokens', NULL) AS most FROM jobs WHERE id = ?";
    const most = this.#sql.exec<{ most: SqlStorageValue }>(query, id).toArray()[0]?.most;
    return typeof most === "number" ? most : null;
  }

  /** The jobs that have not ended, and the ids of all rows that cannot be read. */
  live(): { saved: SavedJob[]; damaged: string[] } {
    // A write may have failed after its rows were kept.
    this.#kept.clear();
    this.#keptChars = 0;
    const saved: SavedJob[] = [];
    const damaged = this.#sql
      .exec<{ id: string }>(DAMAGED_ENDS)
      .toArray()
      .map((row) => row.id);
    for (const row of this.#sql.exec<JournalRow>("SELECT * FROM jobs WHERE ended_at IS NULL ORDER BY created_at")) {
      const job = readSaved(row);
      if (job === null) damaged.push(row.id);
      else saved.push(job);
    }
    return { saved, damaged };
  }

  /** The jobs whose newest revision D1 does not have, with the bytes of their payloads and results, and when they ended; the first that ended comes first. */
  unsynced(): { id: string; bytes: number; endedAt: number | null }[] {
    return this.#sql
      .exec<{ id: string; bytes: number; endedAt: number | null }>(
        `SELECT id, payload_bytes + coalesce(octet_length(result), 0) AS bytes, ended_at AS endedAt FROM jobs WHERE synced_rev < rev
         ORDER BY ended_at IS NULL, ended_at`,
      )
      .toArray();
  }

  /** Resolves when everything that was written so far is on the disk. */
  onDisk(): Promise<void> {
    return this.#storage.sync();
  }

  /** Notes that D1 has these rows: those of jobs that have ended are deleted, for the others the revision is noted. */
  synced(rows: readonly JournalRow[]): void {
    const pairs = (of: (row: JournalRow) => boolean): string => JSON.stringify(rows.filter(of).map(({ id, rev }) => [id, rev]));
    const [ended, live] = [pairs((row) => row.ended_at !== null), pairs((row) => row.ended_at === null)];
    // One statement for all: under load a statement for each row would cost more than the write to D1.
    if (ended !== "[]")
      this.#sql.exec("DELETE FROM jobs WHERE (id, rev) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?)) AND ended_at IS NOT NULL", ended);
    if (live !== "[]")
      this.#sql.exec(
        `UPDATE jobs SET synced_rev = copied.rev FROM (SELECT value ->> 0 AS id, value ->> 1 AS rev FROM json_each(?)) AS copied
           WHERE jobs.id = copied.id AND synced_rev < copied.rev`,
        live,
      );
  }

  idempotent(userId: string, key: string, since: number): { fingerprint: string; jobId: string } | null {
    const row = this.#sql
      .exec<{ fingerprint: string; job_id: string }>(
        "SELECT fingerprint, job_id FROM idempotency WHERE user_id = ? AND key = ? AND created_at > ?",
        userId,
        key,
        since,
      )
      .toArray()[0];
    return row === undefined ? null : { fingerprint: row.fingerprint, jobId: row.job_id };
  }

  keepIdempotent(userId: string, key: string, fingerprint: string, jobId: string, now: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO idempotency (user_id, key, fingerprint, job_id, created_at) VALUES (?, ?, ?, ?, ?)",
      userId,
      key,
      fingerprint,
      jobId,
      now,
    );
  }

  /** Deletes an idempotency key, if it stands for this job. */
  dropIdempotent(userId: string, key: string, jobId: string): void {
    this.#sql.exec("DELETE FROM idempotency WHERE user_id = ? AND key = ? AND job_id = ?", userId, key, jobId);
  }

  /** Deletes idempotency keys that are older than this time, a bounded number at a time [API5, LM3]. False if there were none. */
  purge(idempotencyBefore: number): boolean {
    const { rowsWritten } = this.#sql.exec(
      "DELETE FROM idempotency WHERE (user_id, key) IN (SELECT user_id, key FROM idempotency WHERE created_at <= ? ORDER BY created_at LIMIT ?)",
      idempotencyBefore,
      TUNING.purgedRows,
    );
    return rowsWritten > 0;
  }

  #keep(id: string, written: WrittenOnce): void {
    this.#forget(id);
    const chars = keptChars(written);
    if (this.#keptChars + chars > TUNING.keptChars) return;
    this.#kept.set(id, written);
    this.#keptChars += chars;
  }

  #forget(id: string): void {
    const written = this.#kept.get(id);
    if (written === undefined) return;
    this.#kept.delete(id);
    this.#keptChars -= keptChars(written);
  }

  #writtenOnce(id: string): (WrittenOnce & Pick<JournalRow, "ended_at">) | null {
    return this.#sql.exec<WrittenOnce & Pick<JournalRow, "ended_at">>(READ_WRITTEN_ONCE, id).toArray()[0] ?? null;
  }

  #insertRow(
    { id, rev, attempts, holders }: Pick<LiveJob, "id" | "rev" | "attempts" | "holders">,
    written: WrittenOnce,
    status: JobStatus,
    snapshot: string | null,
  ): void {
    this.#sql.exec(
      INSERT,
      ...[id, rev, status, attempts, holders.at(-1)?.key ?? null, JSON.stringify(holders.map((holder) => holder.key)), snapshot],
      ...WRITTEN_ONCE.map((column) => written[column]),
    );
  }
}

function writtenOnce(job: JobFacts, payload: string, { client, payer }: Origin): WrittenOnce {
  const { jobType, taskType = null, policy, privacyClass, userId, payloadBytes, createdAt } = job;
  return {
    job_type: jobType,
    task_type: taskType,
    policy,
    privacy_class: privacyClass,
    user_id: userId,
    payload,
    payload_bytes: payloadBytes,
    created_at: createdAt,
    client,
    payer,
  };
}

/** About what a row takes up in memory, in UTF-16 units. */
const keptChars = ({ payload }: WrittenOnce): number => payload.length + KEPT_ROW_CHARS;

/** The receipt as it is stored: what the worker signed, with the settlement that paid for the job, which the worker does not know [PY10]. */
function receiptOf(completion: CheckedCompletion | undefined, paymentRef: string | null): StoredReceipt | null {
  if (completion === undefined || completion.receipt === null) return null;
  return { ...completion.receipt, payment_ref: paymentRef ?? completion.receipt.payment_ref };
}

function readSaved(row: JournalRow): SavedJob | null {
  try {
    const facts = Facts.parse({
      jobType: row.job_type,
      policy: row.policy,
      privacyClass: row.privacy_class,
      payloadBytes: row.payload_bytes,
      createdAt: row.created_at,
    });
    const snapshot = Snapshot.parse(JSON.parse(row.snapshot ?? ""));
    // A TASK whose type is lost goes on: any object counts as its output.
    const taskType = TaskType.safeParse(row.task_type).data;
    return { facts: { ...facts, ...(taskType !== undefined && { taskType }), id: row.id, userId: row.user_id }, rev: row.rev, snapshot };
  } catch {
    return null;
  }
}
