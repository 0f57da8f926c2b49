import type { CompletionRefusal } from "../../protocol/worker-messages.ts";
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

type Answer = { status: "duplicate" } | { status: "rejected"; error: CompletionRefusal };

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
  if (ended === null) return { status: "rejected", error: "unknown_job" };
  if (!ended.holders.includes(key)) return { status: "rejected", error: "not_assigned" };
  const same =
    ended.status === "completed" &&
    ended.provider_pubkey === key &&
    ended.signature === (completion?.receipt?.signature ?? null) &&
    // Without a receipt the result itself has to be the same.
    (ended.signature !== null || ended.result === completion?.result);
  return same ? { status: "duplicate" } : { status: "rejected", error: "already_terminal" };
}

function fromJournal(journal: Journal, jobId: string): EndedFacts | null {
  const row = journal.row(jobId);
  return row === null ? null : EndedFacts.parse({ ...row, signature: storedReceipt(row)?.signature ?? null });
}
