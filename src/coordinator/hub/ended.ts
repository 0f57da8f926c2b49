import * as z from "zod";
import type { CompletionRefusal } from "../../protocol/worker-messages.ts";
import { withDeadline } from "../store/d1.ts";
import { jobJson } from "../store/job-view.ts";
import type { CheckedCompletion } from "./completion-check.ts";
import { type Journal, type JournalRow, receiptOf } from "./journal.ts";

/** JSON text of the Job of a stored row. */
export function endedJob(row: JournalRow): string {
  const stored = receiptOf(row);
  if (stored === null)
    return jobJson({ id: row.id, status: row.status, result: row.result, receipt: null, createdAt: row.created_at, completedAt: row.completed_at });
  const { verified: _, ...receipt } = stored;
  return jobJson({ id: row.id, status: row.status, result: row.result, receipt, createdAt: row.created_at, completedAt: row.completed_at });
}

type Answer = { status: "duplicate" } | { status: "rejected"; error: CompletionRefusal };

/** What is needed of a job that has ended to answer a result that comes after. */
const Ended = z.object({
  status: z.string(),
  provider_pubkey: z.string().nullable(),
  holders: z.string().transform((text) => z.array(z.string()).parse(JSON.parse(text))),
  signature: z.string().nullable(),
  result: z.string().nullable(),
});

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
  const ended = fromJournal(journal, jobId) ?? (await fromD1(db, jobId));
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

/** The result of a job that D1 has, null where it has none yet; undefined when D1 does not know the job. @throws {StoreUnavailable} */
export async function recordedResult(db: D1Database, jobId: string): Promise<string | null | undefined> {
  const row = await withDeadline(db.prepare("SELECT result FROM jobs WHERE id = ?").bind(jobId).first());
  return row === null ? undefined : Ended.shape.result.parse(row.result);
}

function fromJournal(journal: Journal, jobId: string): z.infer<typeof Ended> | null {
  const row = journal.row(jobId);
  return row === null ? null : Ended.parse({ ...row, signature: receiptOf(row)?.signature ?? null });
}

async function fromD1(db: D1Database, jobId: string): Promise<z.infer<typeof Ended> | null> {
  const query = "SELECT j.status, j.provider_pubkey, j.holders, j.result, r.signature FROM jobs j LEFT JOIN receipts r ON r.job_id = j.id WHERE j.id = ?";
  const row = await withDeadline(db.prepare(query).bind(jobId).first());
  return row === null ? null : Ended.parse(row);
}
