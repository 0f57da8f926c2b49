// Answers to polls, from memory and the journal. On a job's way: poll.
import type { Receipt } from "../../protocol/job.ts";
import { type LiveJob, statusOf } from "../dispatch/index.ts";
import { jobJson, wasRefused } from "../store/jobs.ts";
import { type JournalRow, storedReceipt, type StoredReceipt } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { UserJob } from "./rpc.ts";

/** JSON text of the Job of a stored row. */
export function endedJob(row: JournalRow): string {
  const stored = storedReceipt(row);
  const receipt = stored && withoutVerified(stored);
  return jobJson({ id: row.id, status: row.status, result: row.result, receipt, createdAt: row.created_at, completedAt: row.completed_at });
}

/** A receipt as REST shows it. */
function withoutVerified(stored: StoredReceipt): Receipt {
  const { verified: _, ...receipt } = stored;
  return receipt;
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

  /** Forgets all jobs, because a job whose content retention has deleted must not be returned any more [LM3]. */
  clear(): void {
    this.#jobs.clear();
    this.#chars = 0;
  }

  /** Keeps the answer of a job that has ended, built from its row. */
  put(row: JournalRow): void {
    const json = endedJob(row);
    this.#jobs.set(row.id, { json, refused: wasRefused(row) });
    this.#chars += json.length;
    if (this.#chars <= TUNING.recentChars) return;
    // A tenth at once: each new loop over a map steps over the entries that were deleted before.
    for (const [oldest, { json: text }] of this.#jobs) {
      if (this.#chars <= 0.9 * TUNING.recentChars) return;
      this.#jobs.delete(oldest);
      this.#chars -= text.length;
    }
  }
}
