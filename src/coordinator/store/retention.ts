import { and, eq, inArray, isNotNull, lte } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Settings } from "../config.ts";
import { writeD1 } from "./database.ts";
import { jobs, pairings, payments, receipts } from "./schema.ts";
import { TUNING } from "../tuning.ts";

/** How many rows a sweep changed. */
export type SweepCount = { emptied: number; jobs: number; codes: number; payments: number };

/**
 * Forgets what is past its time [LM3]: payload and result `retention.result` after a job's end (the receipt stays), job and receipt
 * `retention.job` after it, pairing codes nobody claimed `retention.expiredCode` after they expired. Times in ms. @throws {StoreUnavailable}
 */
export async function sweep(db: D1Database, settings: Pick<Settings, "retention">, now: number): Promise<SweepCount> {
  const orm = drizzle(db);
  const { retention } = settings;

  const spent = orm
    .select({ id: jobs.id })
    .from(jobs)
    .where(lte(jobs.endedAt, now - retention.job))
    .orderBy(jobs.endedAt, jobs.id)
    .limit(TUNING.sweptRows);
  const forgotten = await inBatches(async () => {
    // One transaction, so both statements see the same rows.
    const [, deleted] = await writeD1(db, () =>
      orm.batch([orm.delete(receipts).where(inArray(receipts.jobId, spent)), orm.delete(jobs).where(inArray(jobs.id, spent))]),
    );
    return deleted.meta.changes;
  });

  const full = orm
    .select({ id: jobs.id })
    .from(jobs)
    // Both are emptied together, so a payload says that there is a result to empty too.
    .where(and(lte(jobs.endedAt, now - retention.result), isNotNull(jobs.payload)))
    .limit(TUNING.sweptRows);
  const emptied = await inBatches(async () => {
    const { meta } = await writeD1(db, () => orm.update(jobs).set({ payload: null, result: null }).where(inArray(jobs.id, full)));
    return meta.changes;
  });

  const dead = orm
    .select({ id: pairings.id })
    .from(pairings)
    .where(and(eq(pairings.claimed, false), lte(pairings.expiresAt, now - retention.expiredCode)))
    .limit(TUNING.sweptRows);
  const codes = await inBatches(async () => {
    const { meta } = await writeD1(db, () => orm.delete(pairings).where(inArray(pairings.id, dead)));
    return meta.changes;
  });

  // Credits are owed, and what is not settled yet is not over.
  const done = orm
    .select({ key: payments.key })
    .from(payments)
    .where(and(inArray(payments.state, ["spent", "void"]), lte(payments.updatedAt, now - retention.job)))
    .limit(TUNING.sweptRows);
  const paid = await inBatches(async () => {
    const { meta } = await writeD1(db, () => orm.delete(payments).where(inArray(payments.key, done)));
    return meta.changes;
  });
  return { emptied, jobs: forgotten, codes, payments: paid };
}

/** Runs `batch` until one is not full, a bounded number of times; the sum of what they changed. */
async function inBatches(batch: () => Promise<number>): Promise<number> {
  let sum = 0;
  for (let i = 0; i < TUNING.sweptBatches; i++) {
    const changed = await batch();
    sum += changed;
    if (changed < TUNING.sweptRows) break;
  }
  return sum;
}
