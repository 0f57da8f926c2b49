import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import * as z from "zod";
import { FailureCause, type Job, type JobStatus, type Receipt } from "../../protocol/job.ts";
import { isoTime, readJson } from "../../protocol/text.ts";
import { readD1 } from "./database.ts";
import { jobs, receipts } from "./schema.ts";

/** The recorded job with its receipt and the number of its attempts, or null. @throws {StoreUnavailable} */
export async function findJob(db: D1Database, id: string): Promise<(JobRow & { attempt: number }) | null> {
  const query = drizzle(db)
    .select({
      id: jobs.id,
      status: jobs.status,
      attempt: jobs.attempt,
      result: jobs.result,
      createdAt: jobs.createdAt,
      completedAt: jobs.completedAt,
      receipt: receipts,
    })
    .from(jobs)
    .leftJoin(receipts, eq(receipts.jobId, jobs.id))
    .where(eq(jobs.id, id));
  const [row] = await readD1(db, () => query);
  return row === undefined ? null : { ...row, receipt: row.receipt === null ? null : restReceipt(row.receipt) };
}

/** A stored receipt as REST returns it: without the verified flag. */
function restReceipt(row: typeof receipts.$inferSelect): Receipt {
  return {
    job_id: row.signedJobId,
    provider_pubkey: row.providerPubkey,
    output_hash: row.outputHash,
    completed_at: row.completedAt,
    payment_ref: row.paymentRef,
    signature: row.signature,
  };
}

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

/** What is needed of a job that has ended to answer a result that comes after. */
export const EndedFacts = z.object({
  status: z.string(),
  provider_pubkey: z.string().nullable(),
  holders: z.string().transform((text) => z.array(z.string()).parse(JSON.parse(text))),
  signature: z.string().nullable(),
  result: z.string().nullable(),
});
export type EndedFacts = z.infer<typeof EndedFacts>;

/** These facts of a job as D1 has them; null for a job that D1 does not know. @throws {StoreUnavailable} */
export async function findEnded(db: D1Database, jobId: string): Promise<EndedFacts | null> {
  const query = "SELECT j.status, j.provider_pubkey, j.holders, j.result, r.signature FROM jobs j LEFT JOIN receipts r ON r.job_id = j.id WHERE j.id = ?";
  const row = await readD1(db, () => db.prepare(query).bind(jobId).first());
  return row === null ? null : EndedFacts.parse(row);
}

/** What the hub stores as the result of a failed job. */
const Failure = z.object({ error: FailureCause });

const StoredResult = EndedFacts.pick({ status: true, result: true });
/** What of a stored row says how its job ended; `result` is JSON text, null before the end. */
export type StoredResult = z.infer<typeof StoredResult>;

/**
 * True for a job that was refused at commit because no trusted worker was connected [JB8]. Only the hub writes the result of a failed job;
 * the result of a completed job is a worker's and may hold any text, so it is not read.
 */
export function wasRefused({ status, result }: StoredResult): boolean {
  if (status !== "failed" || result === null) return false;
  const json = readJson(result);
  return json.ok && Failure.safeParse(json.value).data?.error === "no_trusted_worker";
}

/** Status and result of a job as D1 has them; null for a job that D1 does not know. @throws {StoreUnavailable} */
export async function findResult(db: D1Database, jobId: string): Promise<StoredResult | null> {
  const row = await readD1(db, () => db.prepare("SELECT status, result FROM jobs WHERE id = ?").bind(jobId).first());
  return row === null ? null : StoredResult.parse(row);
}
