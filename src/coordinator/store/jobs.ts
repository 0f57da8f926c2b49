// Reads jobs from D1, for polls, for late results and for the list of a user: the end of a job's way, when the hub no longer has them.
import { and, desc, eq, gte, inArray, lt, lte, or } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import * as z from "zod";
import { FailureCause, type Job, type Receipt } from "../../protocol/job.ts";
import { readAs } from "../../protocol/json.ts";
import { isoTime, isTerminal, utf8Length } from "../../protocol/text.ts";
import type { FoundJob, JobRow, PageRequest, UserJob } from "../hub/rpc.ts";
import { readD1 } from "./database.ts";
import { jobs, receipts } from "./schema.ts";

/** Returns a job; null if D1 does not have it. @throws {StoreUnavailable} */
export async function findJob(db: D1Database, id: string): Promise<FoundJob | null> {
  return (await findJobs(db, [id]))[0] ?? null;
}

/** Returns those of these jobs that D1 has. @throws {StoreUnavailable} */
export async function findJobs(db: D1Database, ids: readonly string[]): Promise<FoundJob[]> {
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
    .where(inArray(jobs.id, [...ids]));
  const rows = await readD1(db, () => query);
  return rows.map((row) => ({ ...row, receipt: row.receipt === null ? null : restReceipt(row.receipt) }));
}

/** Returns a stored receipt as REST shows it, without the `verified` flag. */
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

/**
 * Returns the JSON text of a Job as REST shows it [SPEC]. `result` is inserted as the stored text: to parse and write 1 MiB again would take time
 * and could change bytes that the receipt covers.
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

/** The facts of an ended job that the answer to a late result needs. */
export const EndedFacts = z.object({
  status: z.string(),
  provider_pubkey: z.string().nullable(),
  holders: z.string().transform((text) => z.array(z.string()).parse(JSON.parse(text))),
  signature: z.string().nullable(),
});
export type EndedFacts = z.infer<typeof EndedFacts>;

/** Returns these facts from D1; null if D1 does not have the job. @throws {StoreUnavailable} */
export async function findEnded(db: D1Database, jobId: string): Promise<EndedFacts | null> {
  const query = "SELECT j.status, j.provider_pubkey, j.holders, r.signature FROM jobs j LEFT JOIN receipts r ON r.job_id = j.id WHERE j.id = ?";
  const row = await readD1(db, () => db.prepare(query).bind(jobId).first());
  return row === null ? null : EndedFacts.parse(row);
}

/**
 * True if D1 has this text as the result of the job. One of another length is not read: a frame of a few bytes must not cost D1 a megabyte.
 * @throws {StoreUnavailable}
 */
export async function hasResult(db: D1Database, jobId: string, result: string): Promise<boolean> {
  const query = "SELECT result FROM jobs WHERE id = ? AND octet_length(result) = ?";
  return (await readD1(db, () => db.prepare(query).bind(jobId, utf8Length(result)).first("result"))) === result;
}

/** What the hub stores as the result of a failed job. */
const Failure = z.object({ error: FailureCause });

const StoredResult = z.object({ status: z.string(), result: z.string().nullable() });
/** Status and result of a stored job. `result` is JSON text, null before the end. */
export type StoredResult = z.infer<typeof StoredResult>;

/**
 * True if the job was refused at commit because no trusted worker was connected [JB8]. Only the hub writes the result of a failed job. The result of
 * a completed job comes from a worker and may contain any text, so it is not read.
 */
export function wasRefused(row: StoredResult): boolean {
  return row.status === "failed" && outcomeOf(row) === "no_trusted_worker";
}

/** How a job has ended: `completed`, or the error; `failed` if that cannot be read. */
export function outcomeOf({ status, result }: StoredResult): string {
  return status === "failed" ? (readAs(Failure, result)?.error ?? status) : status;
}

/** Returns status and result of a job from D1; null if D1 does not have it. @throws {StoreUnavailable} */
export async function findResult(db: D1Database, jobId: string): Promise<StoredResult | null> {
  const row = await readD1(db, () => db.prepare("SELECT status, result FROM jobs WHERE id = ?").bind(jobId).first());
  return row === null ? null : StoredResult.parse(row);
}

/** Selects a page of some jobs of one user, newest first. */
export function pageOf(all: readonly UserJob[], { before, since = 0, limit }: PageRequest): UserJob[] {
  const isOlder = ({ createdAt, id }: UserJob): boolean => before === null || createdAt < before.at || (createdAt === before.at && id < before.id);
  return all
    .filter((job) => job.createdAt >= since && isOlder(job))
    .toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
    .slice(0, limit);
}

/** Joins two lists: the hub was asked first, D1 after it. For a job that both have, D1 counts if it has the end; otherwise the hub counts. */
export function joined(ofHub: readonly UserJob[], ofD1: readonly UserJob[]): UserJob[] {
  const byId = new Map(ofD1.map((job) => [job.id, job]));
  for (const job of ofHub) if (!isTerminal(byId.get(job.id)?.status ?? "pending")) byId.set(job.id, job);
  return [...byId.values()];
}

/** Returns a page of the jobs of a user that D1 has. @throws {StoreUnavailable} */
export async function findUserJobs(db: D1Database, userId: string, { before, since = 0, limit }: PageRequest): Promise<UserJob[]> {
  const isOlder = before === null ? undefined : and(lte(jobs.createdAt, before.at), or(lt(jobs.createdAt, before.at), lt(jobs.id, before.id)));
  const query = drizzle(db)
    .select({ id: jobs.id, jobType: jobs.jobType, status: jobs.status, createdAt: jobs.createdAt, completedAt: jobs.completedAt })
    .from(jobs)
    .where(and(eq(jobs.userId, userId), gte(jobs.createdAt, since), isOlder))
    .orderBy(desc(jobs.createdAt), desc(jobs.id))
    .limit(limit);
  return readD1(db, () => query);
}
