import type { CompletionRefusal, CoordinatorFrame } from "../../protocol/worker-messages.ts";
import { EndedFacts, findEnded } from "../store/ended.ts";
import { jobJson } from "../store/job-view.ts";
import type { CheckedCompletion } from "./completion-check.ts";
import { type JournalRow, storedReceipt } from "../store/journal-row.ts";
import type { Journal } from "./journal.ts";

/** JSON text of the Job of a stored row. */
export function endedJob(row: JournalRow): string {
  const stored = storedReceipt(row);
  if (stored === null)
    return jobJson({ id: row.id, status: row.status, result: row.result, receipt: null, createdAt: row.created_at, completedAt: row.completed_at });
  const { verified: _, ...receipt } = stored;
  return jobJson({ id: row.id, status: row.status, result: row.result, receipt, createdAt: row.created_at, completedAt: row.completed_at });
}

/** A rejection with the words that its worker's owner needs [WS10]. */
export type ExplainedRefusal = { status: "rejected"; error: CompletionRefusal; message: string };

/** Why a result is rejected for another reason than what is in it. */
const REASONS: Record<CompletionRefusal, string> = {
  not_assigned: "this key never held the job",
  unknown_job: "no job has this id",
  already_terminal: "the job has ended",
  invalid_receipt: "the receipt is not valid",
  output_too_large: "the output is too large",
};

/** A rejection with its message: the check that failed where one did. */
export function explained({ error }: { status: "rejected"; error: CompletionRefusal }, fault: string | null): ExplainedRefusal {
  const isOfContent = error === "invalid_receipt" || error === "output_too_large";
  return { status: "rejected", error, message: (isOfContent ? fault : null) ?? REASONS[error] };
}

/** What a worker is told before its socket is closed because its key is parked [WS4]. */
export function parkedFrame(ms: number): CoordinatorFrame {
  const seconds = Math.ceil(ms / 1_000);
  return { type: "error", code: "parked", message: `too many results were rejected: come back in ${seconds} s`, retry_after_s: seconds };
}

type Answer = { status: "duplicate" } | ExplainedRefusal;

/**
 * Answers a completion of a job that is not live: the same receipt again is a duplicate, another of one who held it comes too late [WS10].
 * @throws {StoreUnavailable} when D1 does not answer; then nothing is known.
 */
export async function answerEndedCompletion(
  journal: Journal,
  db: D1Database,
  jobId: string,
  key: string,
  completion: CheckedCompletion | undefined,
): Promise<Answer> {
  const ended = fromJournal(journal, jobId) ?? (await findEnded(db, jobId));
  if (ended === null) return explained({ status: "rejected", error: "unknown_job" }, null);
  if (!ended.holders.includes(key)) return explained({ status: "rejected", error: "not_assigned" }, null);
  const same =
    ended.status === "completed" &&
    ended.provider_pubkey === key &&
    ended.signature === (completion?.receipt?.signature ?? null) &&
    // Without a receipt the result itself has to be the same.
    (ended.signature !== null || ended.result === completion?.result);
  return same ? { status: "duplicate" } : explained({ status: "rejected", error: "already_terminal" }, null);
}

function fromJournal(journal: Journal, jobId: string): EndedFacts | null {
  const row = journal.row(jobId);
  return row === null ? null : EndedFacts.parse({ ...row, signature: storedReceipt(row)?.signature ?? null });
}
