import type { Job, JobStatus } from "../../protocol/job.ts";
import type { Receipt } from "../../protocol/receipt.ts";
import { isoTime } from "../../protocol/text.ts";

/** What a job's answer is made of. `result` is JSON text; times in ms since the epoch. */
export type JobRow = {
  id: string;
  status: JobStatus;
  result: string | null;
  receipt: Receipt | null;
  createdAt: number;
  completedAt: number | null;
};

/**
 * JSON text of a Job as REST returns it [SPEC].
 * `result` is spliced in as the text that was stored: reading and writing 1 MiB again would cost time and could change bytes that a receipt covers.
 */
export function jobJson(row: JobRow): string {
  const head = JSON.stringify({ id: row.id, status: row.status } satisfies Partial<Job>).slice(0, -1);
  const tail = JSON.stringify({
    receipt: row.receipt,
    created_at: isoTime(row.createdAt),
    completed_at: row.completedAt === null ? null : isoTime(row.completedAt),
  } satisfies Partial<Job>).slice(1);
  return `${head},"result":${row.result ?? "null"},${tail}`;
}
