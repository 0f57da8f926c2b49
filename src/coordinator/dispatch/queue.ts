import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { poolOf } from "./eligibility.ts";
import { OrderedPool } from "./ordered-pool.ts";
import type { DispatchState, JobFacts, LiveJob, PoolName } from "./state.ts";

/** A job's place in the queue, smallest first: CHEAP stands behind FAST by a fixed time, so it never starves [JB3]. */
export function orderOf(job: LiveJob): number {
  return job.policy === "FAST" ? job.createdAt : job.createdAt + TIMING.cheapDelay;
}

/** Whether so much waits that this job would be too much [LM1]. */
export function isFull(state: DispatchState, job: JobFacts): boolean {
  return (
    state.queued >= LIMITS.queuedJobs ||
    (state.queuedByUser.get(job.userId) ?? 0) >= LIMITS.queuedJobsPerUser ||
    state.queuedBytes + job.payloadBytes > LIMITS.queuedPayloadBytes
  );
}

/** Adds a waiting PUBLIC job to its pool, or takes it out: that of all workers, or that of the workers with a larger context. */
function inPool(state: DispatchState, job: LiveJob, waits: boolean): void {
  const name = poolOf(job, state.rules);
  const { outgrown } = job;
  const larger = state.waitingLarger[name];
  const pool = outgrown === null ? state.waiting[name] : (larger.get(outgrown) ?? new OrderedPool());
  if (waits) pool.add(job.id, orderOf(job), job.seq);
  else pool.remove(job.id);
  if (outgrown === null) return;
  if (pool.size > 0) larger.set(outgrown, pool);
  else larger.delete(outgrown);
}

/** Puts a waiting job into the indexes. */
export function enqueue(state: DispatchState, job: LiveJob): void {
  if (job.privacyClass === "PUBLIC") inPool(state, job, true);
  else for (const key of job.trustedKeys) waitingFor(state, ownPool(key, poolOf(job, state.rules))).add(job.id, orderOf(job), job.seq);
  if (job.tried.size > 0) state.retrying.add(job.id);
  state.queued++;
  state.queuedBytes += job.payloadBytes;
  state.queuedByUser.set(job.userId, (state.queuedByUser.get(job.userId) ?? 0) + 1);
}

/** Takes a job that waited out of the indexes. */
export function dequeue(state: DispatchState, job: LiveJob): void {
  if (job.privacyClass === "PUBLIC") inPool(state, job, false);
  else {
    for (const key of job.trustedKeys) {
      const name = ownPool(key, poolOf(job, state.rules));
      const pool = state.waitingFor.get(name);
      pool?.remove(job.id);
      if (pool?.size === 0) state.waitingFor.delete(name);
    }
  }
  state.retrying.delete(job.id);
  state.queued--;
  state.queuedBytes -= job.payloadBytes;
  const left = (state.queuedByUser.get(job.userId) ?? 1) - 1;
  if (left === 0) state.queuedByUser.delete(job.userId);
  else state.queuedByUser.set(job.userId, left);
}

/** Name of the pool of PRIVATE jobs that wait for this key and match this pool. */
export function ownPool(key: string, name: PoolName): string {
  return `${name} ${key}`;
}

function waitingFor(state: DispatchState, name: string): OrderedPool {
  let pool = state.waitingFor.get(name);
  if (pool === undefined) state.waitingFor.set(name, (pool = new OrderedPool()));
  return pool;
}
