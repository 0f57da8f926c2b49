// Retention: deletes old jobs, results, pairing codes and payments from D1. The cron runs it, after the last step of a job's way.
import { and, eq, inArray, isNotNull, isNull, lte, notExists } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Settings } from "../config.ts";
import { TUNING } from "../tuning.ts";
import { writeD1 } from "./database.ts";
import { jobs, pairings, payments, receipts, users } from "./schema.ts";

/** The number of rows that it changed, per kind. */
type RetentionCount = { emptied: number; jobs: number; codes: number; pairings: number; users: number; payments: number };

/**
 * Deletes what is older than the settings allow [LM3]. Times are in ms.
 * - `retention.result` after the end of the job: payload and result; the receipt stays.
 * - `retention.job` after the end of the job: job, receipt and finished payment.
 * - `retention.expiredCode` after they expired: unclaimed pairing codes.
 * - `retention.pairing` after they were last used: pairings and users.
 * @throws {StoreUnavailable} if D1 fails or is late
 */
export async function applyRetention(db: D1Database, settings: Pick<Settings, "retention">, now: number): Promise<RetentionCount> {
  const orm = drizzle(db);
  const { retention } = settings;
  // How many rows a statement has changed in all: each time it changes only so many.
  const changed = (statement: () => PromiseLike<D1Result>) => inBatches(async () => (await writeD1(db, statement)).meta.changes);

  const oldJobs = orm
    .select({ id: jobs.id })
    .from(jobs)
    .where(lte(jobs.endedAt, now - retention.job))
    .orderBy(jobs.endedAt, jobs.id)
    .limit(TUNING.retentionRows);
  const oldResults = orm
    .select({ id: jobs.id })
    .from(jobs)
    // Payload and result are erased together, so a job that still has its payload has both.
    .where(and(lte(jobs.endedAt, now - retention.result), isNotNull(jobs.payload)))
    .limit(TUNING.retentionRows);
  const expiredCodes = orm
    .select({ id: pairings.id })
    .from(pairings)
    .where(and(eq(pairings.claimed, false), lte(pairings.expiresAt, now - retention.expiredCode)))
    .limit(TUNING.retentionRows);
  const unusedSince = now - retention.pairing;
  const unusedPairings = orm
    .select({ id: pairings.id })
    .from(pairings)
    .where(and(eq(pairings.claimed, true), lte(pairings.usedAt, unusedSince), lte(pairings.pairedAt, unusedSince)))
    .limit(TUNING.retentionRows);
  // The user of a pairing or an open code stays, and with it the token that protects them [TR2].
  const ofUser = orm.select({ id: pairings.id }).from(pairings).where(eq(pairings.userId, users.userId));
  const unusedUsers = orm
    .select({ userId: users.userId })
    .from(users)
    .where(and(lte(users.usedAt, unusedSince), lte(users.createdAt, unusedSince), notExists(ofUser)))
    .limit(TUNING.retentionRows);
  // Only these two states are final: a credit is still owed, and the others are not settled yet.
  const oldPayments = orm
    .select({ key: payments.key })
    .from(payments)
    .where(and(inArray(payments.state, ["spent", "void"]), isNull(payments.balance), lte(payments.updatedAt, now - retention.job)))
    .limit(TUNING.retentionRows);

  // One after the other, in this order.
  return {
    jobs: await inBatches(async () => {
      // One transaction, so both statements delete the same jobs.
      const [, deleted] = await writeD1(db, () =>
        orm.batch([orm.delete(receipts).where(inArray(receipts.jobId, oldJobs)), orm.delete(jobs).where(inArray(jobs.id, oldJobs))]),
      );
      return deleted.meta.changes;
    }),
    emptied: await changed(() => orm.update(jobs).set({ payload: null, result: null }).where(inArray(jobs.id, oldResults))),
    codes: await changed(() => orm.delete(pairings).where(inArray(pairings.id, expiredCodes))),
    pairings: await changed(() => orm.delete(pairings).where(inArray(pairings.id, unusedPairings))),
    users: await changed(() => orm.delete(users).where(inArray(users.userId, unusedUsers))),
    payments: await changed(() => orm.delete(payments).where(inArray(payments.key, oldPayments))),
  };
}

/** Runs `batch` until one changes fewer rows than it may, or the limit of batches is reached. Returns the sum of changed rows. */
async function inBatches(batch: () => Promise<number>): Promise<number> {
  let sum = 0;
  for (let i = 0; i < TUNING.retentionBatches; i++) {
    const changed = await batch();
    sum += changed;
    if (changed < TUNING.retentionRows) break;
  }
  return sum;
}
