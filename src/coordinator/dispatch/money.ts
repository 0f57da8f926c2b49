import type { FailureCause } from "../../protocol/job.ts";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { isEligible, isSilent } from "./eligibility.ts";
import type { Turn } from "./events.ts";
import { finish, lease, unhold, wait } from "./lifecycle.ts";
import { dropPayment, indexPayment, type Payment, type PaymentPhase, type Settlement } from "./payment.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";
import { setTimer } from "./timers.ts";

/** How long before the end of an authorization an unknown outcome is asked for whatever the pause, ms. */
const LAST_CHANCE = 10_000;

/** Moves a payment on, and has it saved. */
export function move(state: DispatchState, payment: Payment, phase: PaymentPhase, turn: Turn): void {
  payment.phase = phase;
  indexPayment(state.ledger, payment);
  turn.effects.push({ type: "save_payment", payment: { ...payment } });
}

/** Forgets a payment: the same one may come again. */
export function forget(state: DispatchState, payment: Payment, turn: Turn): void {
  dropPayment(state.ledger, payment);
  turn.effects.push({ type: "drop_payment", key: payment.key });
}

/** The payment that a job still has to have settled; undefined for one that is free or paid. */
export function owed(state: DispatchState, job: LiveJob): Payment | undefined {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  return payment?.phase.kind === "held" ? payment : undefined;
}

/** Has a payment settled: now, or as soon as fewer settlements are under way [PY7]. */
export function startSettling(state: DispatchState, payment: Payment, turn: Turn): void {
  const { inFlight, settleQueue, timers } = state.ledger;
  if (inFlight.size >= LIMITS.settlements) {
    settleQueue.add(payment.key);
    timers.remove(payment.key);
    return;
  }
  inFlight.add(payment.key);
  move(state, payment, { kind: "settling" }, turn);
  turn.effects.push({ type: "settle", key: payment.key });
}

/** A settle call has ended; everything is looked at anew, because much can have happened meanwhile [PY7, PY8]. */
export function settled(state: DispatchState, key: string, settlement: Settlement, turn: Turn): void {
  state.ledger.inFlight.delete(key);
  const payment = state.ledger.payments.get(key);
  // An answer that outlived the memory that asked for it: that money moved is true whenever it comes.
  const isNews = payment?.phase.kind === "settling" || (payment?.phase.kind === "unknown" && settlement.kind === "settled");
  if (payment !== undefined && isNews) conclude(state, payment, settlement, turn);
  for (const next of state.ledger.settleQueue) {
    if (state.ledger.inFlight.size >= LIMITS.settlements) return;
    state.ledger.settleQueue.delete(next);
    const waiting = state.ledger.payments.get(next);
    if (waiting !== undefined) startSettling(state, waiting, turn);
  }
}

function conclude(state: DispatchState, payment: Payment, settlement: Settlement, turn: Turn): void {
  const job = state.jobs.get(payment.jobId);
  switch (settlement.kind) {
    case "settled":
      return paid(state, payment, job, settlement.transaction, turn);
    case "refused":
      // Used already, and by nobody but an earlier call of ours whose answer was lost.
      if (settlement.alreadyUsed && payment.doubts > 0) return paid(state, payment, job, "", turn);
      // Of two calls under way at once one fails without saying why: after a doubt the job ends, but the money may have moved.
      if (payment.doubts > 0) doubt(state, payment, turn);
      else move(state, payment, { kind: "void", reason: "refused" }, turn);
      if (job !== undefined) fail(state, job, turn);
      return;
    case "unknown":
      doubt(state, payment, turn);
      if (job === undefined) return;
      if (payment.expiresAt <= turn.now) return fail(state, job, turn);
      unhold(state, job, turn);
      keepUntilKnown(state, job, payment);
      return;
    default:
      settlement satisfies never;
  }
}

function doubt(state: DispatchState, payment: Payment, turn: Turn): void {
  payment.doubts++;
  move(state, payment, { kind: "unknown", retryDue: nextTry(payment, turn.now) }, turn);
}

function fail(state: DispatchState, job: LiveJob, turn: Turn): void {
  finish(state, job, { status: "failed", cause: "payment_failed" }, null, turn);
}

/** While nobody knows whether a job is paid its total time does not run: the end of the authorization ends it [PY8]. */
export function keepUntilKnown(state: DispatchState, job: LiveJob, payment: Payment): void {
  job.totalDue = Math.max(job.totalDue, payment.expiresAt);
  setTimer(state, job);
}

/** Why a job fails that reaches its total deadline. */
export function lateCause(state: DispatchState, job: LiveJob, now: number): FailureCause {
  const payment = job.phase.kind === "settling" ? state.ledger.payments.get(job.payment ?? "") : undefined;
  return payment !== undefined && payment.doubts > 0 && payment.expiresAt <= now ? "payment_failed" : "deadline_exceeded";
}

function paid(state: DispatchState, payment: Payment, job: LiveJob | undefined, transaction: string, turn: Turn): void {
  if (job === undefined) return move(state, payment, { kind: "credit", transaction }, turn);
  move(state, payment, { kind: "settled", transaction }, turn);
  if (job.phase.kind !== "settling") return;
  const worker = holding(state, job);
  // It may have changed, lost its tier or fallen silent meanwhile.
  if (worker !== undefined && job.totalDue > turn.now && isEligible(state, job, worker) && !isSilent(worker, turn)) return lease(state, job, worker, turn);
  unhold(state, job, turn);
  // What was unknown for a while begins anew.
  if (payment.doubts > 0) job.totalDue = turn.now + TIMING.total;
  wait(state, job, turn.now + TIMING.claimWindow, turn);
}

/** The worker that a settling job keeps, if it is still there. */
function holding(state: DispatchState, job: LiveJob): Worker | undefined {
  if (job.phase.kind !== "settling" || job.phase.hold === null) return undefined;
  const worker = state.workers.get(job.phase.hold.key);
  return worker?.conn === job.phase.hold.conn && worker.jobId === job.id ? worker : undefined;
}

/** The job has ended: what its payment is now [PY7, PY9]. */
export function closeAccount(state: DispatchState, job: LiveJob, completed: boolean, turn: Turn): void {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  if (payment === undefined || payment.jobId !== job.id) return;
  const { phase } = payment;
  if (phase.kind === "held") move(state, payment, { kind: "void", reason: "unused" }, turn);
  else if (phase.kind === "settled") move(state, payment, { kind: completed ? "spent" : "credit", transaction: phase.transaction }, turn);
  // Settling and unknown: whatever comes out of it later is a credit or void.
}

/** A worker has been kept for long enough: the job goes on without it [PY7]. */
export function endHold(state: DispatchState, job: LiveJob, turn: Turn): void {
  const payment = owed(state, job);
  unhold(state, job, turn);
  if (payment === undefined) return;
  // Not even begun: nothing is known to have moved, so it waits like any other.
  state.ledger.settleQueue.delete(payment.key);
  // Claimed again and again it would wait on past its window.
  if (job.windowDue <= turn.now) return finish(state, job, { status: "failed", cause: "no_eligible_worker" }, null, turn);
  wait(state, job, job.windowDue, turn);
}

/** Reservations that nobody came back for, and outcomes that are still unknown. */
export function passPaymentTime(state: DispatchState, turn: Turn): void {
  const { timers, payments } = state.ledger;
  for (let first = timers.first(); first !== undefined && first.order <= turn.now; first = timers.first()) {
    const payment = payments.get(first.id);
    if (payment === undefined) timers.remove(first.id);
    else if (payment.phase.kind === "reserved") forget(state, payment, turn);
    else askAgain(state, payment, turn);
  }
}

function askAgain(state: DispatchState, payment: Payment, turn: Turn): void {
  const job = state.jobs.get(payment.jobId);
  if (payment.expiresAt <= turn.now) {
    if (job !== undefined) fail(state, job, turn);
    // For as long as it may still turn out to have been settled; then it has not.
    if (payment.expiresAt + TIMING.unknownSettlement <= turn.now) return move(state, payment, { kind: "void", reason: "unused" }, turn);
  }
  startSettling(state, payment, turn);
}

function nextTry(payment: Payment, now: number): number {
  const pause = now < payment.expiresAt ? Math.min(TIMING.settleRetry * 2 ** Math.min(payment.doubts - 1, 10), TIMING.settleRetryMax) : TIMING.settleRetryMax;
  const next = now + pause;
  // Facilitators say "expired" a few seconds early, and then never again whether it was used.
  const lastChance = payment.expiresAt - LAST_CHANCE;
  if (now < lastChance) return Math.min(next, lastChance);
  // The end of the authorization is looked at when it comes: it ends the job.
  return now < payment.expiresAt ? Math.min(next, payment.expiresAt) : next;
}

/** Keeps a worker for a job whose payment is settled first. */
export function hold(state: DispatchState, job: LiveJob, worker: Worker, payment: Payment, turn: Turn): void {
  job.phase = { kind: "settling", hold: { key: worker.key, conn: worker.conn }, holdDue: turn.now + TIMING.hold };
  setTimer(state, job);
  job.rev++;
  turn.effects.push({ type: "save", jobId: job.id });
  startSettling(state, payment, turn);
}
