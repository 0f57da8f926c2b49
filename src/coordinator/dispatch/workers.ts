// Who may take which job, and the indexes over workers and waiting jobs. On a job's way: claim asks it.
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import type { ReduceContext } from "./events.ts";
import { type DispatchState, type JobFacts, type LiveJob, POOL_NAMES, type PoolName, type Rules, type Worker } from "./state.ts";
import { OrderedPool } from "./ordered-pool.ts";

/** Whether a tier may take FAST jobs [SPEC "Stake tiers"]. */
function isVerified(tier: Tier): boolean {
  return tier !== "Open";
}

/** The pool that a job belongs to: FAST needs a Verified worker where stake counts [ST1]. */
export function poolOf(job: Pick<JobFacts, "jobType" | "policy">, rules: Rules): PoolName {
  return rules.stake && job.policy === "FAST" ? `${job.jobType}+` : job.jobType;
}

/** The pools that a worker serves. */
export function poolsOf(worker: Pick<Worker, "capabilities" | "tier">): PoolName[] {
  const names = [...worker.capabilities];
  return isVerified(worker.tier) ? names.flatMap((name): PoolName[] => [name, `${name}+`]) : names;
}

/** What eligibility depends on: a job's facts, and once it has been tried, the context that it outgrew. */
export type Wanted = JobFacts & Partial<Pick<LiveJob, "outgrown">>;

/** Whether a worker could ever be given this job: capability, tier, context, and pairing for a PRIVATE one. */
export function isEligible(state: DispatchState, job: Wanted, worker: Worker): boolean {
  if (worker.draining || !poolsOf(worker).includes(poolOf(job, state.rules)) || !hasRoom(job, worker)) return false;
  return job.privacyClass === "PUBLIC" || job.trustedKeys.includes(worker.key);
}

/** Whether a worker's context is larger than every one that this job did not fit. */
function hasRoom({ outgrown }: Wanted, worker: Worker): boolean {
  return typeof outgrown !== "number" || worker.context > outgrown;
}

/** Whether some connected worker, busy or not, may take this job. Looks at every worker: not for the path of each claim. */
export function hasEligibleWorker(state: DispatchState, job: LiveJob): boolean {
  for (const worker of state.workers.values()) if (isEligible(state, job, worker)) return true;
  return false;
}

/** Whether some connected worker that is paired with the user could take this PRIVATE job, busy or not [JB8]. */
export function hasTrustedWorker(state: DispatchState, job: JobFacts): boolean {
  return job.trustedKeys.some((key) => {
    const worker = state.workers.get(key);
    return worker !== undefined && isEligible(state, job, worker);
  });
}

/** Whether an eligible worker is connected, not found silent, that has not tried this job: then those that have must stand back [JB4]. */
export function hasUntriedWorker(state: DispatchState, job: LiveJob): boolean {
  if (job.privacyClass === "PRIVATE") {
    return job.trustedKeys.some((key) => {
      const worker = state.workers.get(key);
      return worker !== undefined && !worker.silent && !job.tried.has(key) && isEligible(state, job, worker);
    });
  }
  const connected = state.connected[poolOf(job, state.rules)];
  if (job.outgrown !== null) {
    for (const key of connected) {
      const worker = state.workers.get(key);
      if (worker !== undefined && !job.tried.has(key) && isEligible(state, job, worker)) return true;
    }
    return false;
  }
  let tried = 0;
  for (const key of job.tried) if (connected.has(key)) tried++;
  return connected.size > tried;
}

/** Whether nothing but its arrival keeps a worker from being given a job now. */
export function isFree(worker: Worker): boolean {
  return worker.jobId === null && !worker.draining && !worker.resting && !worker.silent;
}

/** Whether a worker can be given a job now. */
export function isIdle(worker: Worker): boolean {
  return isFree(worker) && worker.arrivesAt === null;
}

/** Whether a worker has been silent for too long to be claimed [WS6]. */
export function isSilent(worker: Worker, turn: ReduceContext): boolean {
  return turn.now - turn.lastSeen(worker.conn) > TIMING.silentUnclaimable;
}

/** Brings the indexes over workers up to date with this one; call after every change of it. */
export function indexWorker(state: DispatchState, worker: Worker): void {
  const names = poolsOf(worker);
  const idle = isIdle(worker);
  for (const name of POOL_NAMES) {
    const serves = names.includes(name);
    if (serves && idle) state.idle[name].add(worker.key, worker.lastUsedAt, worker.seq);
    else state.idle[name].remove(worker.key);
    if (serves && !worker.draining && !worker.silent) state.connected[name].add(worker.key);
    else state.connected[name].delete(worker.key);
  }
  if (worker.arrivesAt === null) state.arriving.remove(worker.key);
  else state.arriving.add(worker.key, worker.arrivesAt, worker.seq);
  if (worker.resting) state.resting.add(worker.key);
  else state.resting.delete(worker.key);
  if (worker.silent) state.silent.add(worker.key);
  else state.silent.delete(worker.key);
}

/** Takes a worker out of the state and its indexes. */
export function removeWorker(state: DispatchState, worker: Worker): void {
  for (const name of POOL_NAMES) {
    state.idle[name].remove(worker.key);
    state.connected[name].delete(worker.key);
  }
  state.arriving.remove(worker.key);
  state.resting.delete(worker.key);
  state.silent.delete(worker.key);
  state.workers.delete(worker.key);
  state.keyByConn.delete(worker.conn);
}

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
