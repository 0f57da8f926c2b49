// Answers to polls, from memory and the journal. On a job's way: poll.
import type { Receipt } from "../../protocol/job.ts";
import { type LiveJob, statusOf } from "../dispatch/index.ts";
import { jobJson } from "../store/jobs.ts";
import { type JournalRow, storedReceipt, type StoredReceipt } from "../store/record.ts";
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
