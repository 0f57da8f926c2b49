import { TUNING } from "../../protocol/limits.ts";
import { hasUntriedWorker, indexWorker, isEligible, isIdle, isSilent, poolOf, poolsOf } from "./eligibility.ts";
import type { Turn } from "./events.ts";
import { lease } from "./lease.ts";
import { dequeue, ownPool } from "./queue.ts";
import { hold, owed } from "./settling.ts";
import type { DispatchState, JobFacts, LiveJob, Worker } from "./state.ts";

/** Gives a waiting job to the least recently used idle worker that has not tried it, if there is one [JB2, JB3]. */
export function offerJob(state: DispatchState, job: LiveJob, turn: Turn): void {
  if (!isOnOffer(job, turn)) return;
  const worker = findWorker(state, job, turn, (key) => !job.tried.has(key)) ?? findAfterSilence(state, job, turn);
  if (worker !== undefined) assign(state, job, worker, turn);
}

/** Gives a job that others have tried to anyone left, its own losers included when no other is connected [JB4]. For the tick only. */
export function offerAgain(state: DispatchState, job: LiveJob, turn: Turn): void {
  if (!isOnOffer(job, turn)) return;
  const untried = findWorker(state, job, turn, (key) => !job.tried.has(key));
  const worker = untried ?? (hasUntriedWorker(state, job) ? undefined : findWorker(state, job, turn, () => true));
  if (worker !== undefined) assign(state, job, worker, turn);
}

/** Gives a worker that is idle the first waiting job that it may take and has not tried [JB2]. */
export function offerWorker(state: DispatchState, worker: Worker, turn: Turn): void {
  if (!isIdle(worker) || isFoundSilent(state, worker, turn)) return;
  const untried = (id: string) => {
    const job = state.jobs.get(id);
    return job !== undefined && isOnOffer(job, turn) && !job.tried.has(worker.key) && isEligible(state, job, worker);
  };
  const pools = poolsOf(worker).flatMap((name) => [state.waiting[name], state.waitingFor.get(ownPool(worker.key, name))]);
  let best: { id: string; order: number; seq: number } | undefined;
  for (const pool of pools) {
    const first = pool?.firstWhere(untried);
    if (first === undefined) continue;
    if (best === undefined || first.order < best.order || (first.order === best.order && first.seq < best.seq)) best = first;
  }
  const job = best && state.jobs.get(best.id);
  if (job !== undefined) assign(state, job, worker, turn);
}

/** Whether a job waits and has time left: when the alarm is late, its end may come later in this very turn. */
function isOnOffer(job: LiveJob, turn: Turn): boolean {
  return job.phase.kind === "waiting" && job.totalDue > turn.now;
}

/** Looks again at workers that were found silent; those that have been heard since can be claimed. */
export function recheckSilent(state: DispatchState, turn: Turn): void {
  state.silentCheckedAt = turn.now;
  for (const key of [...state.silent]) {
    const worker = state.workers.get(key);
    if (worker === undefined || isSilent(worker, turn)) continue;
    worker.silent = false;
    indexWorker(state, worker);
    offerWorker(state, worker, turn);
  }
}

/** Whether a job that comes now would be given a worker at once. */
export function hasIdleWorker(state: DispatchState, job: JobFacts, turn: Turn): boolean {
  return findWorker(state, job, turn, () => true) !== undefined;
}

function findWorker(state: DispatchState, job: JobFacts, turn: Turn, accept: (key: string) => boolean): Worker | undefined {
  for (;;) {
    const worker = job.privacyClass === "PUBLIC" ? firstIdle(state, job, accept) : firstPaired(state, job, accept);
    // A silent worker leaves the idle pools, so the next look finds another.
    if (worker === undefined || !isFoundSilent(state, worker, turn)) return worker;
  }
}

function findAfterSilence(state: DispatchState, job: LiveJob, turn: Turn): Worker | undefined {
  // Once a second at most, so that a flood of jobs over many silent workers stays cheap.
  if (state.silent.size === 0 || turn.now - state.silentCheckedAt < TUNING.silentRechecked) return undefined;
  recheckSilent(state, turn);
  if (job.phase.kind !== "waiting") return undefined;
  return findWorker(state, job, turn, (key) => !job.tried.has(key));
}

function firstIdle(state: DispatchState, job: JobFacts, accept: (key: string) => boolean): Worker | undefined {
  const entry = state.idle[poolOf(job, state.rules)].firstWhere(accept);
  return entry && state.workers.get(entry.id);
}

function firstPaired(state: DispatchState, job: JobFacts, accept: (key: string) => boolean): Worker | undefined {
  let best: Worker | undefined;
  for (const key of job.trustedKeys) {
    const worker = state.workers.get(key);
    if (worker === undefined || !isIdle(worker) || !accept(key) || !isEligible(state, job, worker)) continue;
    if (best === undefined || worker.lastUsedAt < best.lastUsedAt || (worker.lastUsedAt === best.lastUsedAt && worker.seq < best.seq)) best = worker;
  }
  return best;
}

function isFoundSilent(state: DispatchState, worker: Worker, turn: Turn): boolean {
  if (!isSilent(worker, turn)) return false;
  worker.silent = true;
  indexWorker(state, worker);
  return true;
}

/** Selects and marks busy in one step: nothing awaits between choosing the worker and this. What is not paid yet is settled first [PY7]. */
function assign(state: DispatchState, job: LiveJob, worker: Worker, turn: Turn): void {
  dequeue(state, job);
  worker.jobId = job.id;
  worker.lastUsedAt = turn.now;
  indexWorker(state, worker);
  const payment = owed(state, job);
  if (payment === undefined) lease(state, job, worker, turn);
  else hold(state, job, worker, payment, turn);
}
