// The state machine of dispatch: takes every event and passes it to the file that handles it. On a job's way: from the commit to the end.
import type { FailureCause } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { CLOSE } from "../../protocol/worker-messages.ts";
import { blameOverstay } from "./blame.ts";
import { admitArrived, hasRoomFor, matchWorker, recheckSilent, rematchJob } from "./claim.ts";
import { complete } from "./completion.ts";
import {
  type Answer,
  type DispatchEvent,
  type EventOf,
  type OrderOutcome,
  type Paying,
  type ReduceContext,
  type Reduced,
  type ReduceInput,
  save,
  type Submission,
} from "./events.ts";
import { paymentOf, type Reservation } from "./ledger.ts";
import {
  addJob,
  closeWorker,
  deny,
  endDamaged,
  endClaim,
  failure,
  finish,
  leaveIfDrained,
  orphan,
  outgrow,
  refuse,
  requeue,
  takeBack,
  wait,
} from "./lifecycle.ts";
import { awaitsTurn, closeWithoutJob, isPaid } from "./payment-moves.ts";
import { changeTier, placeModels, register, update } from "./registration.ts";
import { payForJob, release, reserve } from "./reservation.ts";
import { carryOutOrder, decided, lateCause, passPaymentTime, settled } from "./settlement.ts";
import { armTicks, createJob, type DispatchState, executionTime, type JobFacts, jobLeasedTo, type LiveJob, setTimer, statusOf, type Worker } from "./state.ts";
import { dequeue, enqueue, hasEligibleWorker, hasTrustedWorker, indexWorker, orderOf, removeWorker } from "./workers.ts";

/**
 * Takes one event, changes `state` in place, and returns the answer to the event and the changes that the shell has to write and send.
 * It never throws because of something that a worker or seeker sent. After each event no job waits while an idle worker is there that may take it now: a worker
 * that has tried it has to wait for the next tick, and a job that has lost an attempt may wait for a proven worker [JB11].
 */
export function reduce(state: DispatchState, event: EventOf<"submit">, input: ReduceInput): Reduced<Submission>;
export function reduce(state: DispatchState, event: EventOf<"reserve">, input: ReduceInput): Reduced<Reservation>;
export function reduce(state: DispatchState, event: EventOf<"order">, input: ReduceInput): Reduced<OrderOutcome>;
export function reduce(state: DispatchState, event: DispatchEvent, input: ReduceInput): Reduced;
export function reduce(state: DispatchState, event: DispatchEvent, input: ReduceInput): Reduced {
  const rows: Reduced["rows"] = [];
  const sends: Reduced["sends"] = [];
  const settles: Reduced["settles"] = [];
  // An event of a socket that was replaced changes nothing.
  if ("connId" in event && event.type !== "register" && !state.keyByConn.has(event.connId)) return { answer: null, rows, sends, settles };
  const settledByRequest = event.type === "submit" && event.payment?.byRequest === true ? event.payment.key : null;
  const ctx: ReduceContext = { ...input, rows, sends, settles, settledByRequest };
  // This comes first, so that a new job finds these workers, and so that a late alarm does not end a job for which a worker has arrived.
  if (event.type === "submit" || event.type === "reserve" || event.type === "time") admitArrived(state, ctx);
  const answer = handle(state, event, ctx);
  if (state.models.takeFreePlaces()) placeModels(state, ctx);
  admitArrived(state, ctx);
  armTicks(state, ctx.now);
  return { answer, rows, sends, settles };
}

/** Handles any event, and returns its answer; null for an event that has none. */
function handle(state: DispatchState, event: DispatchEvent, ctx: ReduceContext): Answer {
  switch (event.type) {
    case "submit":
      return submit(state, event.job, event.payment, ctx);
    case "reserve":
      return reserve(state, event.payment, event.job, event.stored, ctx);
    case "order":
      return carryOutOrder(state, event, ctx);
    default:
      handleWithoutAnswer(state, event, ctx);
      return null;
  }
}

/** The worker that is registered on this socket. */
function workerOn(state: DispatchState, connId: string): Worker | undefined {
  return state.workers.get(state.keyByConn.get(connId) ?? "");
}

function handleWithoutAnswer(state: DispatchState, event: Exclude<DispatchEvent, { type: "submit" | "reserve" | "order" }>, ctx: ReduceContext): void {
  switch (event.type) {
    case "release":
      return release(state, event.key, event.jobId, ctx);
    case "settled":
      return settled(state, event, ctx);
    case "chain":
      return decided(state, event, ctx);
    case "restored":
      return restored(state, event, ctx);
    case "sockets_restored":
      return socketsRestored(state, ctx);
    case "outage":
      return outage(state, ctx);
    case "paired":
      return paired(state, event.userId, event.key, ctx);
    case "cancel":
      return cancel(state, event, ctx);
    case "register":
      return register(state, event, ctx);
    case "tier":
      return changeTier(state, event, ctx);
    case "time":
      return passTime(state, ctx);
  }
  const worker = workerOn(state, event.connId);
  if (worker === undefined) return;
  switch (event.type) {
    case "disconnect":
      removeWorker(state, worker, ctx);
      return orphan(state, worker, ctx);
    case "heard":
      return heard(state, worker, ctx);
    case "update":
      return update(state, worker, event, ctx);
    case "ack":
    case "progress":
      return started(state, worker, event, ctx);
    case "failed":
      return failed(state, worker, event, ctx);
    case "reject":
      return reject(state, worker, event, ctx);
    case "complete":
      return complete(state, worker, event, ctx);
    case "oversized":
      return oversized(state, worker, event, ctx);
    case "drain":
      return drain(state, worker, ctx);
    default:
      return event satisfies never;
  }
}

const ACCEPTED: Submission = { ok: true };

function submit(state: DispatchState, facts: JobFacts, paying: Paying | undefined, ctx: ReduceContext): Submission {
  if (state.jobs.has(facts.id)) return ACCEPTED;
  const job = createJob(facts, state.nextSeq++);
  const refused = <Reason extends string>(reason: Reason) => {
    if (paying !== undefined) release(state, paying.key, job.id, ctx);
    return { ok: false, reason } as const;
  };
  if (job.model !== undefined && !state.models.isKnown(job.model, ctx.now)) return refused("no_such_model");
  if (job.privacyClass === "PRIVATE" && !hasTrustedWorker(state, job)) {
    refuse(facts, ctx);
    return refused("no_trusted_worker");
  }
  const payer = paying === undefined ? null : (state.ledger.payments.get(paying.key)?.payer ?? paying.payer);
  if (!hasRoomFor(state, job, payer, ctx)) return refused("queue_full");
  if (paying !== undefined) {
    const paid = payForJob(state, paying, facts, ctx);
    if (!paid.ok) return paid;
    // The same submit again, and its job has ended.
    if (paid.value === "known") return ACCEPTED;
    job.payment = paying.key;
    job.payer = paymentOf(state.ledger, job)?.payer ?? null;
  }
  addJob(state, job);
  ctx.rows.push({ type: "insert", job: facts });
  wait(state, job, facts.createdAt + TIMING.claimWindow, ctx);
  return ACCEPTED;
}

/** Handles a memory that was rebuilt, before the open sockets have their workers again. */
function restored(state: DispatchState, { damaged, models = [] }: EventOf<"restored">, ctx: ReduceContext): void {
  state.models.restore(models);
  closeWithoutJob(state, ctx);
  failUnpayable(state, ctx);
  endDamaged(damaged, ctx);
}

/** Ends the jobs whose payment's row could not be read, unless a worker has had the job already: no worker works unpaid [PY7]. */
function failUnpayable(state: DispatchState, ctx: ReduceContext): void {
  for (const job of [...state.jobs.values()]) {
    if (job.payment === null || paymentOf(state.ledger, job) !== undefined || job.holders.length > 0) continue;
    finish(state, job, failure("payment_failed"), null, ctx);
  }
}

/** Handles the end of a restart: a job that is still without a socket has lost its worker. */
function socketsRestored(state: DispatchState, ctx: ReduceContext): void {
  // The end of their grace time must survive the next loss of memory too. Nothing else has changed, so the revision stays.
  for (const job of state.jobs.values()) {
    if (job.phase.kind !== "orphaned") continue;
    job.graceSaved = true;
    ctx.rows.push({ type: "save", jobId: job.id });
  }
  // A sweep may have woken the hub. When it was due is forgotten, so it is due now.
  if (state.workers.size > 0) state.sweepDue = ctx.now;
  for (const model of state.models.socketsRestored(ctx.now)) ctx.rows.push({ type: "model", ...model });
}

/**
 * Handles the end of an outage: the jobs that wait get a new window, because nobody could take them meanwhile [JB4]. It is not stored: a hub that loses its
 * memory in it goes on with the old one.
 */
function outage(state: DispatchState, ctx: ReduceContext): void {
  for (const job of state.jobs.values()) {
    if (job.phase.kind !== "waiting") continue;
    job.windowDue = ctx.now + TIMING.outageWindow;
    job.phase = { kind: "waiting", claimDue: job.windowDue };
    setTimer(state, job);
  }
}

/** Handles a new pairing: the user's live PRIVATE jobs may go to this worker too. */
function paired(state: DispatchState, userId: string, key: string, ctx: ReduceContext): void {
  for (const id of state.privateJobs.get(userId) ?? []) {
    const job = state.jobs.get(id);
    if (job === undefined || job.trustedKeys.includes(key)) continue;
    const waits = job.phase.kind === "waiting";
    if (waits) dequeue(state, job);
    job.trustedKeys = [...job.trustedKeys, key];
    if (waits) enqueue(state, job);
    save(job, ctx);
  }
  // Only this worker is new for these jobs, and it takes the first one in order.
  const worker = state.workers.get(key);
  if (worker !== undefined) matchWorker(state, worker, ctx);
}

/** Handles any frame of a worker: it is not silent any more [WS6]. */
function heard(state: DispatchState, worker: Worker, ctx: ReduceContext): void {
  if (!worker.silent) return;
  worker.silent = false;
  indexWorker(state, worker);
  matchWorker(state, worker, ctx);
}

/** Handles `job_ack` and `job_progress`: the job runs, and its execution time starts again [WS9, JB4]. */
function started(state: DispatchState, worker: Worker, { type, jobId, attempt }: EventOf<"ack" | "progress">, ctx: ReduceContext): void {
  const job = jobLeasedTo(state, worker, jobId, attempt);
  if (job === undefined || job.phase.kind !== "leased") {
    ctx.sends.push({ type: "cancel_attempt", connId: worker.connId, jobId, attempt, reason: "not_assigned" });
    return;
  }
  job.started = true;
  job.phase.ackDue = null;
  job.phase.executeDue = ctx.now + executionTime(job);
  setTimer(state, job);
  const isFirstText = type === "progress" && !job.streamed;
  if (isFirstText) job.streamed = true;
  if (!isFirstText && job.phase.lease.acked && job.phase.executeDue - job.savedExecuteDue < TIMING.renewalSaved) return;
  // A hub that sleeps forgets what is not saved. An attempt that makes progress must not time out because of that.
  job.phase.lease.acked = true;
  save(job, ctx);
}

/** Handles `job_failed`. */
function failed(state: DispatchState, worker: Worker, event: EventOf<"failed">, ctx: ReduceContext): void {
  const job = jobLeasedTo(state, worker, event.jobId, event.attempt);
  if (job === undefined) return;
  const { cause = "worker_error", message = null } = event;
  if (cause === "context_length_exceeded") return outgrow(state, job, worker, message, true, ctx);
  // Workers often call a refusal retryable, because another worker may answer.
  if (event.retryable && cause !== "content_refused") return requeue(state, job, cause, null, ctx, message);
  deny(state, job, worker, cause, message, ctx);
}

/** Handles `job_reject` [WS9]. */
function reject(state: DispatchState, worker: Worker, { jobId, tooLong }: EventOf<"reject">, ctx: ReduceContext): void {
  const job = jobLeasedTo(state, worker, jobId, undefined);
  if (job === undefined) return;
  // Workers that acknowledged a job and then reject it stay its holders. Any number of fresh keys could do so, so only the first ones use no attempt.
  const isAttempt = statusOf(job) === "running" && job.holders.length - job.attempts >= LIMITS.startedRejections;
  if (tooLong === true) return outgrow(state, job, worker, null, isAttempt, ctx);
  if (isAttempt) requeue(state, job, "worker_error", null, ctx);
  else takeBack(state, job, ctx);
}

/** Handles a result that is too large to be read. */
function oversized(state: DispatchState, worker: Worker, { connId, jobId }: EventOf<"oversized">, ctx: ReduceContext): void {
  const job = jobLeasedTo(state, worker, jobId, undefined);
  // The worker goes before its job does: its socket is about to be closed, so it must not get another job.
  removeWorker(state, worker, ctx);
  if (job === undefined) return orphan(state, worker, ctx);
  ctx.sends.push({ type: "completion_ack", connId, jobId: job.id, answer: { status: "rejected", error: "output_too_large" } });
  requeue(state, job, "output_too_large", null, ctx);
}

function drain(state: DispatchState, worker: Worker, ctx: ReduceContext): void {
  worker.draining = true;
  indexWorker(state, worker);
  leaveIfDrained(state, worker, ctx);
}

function cancel(state: DispatchState, { jobId, unlessStarted = false }: EventOf<"cancel">, ctx: ReduceContext): void {
  const job = state.jobs.get(jobId);
  if (job !== undefined && !(unlessStarted && job.started)) finish(state, job, failure("cancelled"), "cancelled", ctx);
}

/** Handles everything that is due: job timers, payments, the tick, the sweep. */
function passTime(state: DispatchState, ctx: ReduceContext): void {
  for (let first = state.timers.first(); first !== undefined && first.order <= ctx.now; first = state.timers.first()) {
    const job = state.jobs.get(first.id);
    if (job === undefined) state.timers.remove(first.id);
    else expire(state, job, ctx);
  }
  passPaymentTime(state, ctx);
  if (state.tickDue !== null && state.tickDue <= ctx.now) {
    state.tickDue = null;
    tick(state, ctx);
  }
  if (state.sweepDue !== null && state.sweepDue <= ctx.now) {
    state.sweepDue = null;
    sweep(state, ctx);
  }
}

function expire(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  if (job.totalDue <= ctx.now) {
    blameOverstay(state, job, ctx);
    return finish(state, job, failure(lateCause(state, job, ctx.now)), "deadline_exceeded", ctx);
  }
  const { phase } = job;
  switch (phase.kind) {
    case "waiting":
      if (awaitsTurn(state, job)) {
        job.phase = { kind: "waiting", claimDue: ctx.now + TIMING.retryTick };
        return setTimer(state, job);
      }
      return finish(state, job, failure(job.cause ?? unclaimedCause(state, job), job.message), null, ctx);
    case "leased":
      if (phase.ackDue !== null && phase.ackDue <= ctx.now) return requeue(state, job, "worker_lost", "ack_timeout", ctx);
      return requeue(state, job, "execution_timeout", "execution_timeout", ctx);
    case "settling":
      return endClaim(state, job, ctx);
    case "orphaned":
      return requeue(state, job, "worker_lost", null, ctx);
    default:
      return phase satisfies never;
  }
}

/** Why a job without a failed attempt found no worker in its claim window [JB5]. */
function unclaimedCause(state: DispatchState, job: LiveJob): FailureCause {
  if (job.outgrown !== null && !hasEligibleWorker(state, job, () => true)) return "context_length_exceeded";
  // A paid job must not say that it found no worker, because that means that nothing was charged.
  return isPaid(state, job) ? "worker_unavailable" : "no_eligible_worker";
}

/** Runs every 2 seconds while jobs wait: ends the rest of workers and tries again to match what no event has matched [JB2]. */
function tick(state: DispatchState, ctx: ReduceContext): void {
  for (const key of [...state.resting]) {
    const worker = state.workers.get(key);
    if (worker === undefined) continue;
    worker.resting = false;
    indexWorker(state, worker);
    matchWorker(state, worker, ctx);
  }
  recheckSilent(state, ctx);
  const again = [...state.retrying].map((id) => state.jobs.get(id)).filter((job) => job !== undefined);
  for (const job of again.toSorted((a, b) => orderOf(a) - orderOf(b) || a.seq - b.seq)) rematchJob(state, job, ctx);
}

/**
 * Closes sockets that were silent for too long. Their jobs wait again at once, because the silence was longer than the grace time [WS6]. Tries again to find
 * places for models.
 */
function sweep(state: DispatchState, ctx: ReduceContext): void {
  for (const worker of [...state.workers.values()]) {
    if (ctx.now - ctx.lastSeen(worker.connId) < TIMING.silentClosed) continue;
    closeWorker(state, worker, CLOSE.silent, "silent", ctx);
    const job = state.jobs.get(worker.jobId ?? "");
    if (job !== undefined) requeue(state, job, "worker_lost", null, ctx);
  }
  placeModels(state, ctx);
}
