// What a job counts for the key of its worker, and for the network of that key [JB11, RC4]. On a job's way: at the end of each attempt.
import type { FailureCause } from "../../protocol/job.ts";
import type { ReduceContext } from "./events.ts";
import { afterCompletion, afterFailure, endBackOff, startBackOff, standingOf } from "./standing.ts";
import type { DispatchState, KeyRecord, LiveJob, Worker } from "./state.ts";
import { indexWorker } from "./workers.ts";

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
