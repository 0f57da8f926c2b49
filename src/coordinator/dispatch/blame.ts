// What the end of an attempt says of its worker's key and network, and of the job itself [JB11, RC4]. On a job's way: at the end of each attempt.
import type { FailureCause } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { ReduceContext } from "./events.ts";
import { afterCompletion, afterFailure, endBackOff, startBackOff, standingOf } from "./standing.ts";
import type { DispatchState, KeyRecord, LiveJob, Worker } from "./state.ts";
import { hasUntriedProven, hasUntriedWorker, indexWorker } from "./workers.ts";

/** Causes of a lost attempt that say nothing against the worker. An invalid receipt is blamed with its strike. */
const BLAMELESS: readonly FailureCause[] = ["context_length_exceeded", "invalid_receipt"];

/** Counts a lost attempt against the worker that has the lease of this job, and against its network. PRIVATE jobs are exempt. */
export function blame(state: DispatchState, job: LiveJob, cause: FailureCause, ctx: ReduceContext): void {
  if (BLAMELESS.includes(cause) || job.privacyClass === "PRIVATE" || (job.phase.kind !== "leased" && job.phase.kind !== "orphaned")) return;
  const { key, network } = job.phase.lease;
  const worker = state.workers.get(key) ?? state.departed.get(key);
  if (worker !== undefined) keepRecord(state, worker, afterFailure(worker.record, ctx.now), ctx);
  if (network !== undefined) startBackOff(state, network, ctx.now);
}

/**
 * Counts a job that reaches its total deadline as a time-out of a worker that had it from the first attempt on, so for much longer than one may take. A proven
 * worker that sent text of an answer is slow, but nobody knows what the text of a worker on probation is worth: a character now and then would keep any job.
 */
export function blameOverstay(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  if (job.phase.kind !== "leased" || job.attempts > 1) return;
  const isSlow = job.jobType === "LLM_INFER" && job.streamed && state.workers.get(job.phase.lease.key)?.proven === true;
  if (!isSlow) blame(state, job, "execution_timeout", ctx);
}

/** Counts an invalid or foreign result against a worker, and against its network if it is on probation. `record` has the strike already [RC4]. */
export function blameStrike(state: DispatchState, worker: Worker, record: KeyRecord, ctx: ReduceContext): void {
  if (!worker.proven) startBackOff(state, worker.network, ctx.now);
  keepRecord(state, worker, afterFailure(record, ctx.now), ctx);
}

/** Counts a verified completion for a worker and its network, and takes one strike off [RC4]. */
export function praise(state: DispatchState, worker: Worker, job: LiveJob, ctx: ReduceContext): void {
  if (!worker.proven && job.privacyClass === "PUBLIC") endBackOff(state, worker.network);
  const record = afterCompletion(worker.record, job, worker.network);
  keepRecord(state, worker, record.strikes === 0 ? record : { ...record, strikes: record.strikes - 1 }, ctx);
}

/** Gives a worker its new record and saves it. Without a signature anyone could have used the key, so then only strikes are saved. */
function keepRecord(state: DispatchState, worker: Worker, record: KeyRecord, ctx: ReduceContext): void {
  const before = worker.record;
  if (record === before) return;
  worker.record = record;
  if (worker.authenticated || record.strikes !== before.strikes)
    ctx.rows.push({ type: "record", key: worker.key, authenticated: worker.authenticated, record: { ...record } });
  const proven = standingOf(record, worker.authenticated) === "proven";
  if (proven === worker.proven) return;
  worker.proven = proven;
  if (state.workers.get(worker.key) === worker) indexWorker(state, worker);
}

/**
 * Notes that a worker denied a job. Two denials of proven workers and two of others are kept, each pair from different networks: {@link isConfirmed} needs no
 * more.
 */
export function noteDenial(job: LiveJob, { key, network, proven }: Worker): void {
  noteTried(job, key);
  const alike = job.denials.filter((denial) => denial.proven === proven);
  if (alike.length < 2 && alike[0]?.network !== network) job.denials.push({ key, network, proven });
}

/**
 * Notes a worker that lost, failed or rejected a job. Any number of fresh keys may reject it, so of those that never started it the oldest is forgotten: it may
 * get the job again before the next tick. Those that used an attempt are few.
 */
export function noteTried(job: LiveJob, key: string): void {
  job.tried.delete(key);
  job.tried.add(key);
  if (job.tried.size <= LIMITS.keysPerJob) return;
  for (const other of job.tried) if (!job.holders.some((holder) => holder.key === other)) return void job.tried.delete(other);
}

/** True if the reports of the workers that denied this job are enough to end it. */
export function isDenied(state: DispatchState, job: LiveJob): boolean {
  // A context that one worker named does not make another worker ineligible here.
  const asked = { ...job, outgrown: null };
  if (!hasUntriedWorker(state, asked)) return true;
  return isConfirmed(job) && (!hasUntriedProven(state, asked) || isConfirmed(job, true));
}

/** True if two workers of different networks denied this job; with `byProven` one of the two was proven. */
export function isConfirmed({ denials }: LiveJob, byProven = false): boolean {
  return denials.some((one) => denials.some((other) => one.network !== other.network && (!byProven || one.proven || other.proven)));
}
