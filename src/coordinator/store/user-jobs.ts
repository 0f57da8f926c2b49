// The jobs of one user, as the list of `GET /v1/jobs` has them: from the hub, which has those that live, and from D1 [JB14]. After a job's way.
import { and, desc, eq, lt, lte, or } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { isTerminal } from "../../protocol/text.ts";
import type { Part, UserJob } from "../hub/rpc.ts";
import { readD1 } from "./database.ts";
import { jobs } from "./schema.ts";

/** Selects a part of some jobs of one user, newest first. */
export function partOf(all: readonly UserJob[], { before, limit }: Part): UserJob[] {
  const isOlder = ({ createdAt, id }: UserJob): boolean => before === null || createdAt < before.at || (createdAt === before.at && id < before.id);
  return all
    .filter(isOlder)
    .toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
    .slice(0, limit);
}

/** Joins what the hub said first, and D1 after it. A job that both have has ended, if D1 says so; otherwise the hub knows better. */
export function joined(ofHub: readonly UserJob[], ofD1: readonly UserJob[]): UserJob[] {
  const byId = new Map(ofD1.map((job) => [job.id, job]));
  for (const job of ofHub) if (!isTerminal(byId.get(job.id)?.status ?? "pending")) byId.set(job.id, job);
  return [...byId.values()];
}

/** Returns a part of the jobs of a user that D1 has. @throws {StoreUnavailable} */
export async function findUserJobs(db: D1Database, userId: string, { before, limit }: Part): Promise<UserJob[]> {
  const isOlder = before === null ? undefined : and(lte(jobs.createdAt, before.at), or(lt(jobs.createdAt, before.at), lt(jobs.id, before.id)));
  const query = drizzle(db)
    .select({ id: jobs.id, jobType: jobs.jobType, status: jobs.status, createdAt: jobs.createdAt, completedAt: jobs.completedAt })
    .from(jobs)
    .where(and(eq(jobs.userId, userId), isOlder))
    .orderBy(desc(jobs.createdAt), desc(jobs.id))
    .limit(limit);
  return readD1(db, () => query);
}
