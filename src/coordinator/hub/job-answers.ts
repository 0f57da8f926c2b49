// Answers about jobs: to polls, and to workers whose result came too late. On a job's way: poll, and after the end.
import { LIMITS } from "../../protocol/limits.ts";
import type { CompletionRefusal } from "../../protocol/worker-messages.ts";
import { FairShare, type LiveJob, statusOf } from "../dispatch/index.ts";
import { EndedFacts, findEnded, jobJson, wasRefused } from "../store/jobs.ts";
import { type JournalRow, storedReceipt } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { CheckedCompletion } from "./completion-check.ts";
import type { Journal } from "./journal.ts";
import type { UserJob } from "./rpc.ts";

/** JSON text of the Job of a stored row. */
export function endedJob(row: JournalRow): string {
  const stored = storedReceipt(row);
  if (stored === null)
    return jobJson({ id: row.id, status: row.status, result: row.result, receipt: null, createdAt: row.created_at, completedAt: row.completed_at });
  const { verified: _, ...receipt } = stored;
  return jobJson({ id: row.id, status: row.status, result: row.result, receipt, createdAt: row.created_at, completedAt: row.completed_at });
}

/** A rejection with a message for the owner of the worker [WS10]. */
export type ExplainedRefusal = { status: "rejected"; error: CompletionRefusal; message: string };

/** The messages of rejections that do not name a fault of the result. */
const REASONS: Record<CompletionRefusal, string> = {
  not_assigned: "this key never held the job",
  unknown_job: "no job has this id",
  already_terminal: "the job has ended",
  invalid_receipt: "the receipt is not valid",
  output_too_large: `the output is too large: at most ${LIMITS.outputBytes} bytes as JSON text are allowed`,
};

/** Adds the message to a rejection: the check that failed, if there is one. */
export function explained({ error }: { status: "rejected"; error: CompletionRefusal }, fault: string | null): ExplainedRefusal {
  const isOfContent = error === "invalid_receipt" || error === "output_too_large";
  return { status: "rejected", error, message: (isOfContent ? fault : null) ?? REASONS[error] };
}

type LateAnswer = { status: "duplicate" } | ExplainedRefusal;

/**
 * Answers a completion of a job that is not live. The same receipt again is a duplicate; any other result of a worker that held the job comes too late
 * [WS10]. `read` parses and checks the result; it is called only if the worker held the job. Null if the result cannot be parsed.
 * @throws {StoreUnavailable} if D1 does not answer; then nothing is known
 */
export async function answerEndedCompletion(
  journal: Journal,
  db: D1Database,
  jobId: string,
  key: string,
  read: () => CheckedCompletion | null,
): Promise<LateAnswer | null> {
  const ended = fromJournal(journal, jobId) ?? (await findEnded(db, jobId));
  if (ended === null) return explained({ status: "rejected", error: "unknown_job" }, null);
  if (!ended.holders.includes(key)) return explained({ status: "rejected", error: "not_assigned" }, null);
  const completion = read();
  if (completion === null) return null;
  const same =
    ended.status === "completed" &&
    ended.provider_pubkey === key &&
    ended.signature === (completion.receipt?.signature ?? null) &&
    // Without a receipt the result itself must be the same.
    (ended.signature !== null || ended.result === completion.result);
  return same ? { status: "duplicate" } : explained({ status: "rejected", error: "already_terminal" }, null);
}

function fromJournal(journal: Journal, jobId: string): EndedFacts | null {
  const row = journal.row(jobId);
  return row === null ? null : EndedFacts.parse({ ...row, signature: storedReceipt(row)?.signature ?? null });
}

/** JSON text of a Job that has not ended [JB1]. */
export function liveJob(job: LiveJob): string {
  return jobJson({ id: job.id, status: statusOf(job), result: null, receipt: null, createdAt: job.createdAt, completedAt: null });
}

/** A job that has not ended, for the list of its user [JB14]. */
export function userJob(job: LiveJob): UserJob {
  return { id: job.id, jobType: job.jobType, status: statusOf(job), createdAt: job.createdAt, completedAt: null };
}

/** The JSON text of a Job that has ended, and whether the job was refused at commit [JB8]. */
type RecentJob = { json: string; refused: boolean };

/** Jobs that ended recently, in memory, because clients poll them next and D1 need not be read then. Bounded; the oldest are dropped first. */
export class RecentJobs {
  readonly #jobs = new Map<string, RecentJob>();
  #chars = 0;

  get(id: string): RecentJob | undefined {
    return this.#jobs.get(id);
  }

  /** Forgets all jobs: a job that retention has emptied must not be told any more [LM3]. */
  clear(): void {
    this.#jobs.clear();
    this.#chars = 0;
  }

  /** Keeps the answer of a job that has ended, built from its row. */
  put(row: JournalRow): void {
    const json = endedJob(row);
    this.#jobs.set(row.id, { json, refused: wasRefused(row) });
    this.#chars += json.length;
    for (const [oldest, { json: text }] of this.#jobs) {
      if (this.#chars <= TUNING.recentChars) return;
      this.#jobs.delete(oldest);
      this.#chars -= text.length;
    }
  }
}

/** A result of a job that is not live: the socket that sent it, whose share of the memory it uses [LM1], and its frame. */
export type LateResult = { conn: string; owner: string; text: string };

/**
 * The lookups in D1 for results of jobs that are not live. Only a few run at once. Those that wait are limited, in number per socket and in bytes per client, and
 * both in all: a worker that sends results of invented jobs must not use up D1, nor the memory while D1 does not answer. A result above the limit gets no
 * answer; an honest worker sends it again.
 */
export class LateResults {
  readonly #waiting: { result: LateResult; run: () => Promise<void> }[] = [];
  /** The lookups that wait or run, by socket, and the bytes of their frames, by owner. */
  readonly #lookups = new FairShare({ most: LIMITS.lookupsWaiting + LIMITS.lookups, each: LIMITS.lookupsPerSocket });
  readonly #bytes = new FairShare({ most: LIMITS.lookupBytes, each: LIMITS.lookupBytesPerClient });
  #running = 0;

  /** Adds a lookup, which runs when it is its turn; `run` must not reject, and may keep no more than the frame. False if there are too many already. */
  add(result: LateResult, run: () => Promise<void>): boolean {
    if (!this.#lookups.hasRoom(result.conn) || !this.#bytes.take(result.owner, bytesOfText(result))) return false;
    this.#lookups.add(result.conn);
    this.#waiting.push({ result, run });
    this.#next();
    return true;
  }

  #next(): void {
    if (this.#running >= LIMITS.lookups) return;
    const first = this.#waiting.shift();
    if (first === undefined) return;
    this.#running++;
    void first.run().finally(() => {
      this.#running--;
      this.#lookups.give(first.result.conn);
      this.#bytes.give(first.result.owner, bytesOfText(first.result));
      this.#next();
    });
  }
}

/** The most bytes that a text may take in memory: JavaScript keeps two for each character if one of them is not in Latin-1. */
function bytesOfText({ text }: LateResult): number {
  return 2 * text.length;
}
