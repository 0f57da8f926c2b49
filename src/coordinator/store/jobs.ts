import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Receipt } from "../../protocol/receipt.ts";
import { readD1 } from "./database.ts";
import type { JobRow } from "./job-view.ts";
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
