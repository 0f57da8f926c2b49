// How a job waits, loses its worker and ends, and what its worker does then. On a job's way: everything after a claim, except the result itself.
import type { FailureCause } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { CLOSE } from "../../protocol/worker-messages.ts";
import { blame, isConfirmed, isDenied, noteDenial, noteTried } from "./blame.ts";
import { matchJob, matchWorker } from "./claim.ts";
import { type Outcome, type ReduceContext, save } from "./events.ts";
import { closePaymentOf, owedPayment } from "./payment-moves.ts";
import { endWork, mayDiffer, startBackOff } from "./standing.ts";
import { type DispatchState, type JobFacts, type Lease, type LiveJob, setTimer, type Worker } from "./state.ts";
import { contextFor, dequeue, enqueue, hasEligibleWorker, hasUntriedProven, indexWorker, removeWorker } from "./workers.ts";

/** Causes of an end that count as a failure of the worker. After several in a row it rests. */
const TIRING: readonly FailureCause[] = ["worker_error", "context_length_exceeded", "content_refused", "output_too_large"];

/** Releases the worker that was claimed for a settling job; the job goes on settling without it. */
export function releaseWorker(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  if (job.phase.kind !== "settling" || job.phase.claimed === null) return;
  const { key, connId, network } = job.phase.claimed;
  endWork(state, network, key);
  job.phase = { ...job.phase, claimed: null };
  setTimer(state, job);
  const worker = state.workers.get(key);
  if (worker === undefined || worker.connId !== connId || worker.jobId !== job.id) return;
  worker.jobId = null;
  indexWorker(state, worker);
  leaveIfDrained(state, worker, ctx);
  matchWorker(state, worker, ctx);
}

/** Ends the claim of a worker whose job is not settled yet: the job goes on without it [PY7]. */
export function endClaim(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  const payment = owedPayment(state, job);
  releaseWorker(state, job, ctx);
  if (payment === undefined) return;
  // The settlement has not begun, so no money has moved and the job waits like any other.
  state.ledger.settleQueue.delete(payment.key);
  const isOver = job.windowDue <= ctx.now;
  // Another worker may be idle: it takes the job at once, or the job ends.
  wait(state, job, job.windowDue, ctx);
  if (isOver && job.phase.kind === "waiting") finish(state, job, failure("no_eligible_worker"), null, ctx);
}

/** Adds a new or restored job to the state. */
export function addJob(state: DispatchState, job: LiveJob): void {
  state.jobs.set(job.id, job);
  if (job.privacyClass === "PUBLIC") return;
  const jobs = state.privateJobs.get(job.userId);
  if (jobs === undefined) state.privateJobs.set(job.userId, new Set([job.id]));
  else jobs.add(job.id);
}

/** Makes a job wait for a worker until `claimDue`, and looks for one at once. */
export function wait(state: DispatchState, job: LiveJob, claimDue: number, ctx: ReduceContext): void {
  job.windowDue = claimDue;
  job.phase = { kind: "waiting", claimDue };
  enqueue(state, job);
  setTimer(state, job);
  save(job, ctx);
  matchJob(state, job, ctx);
}

/** The outcome of a failed job, with what its last worker said about it, if it said something. */
export function failure(cause: FailureCause, message?: string | null): Extract<Outcome, { status: "failed" }> {
  return { status: "failed", cause, ...(typeof message === "string" && { message }) };
}

/**
 * Ends the lease without a result: the job waits again, or fails if its attempts are used up [JB4, JB5]. If the worker is still connected it is told to
 * stop, if `cancelReason` is given, and becomes free. `message` is what it said.
 */
export function requeue(
  state: DispatchState,
  job: LiveJob,
  cause: FailureCause,
  cancelReason: string | null,
  ctx: ReduceContext,
  message: string | null = null,
): void {
  // The job was never assigned, so nothing was lost with the worker.
  if (job.phase.kind === "settling") return endClaim(state, job, ctx);
  blame(state, job, cause, ctx);
  const worker = endLease(state, job, cancelReason, ctx);
  job.cause = cause;
  // A message of an earlier attempt would belong to another worker than the cause.
  job.message = message;
  if (job.attempts >= LIMITS.attempts) end(state, job, failure(cause, message), ctx);
  else wait(state, job, ctx.now + TIMING.claimWindow, ctx);
  if (worker !== undefined) countFailure(state, worker, ctx);
}

/**
 * Undoes a lease of a worker that gave the job back. Without an acknowledgement it did not hold the job: no result of it may end a later attempt [WS9, WS12].
 */
function undoLease(job: LiveJob, lease: Lease): void {
  if (!lease.acked) job.holders = job.holders.filter((holder) => holder !== lease);
  job.attempts--;
}

/** Takes back a job that its worker never started. This uses no attempt, and the claim window goes on [WS9]. `blames`: its network backs off for it. */
export function takeBack(state: DispatchState, job: LiveJob, ctx: ReduceContext, blames = true): void {
  if (job.phase.kind === "waiting" || job.phase.kind === "settling") return;
  // A reject is not a failure of the key. It counts against the network, because each key of a network could reject each job.
  const { lease } = job.phase;
  if (lease.network !== undefined && blames) startBackOff(state, lease.network, ctx.now);
  const worker = endLease(state, job, null, ctx);
  undoLease(job, lease);
  // The window never becomes longer, not even until the next tick: a worker that rejects at every tick would keep the job until its total deadline.
  wait(state, job, Math.max(job.windowDue, ctx.now), ctx);
  if (worker !== undefined) countFailure(state, worker, ctx);
}

/**
 * Handles a worker that says that this job cannot be done at all. The word of one worker does not end a job. A second worker of another network must say the
 * same, and one of the two must be proven if a proven one is left to ask. The job also ends when there is no other worker to ask [JB11].
 */
export function deny(state: DispatchState, job: LiveJob, worker: Worker, cause: FailureCause, message: string | null, ctx: ReduceContext): void {
  noteDenial(job, worker);
  if (!isDenied(state, job)) return requeue(state, job, cause, null, ctx, message);
  blame(state, job, cause, ctx);
  finish(state, job, failure(cause, message), null, ctx);
}

/**
 * Handles a job that does not fit its worker's context. Only a worker with a larger context may try again, if the word of this worker counts; otherwise the job
 * ends or goes on as after {@link deny} [JB5, JB11]. `message` is what the worker said; `started` is false if it gave the job back unstarted, which uses no
 * attempt [WS9].
 */
export function outgrow(state: DispatchState, job: LiveJob, worker: Worker, message: string | null, started: boolean, ctx: ReduceContext): void {
  const cause = "context_length_exceeded";
  noteDenial(job, worker);
  const before = job.outgrown;
  job.outgrown = Math.max(before ?? 0, contextFor(worker, job.model));
  const isPrivate = job.privacyClass === "PRIVATE";
  // Otherwise keys of one network could pass a job on among themselves, each with a larger context than the one before.
  const hasLarger = hasEligibleWorker(state, job, (other) => isPrivate || mayDiffer(other.network, worker.network));
  const counts = isPrivate || worker.proven || !hasUntriedProven(state, { ...job, outgrown: null });
  if (!hasLarger && isDenied(state, job)) {
    if (!started && job.phase.kind === "leased") undoLease(job, job.phase.lease);
    return finish(state, job, failure(cause, message), null, ctx);
  }
  if (!hasLarger || !(counts || isConfirmed(job))) job.outgrown = hasLarger ? before : null;
  if (started) return requeue(state, job, cause, null, ctx, message);
  takeBack(state, job, ctx, false);
}

/** Ends a job for good. The worker that has it is told to stop if `cancelReason` is given. */
export function finish(state: DispatchState, job: LiveJob, outcome: Outcome, cancelReason: string | null, ctx: ReduceContext): void {
  const worker = endLease(state, job, cancelReason, ctx, false);
  if (job.phase.kind === "waiting") dequeue(state, job);
  end(state, job, outcome, ctx);
  if (worker === undefined) return;
  // This counts as a failure of the worker too. Otherwise one broken worker could end a whole queue.
  if (outcome.status === "failed" && TIRING.includes(outcome.cause)) countFailure(state, worker, ctx);
  else matchWorker(state, worker, ctx);
}

function end(state: DispatchState, job: LiveJob, outcome: Outcome, ctx: ReduceContext): void {
  state.jobs.delete(job.id);
  state.timers.remove(job.id);
  const own = state.privateJobs.get(job.userId);
  own?.delete(job.id);
  if (own?.size === 0) state.privateJobs.delete(job.userId);
  // Each key once, at its last place.
  const holders = [...new Set(job.holders.map((holder) => holder.key).toReversed())].toReversed();
  const paymentRef = closePaymentOf(state, job, outcome, ctx);
  const { rev, attempts } = job;
  const started = job.started || outcome.status === "completed";
  ctx.rows.push({ type: "ended", jobId: job.id, outcome, started, paymentRef, rev: rev + 1, attempts, holders, endedAt: ctx.now });
}

/** Ends a PRIVATE job at its commit, because no worker of its user is connected [JB8]. The job is stored, so that its user can poll it. */
export function refuse(job: JobFacts, ctx: ReduceContext): void {
  const outcome = failure("no_trusted_worker");
  ctx.rows.push({ type: "insert", job });
  ctx.rows.push({ type: "ended", jobId: job.id, outcome, started: false, paymentRef: null, rev: 1, attempts: 0, holders: [], endedAt: ctx.now });
}

/** Ends jobs whose rows could not be read. Only their ids are known, so their end gets a revision above every one that D1 may have. */
export function endDamaged(jobIds: readonly string[], ctx: ReduceContext): void {
  const outcome = failure("worker_lost");
  const rev = Number.MAX_SAFE_INTEGER;
  for (const jobId of jobIds)
    ctx.rows.push({ type: "ended", jobId, outcome, started: false, paymentRef: null, rev, attempts: 0, holders: [], endedAt: ctx.now });
}

/** Ends the lease of a job and its worker. Returns the worker if it stays connected; it is idle then, and has not been matched with a job yet. */
function endLease(state: DispatchState, job: LiveJob, cancelReason: string | null, ctx: ReduceContext, tried = true): Worker | undefined {
  if (job.phase.kind === "waiting") return undefined;
  if (job.phase.kind === "settling") {
    releaseWorker(state, job, ctx);
    return undefined;
  }
  const { lease } = job.phase;
  state.leases.delete(lease.key);
  state.departed.delete(lease.key);
  endWork(state, lease.network, lease.key);
  if (tried) noteTried(job, lease.key);
  const worker = state.workers.get(lease.key);
  if (worker === undefined || job.phase.kind !== "leased") return undefined;
  if (cancelReason !== null) {
    ctx.sends.push({ type: "cancel_attempt", connId: worker.connId, jobId: job.id, attempt: lease.attempt, reason: cancelReason });
  }
  worker.jobId = null;
  indexWorker(state, worker);
  leaveIfDrained(state, worker, ctx);
  return worker.draining ? undefined : worker;
}

/** Counts a failure of a worker. After too many in a row the worker rests until the next tick, so that it cannot fail a whole queue at once. */
function countFailure(state: DispatchState, worker: Worker, ctx: ReduceContext): void {
  worker.failuresInARow++;
  if (worker.failuresInARow >= LIMITS.failuresInARow) {
    worker.failuresInARow = 0;
    worker.resting = true;
    indexWorker(state, worker);
  }
  matchWorker(state, worker, ctx);
}

/** Closes the socket of a draining worker as soon as it has no job [WS11]. */
export function leaveIfDrained(state: DispatchState, worker: Worker, ctx: ReduceContext): void {
  if (!worker.draining || worker.jobId !== null || state.workers.get(worker.key) !== worker) return;
  ctx.sends.push({ type: "drained", connId: worker.connId });
  closeWorker(state, worker, CLOSE.normal, "drained", ctx);
}

/** Forgets a worker and closes its socket. The caller handles its lease. */
export function closeWorker(state: DispatchState, worker: Worker, code: number, reason: string, ctx: ReduceContext): void {
  removeWorker(state, worker, ctx);
  ctx.sends.push({ type: "close", connId: worker.connId, code, reason });
}

/** Handles the loss of a socket: the lease stays for the grace time, because the worker may come back [JB4]. */
export function orphan(state: DispatchState, worker: Worker, ctx: ReduceContext): void {
  const job = state.jobs.get(worker.jobId ?? "");
  if (job?.phase.kind === "settling") return endClaim(state, job, ctx);
  if (job === undefined || job.phase.kind !== "leased") return;
  const { lease, executeDue } = job.phase;
  job.phase = { kind: "orphaned", lease, executeDue, graceDue: ctx.now + TIMING.grace };
  setTimer(state, job);
  // The end of the grace time is saved, because the hub may lose its memory before.
  save(job, ctx);
}
