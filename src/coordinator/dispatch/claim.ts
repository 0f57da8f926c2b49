// Claims: matches waiting jobs with idle workers, in order, and leases a job to its worker. On a job's way: after store, claim → settle → assign.
import { TIMING } from "../../protocol/times.ts";
import { type ReduceContext, save } from "./events.ts";
import { owedPayment, settleFirst } from "./payment-moves.ts";
import { isBefore, type OrderedPool, type PoolName } from "./pools.ts";
import { beginWork, firstOnProbation, isForProbation } from "./standing.ts";
import { type DispatchState, executionTime, isFree, isIdle, type JobFacts, type Lease, type LiveJob, setTimer, type Worker } from "./state.ts";
import {
  dequeue,
  fitsContext,
  hasUntriedWorker,
  idleIn,
  idlePoolsOf,
  indexWorker,
  countsForNetwork,
  isEligible,
  isSilent,
  needsProven,
  ownersOf,
  queuedBytes,
  untriedJob,
  type Wanted,
} from "./workers.ts";

/** After a check of the silent workers, claims do not check them again for this many milliseconds. */
const SILENT_RECHECKED = 1_000;

/** Gives a waiting job to the idle worker whose turn it is and that has not tried it, if there is one [JB2, JB3, JB11]. */
export function matchJob(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  if (!isClaimable(job, ctx)) return;
  const untried = (key: string) => !job.tried.has(key);
  const worker = findWorker(state, job, ctx, untried) ?? findAfterSilence(state, job, ctx) ?? findArriving(state, job, ctx, untried);
  if (worker !== undefined) claim(state, job, worker, ctx);
}

/**
 * Gives a job that workers have tried already to a free worker that has not. If no such worker is connected, one that has tried it may try again [JB4].
 * Only the tick calls this.
 */
export function rematchJob(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  if (!isClaimable(job, ctx)) return;
  // A worker with a large enough context takes such a job as soon as it is free. So only workers that have tried the job are left for the tick, and
  // checking every idle worker for each such job would be slow.
  if (job.outgrown !== null && ![...job.tried].some((key) => mayTake(state, job, key))) return;
  const find = (accept: (key: string) => boolean) => findWorker(state, job, ctx, accept) ?? findArriving(state, job, ctx, accept);
  const worker = find((key) => !job.tried.has(key)) ?? (hasUntriedWorker(state, job) ? undefined : find(() => true));
  if (worker !== undefined) claim(state, job, worker, ctx);
}

/**
 * Gives an idle worker the first waiting job that it may take and has not tried. A worker that is still arriving gets only a job that would end before
 * the worker has arrived [JB2].
 */
export function matchWorker(state: DispatchState, worker: Worker, ctx: ReduceContext): void {
  if (!isFree(worker) || setAsideIfSilent(state, worker, ctx)) return;
  // Jobs behind this place in the queue came too late to end before the worker has arrived, because a claim window begins no earlier than its job.
  const last = worker.arrivesAt === null ? Infinity : worker.arrivesAt - TIMING.claimWindow + TIMING.cheapDelay;
  const fits = (id: string) => {
    const job = state.jobs.get(id);
    return (
      job !== undefined &&
      isClaimable(job, ctx) &&
      (worker.arrivesAt === null || endsBy(job, worker.arrivesAt)) &&
      !job.tried.has(worker.key) &&
      isEligible(state, job, worker)
    );
  };
  const pools = [
    ...state.waiting.among(worker.pools),
    ...retriedPools(state, worker),
    ...largerPools(state, worker),
    ...(state.waitingFor.get(worker.key)?.among(worker.pools) ?? []),
  ];
  let best: { id: string; order: number; seq: number } | undefined;
  for (const pool of pools) {
    const first = pool.firstWhere((id, order) => order > last || fits(id));
    if (first === undefined || first.order > last) continue;
    if (best === undefined || isBefore(first, best)) best = first;
  }
  const job = best && state.jobs.get(best.id);
  if (job !== undefined) claim(state, job, worker, ctx);
}

/**
 * The pools of the jobs that have lost an attempt. A worker on probation does not search those with a connected proven one: nearly every job there would
 * wait for the proven one. The few that proven workers have tried already are matched at the next tick [JB11].
 */
function retriedPools(state: DispatchState, worker: Worker): OrderedPool[] {
  return state.retried.among(worker.pools, (name) => worker.proven || state.proven.get(name) === undefined);
}

/** The pools of the jobs that did not fit a context smaller than this worker's. */
function largerPools(state: DispatchState, worker: Worker): OrderedPool[] {
  const pools = state.waitingLarger.among(worker.pools).flatMap((larger) => [...larger.values()]);
  return pools.filter((pool) => {
    // Its jobs want the same model, and did not fit the same context.
    const job = state.jobs.get(pool.first()?.id ?? "");
    return job !== undefined && fitsContext(job, worker);
  });
}

function mayTake(state: DispatchState, job: LiveJob, key: string): boolean {
  const worker = state.workers.get(key);
  return worker !== undefined && isFree(worker) && isEligible(state, job, worker);
}

/** True if a job waits and has time left. If the alarm is late, the job may end later in this event. */
function isClaimable(job: LiveJob, ctx: ReduceContext): boolean {
  return job.phase.kind === "waiting" && job.totalDue > ctx.now;
}

/** True if a waiting job will have ended by this time, because it found no worker. */
function endsBy(job: LiveJob, time: number): boolean {
  return job.phase.kind === "waiting" && Math.min(job.phase.claimDue, job.totalDue) <= time;
}

/** Makes those workers idle that registered long enough ago, and matches each with a waiting job [JB2]. */
export function admitArrived(state: DispatchState, ctx: ReduceContext): void {
  for (let first = state.arriving.first(); first !== undefined && first.order <= ctx.now; first = state.arriving.first()) {
    const worker = state.workers.get(first.id);
    if (worker === undefined) {
      state.arriving.remove(first.id);
      continue;
    }
    worker.arrivesAt = null;
    indexWorker(state, worker);
    matchWorker(state, worker, ctx);
  }
}

/** Checks the workers that were found silent. Those that have sent something since can be claimed again. */
export function recheckSilent(state: DispatchState, ctx: ReduceContext): void {
  state.silentCheckedAt = ctx.now;
  for (const key of [...state.silent]) {
    const worker = state.workers.get(key);
    if (worker === undefined || isSilent(worker, ctx)) continue;
    worker.silent = false;
    indexWorker(state, worker);
    matchWorker(state, worker, ctx);
  }
}

/** True if a job that comes now would get a worker at once. */
export function hasIdleWorker(state: DispatchState, job: JobFacts, ctx: ReduceContext): boolean {
  const find = () => findWorker(state, untriedJob(job), ctx, () => true);
  return find() !== undefined || (recheckSilentIfDue(state, ctx) && find() !== undefined);
}

/** True if a new job may come in: an idle worker may take it, or the queue has room [LM1]. */
export function hasRoomFor(state: DispatchState, job: JobFacts, payer: string | null, ctx: ReduceContext): boolean {
  return state.queue.hasRoom(ownersOf(state, job, payer), queuedBytes(job)) || hasIdleWorker(state, job, ctx);
}

function findWorker(state: DispatchState, job: Wanted, ctx: ReduceContext, accept: (key: string) => boolean): Worker | undefined {
  for (;;) {
    const worker = job.privacyClass === "PUBLIC" ? nextIdle(state, job, ctx, accept) : nextTrusted(state, job, accept);
    // A silent worker leaves the idle pools, so the next search finds another one.
    if (worker === undefined || !setAsideIfSilent(state, worker, ctx)) return worker;
  }
}

function findAfterSilence(state: DispatchState, job: LiveJob, ctx: ReduceContext): Worker | undefined {
  if (!recheckSilentIfDue(state, ctx)) return undefined;
  if (job.phase.kind !== "waiting") return undefined;
  return findWorker(state, job, ctx, (key) => !job.tried.has(key));
}

/** Checks the workers that were found silent; false if there are none. At most once a second, so that many jobs stay cheap while many workers are silent. */
function recheckSilentIfDue(state: DispatchState, ctx: ReduceContext): boolean {
  if (state.silent.size === 0 || ctx.now - state.silentCheckedAt < SILENT_RECHECKED) return false;
  recheckSilent(state, ctx);
  return true;
}

/** Finds a worker that has only just registered, for a job that cannot wait until the worker has arrived [JB2]. */
function findArriving(state: DispatchState, job: LiveJob, ctx: ReduceContext, accept: (key: string) => boolean): Worker | undefined {
  if (!endsBy(job, ctx.now + TIMING.arrival)) return undefined;
  const onlyProven = needsProven(state, job);
  let best: Worker | undefined;
  for (const key of state.arriving.ids()) {
    const worker = state.workers.get(key);
    if (worker === undefined || worker.arrivesAt === null || !isFree(worker) || !endsBy(job, worker.arrivesAt)) continue;
    if ((onlyProven && !worker.proven) || !accept(key) || !isEligible(state, job, worker) || setAsideIfSilent(state, worker, ctx)) continue;
    if (best === undefined || isUsedBefore(worker, best)) best = worker;
  }
  return best;
}

function isUsedBefore(a: Worker, b: Worker): boolean {
  return a.lastUsedAt < b.lastUsedAt || (a.lastUsedAt === b.lastUsedAt && a.seq < b.seq);
}

/**
 * The idle worker whose turn it is for a PUBLIC job: a proven one, and for one job in five a worker on probation, so that newcomers can prove themselves.
 * Without an idle proven worker, probation makes no difference, except to a job that has lost an attempt [JB11].
 */
function nextIdle(state: DispatchState, job: Wanted, ctx: ReduceContext, accept: (key: string) => boolean): Worker | undefined {
  const names = idlePoolsOf(job, state.settings);
  const isAccepted = (key: string) => {
    const worker = state.workers.get(key);
    return worker !== undefined && accept(key) && isEligible(state, job, worker);
  };
  const fits = job.outgrown !== null ? isAccepted : accept;
  const firstOf = (find: (name: PoolName) => string | undefined) => names.map(find).find((key) => key !== undefined);
  const proven = firstOf((name) => idleIn(state, name)?.firstWhere(fits)?.id);
  const isProvenTurn = proven !== undefined && !isForProbation(job.id);
  const probationer =
    isProvenTurn || needsProven(state, job) ? undefined : firstOf((name) => firstOnProbation(state, name, fits, proven === undefined ? null : ctx));
  return state.workers.get(probationer ?? proven ?? "");
}

/** The idle worker whose turn it is for a PRIVATE job: for a chat one that applies its messages, if there is one [JB12]. */
function nextTrusted(state: DispatchState, job: Wanted, accept: (key: string) => boolean): Worker | undefined {
  let best: Worker | undefined;
  for (const key of job.trustedKeys) {
    const worker = state.workers.get(key);
    if (worker === undefined || !isIdle(worker) || !accept(key) || !isEligible(state, job, worker)) continue;
    if (best === undefined || isBetter(job, worker, best)) best = worker;
  }
  return best;
}

function isBetter({ isChat }: Wanted, one: Worker, other: Worker): boolean {
  return isChat === true && one.chats !== other.chats ? one.chats : isUsedBefore(one, other);
}

/** Takes a worker that is silent out of the idle pools; true if it is silent. */
function setAsideIfSilent(state: DispatchState, worker: Worker, ctx: ReduceContext): boolean {
  if (!isSilent(worker, ctx)) return false;
  worker.silent = true;
  indexWorker(state, worker);
  return true;
}

/** Claims the chosen worker: marks it busy. Nothing is awaited after the choice, so no other job can get the worker. An unpaid job is settled first [PY7]. */
function claim(state: DispatchState, job: LiveJob, worker: Worker, ctx: ReduceContext): void {
  dequeue(state, job);
  worker.jobId = job.id;
  worker.lastUsedAt = ctx.now;
  indexWorker(state, worker);
  const payment = owedPayment(state, job);
  if (payment === undefined) lease(state, job, worker, ctx);
  else settleFirst(state, job, worker, payment, ctx);
}

/** Leases a job to the worker that was chosen for it, and sends the assignment. */
export function lease(state: DispatchState, job: LiveJob, worker: Worker, ctx: ReduceContext): void {
  job.attempts++;
  const granted: Lease = { key: worker.key, attempt: job.attempts, acked: false };
  if (countsForNetwork(job, worker)) {
    granted.network = worker.network;
    beginWork(state, worker.network, worker.key, ctx.now);
  }
  job.holders.push(granted);
  if (!worker.acks) {
    job.started = true;
    granted.begun = true;
  }
  const ackDue = worker.acks ? ctx.now + TIMING.ack : null;
  job.phase = { kind: "leased", lease: granted, connId: worker.connId, ackDue, executeDue: ctx.now + executionTime(job) };
  state.leases.set(worker.key, job.id);
  setTimer(state, job);
  save(job, ctx);
  ctx.sends.push({ type: "assign", connId: worker.connId, jobId: job.id, attempt: job.attempts, deadline: job.totalDue });
}
