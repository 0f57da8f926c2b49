// Handles the outcome of a settle call. On a job's way: settle → assign.
import type { FailureCause } from "../../protocol/job.ts";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { ReduceContext } from "./events.ts";
import { forgetPayment, movePayment, startSettling } from "./holds.ts";
import { lease, setTimer } from "./lease.ts";
import type { Payment, Settlement } from "./ledger.ts";
import { finish, unhold, wait } from "./lifecycle.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";
import { isEligible, isSilent } from "./workers.ts";

/** Handles the end of a settle call. Job, worker and payment are checked again, because they may have changed meanwhile [PY7, PY8]. */
export function settled(state: DispatchState, key: string, settlement: Settlement, turn: ReduceContext): void {
  state.ledger.inFlight.delete(key);
  const payment = state.ledger.payments.get(key);
  // The hub may have lost its memory since the call. That money moved is true even so.
  const isNews = payment?.phase.kind === "settling" || (payment?.phase.kind === "unknown" && settlement.kind === "settled");
  if (payment !== undefined && isNews) conclude(state, payment, settlement, turn);
  for (const next of state.ledger.settleQueue) {
    if (state.ledger.inFlight.size >= LIMITS.settlements) return;
    state.ledger.settleQueue.delete(next);
    const waiting = state.ledger.payments.get(next);
    if (waiting !== undefined) startSettling(state, waiting, turn);
  }
}

function conclude(state: DispatchState, payment: Payment, settlement: Settlement, turn: ReduceContext): void {
  const job = state.jobs.get(payment.jobId);
  switch (settlement.kind) {
    case "settled":
      return paid(state, payment, job, settlement.transaction, turn);
    case "refused":
      // An earlier call of ours, whose answer was lost, has used the payment.
      if (settlement.alreadyUsed && payment.doubts > 0) return paid(state, payment, job, "", turn);
      // If two calls run at once, one fails and does not say why. So after a doubt the job ends, but the money may have moved.
      if (payment.doubts > 0) doubt(state, payment, turn);
      else movePayment(state, payment, { kind: "void", reason: "refused" }, turn);
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

function doubt(state: DispatchState, payment: Payment, turn: ReduceContext): void {
  payment.doubts++;
  movePayment(state, payment, { kind: "unknown", retryDue: nextTry(payment, turn.now) }, turn);
}

function fail(state: DispatchState, job: LiveJob, turn: ReduceContext): void {
  finish(state, job, { status: "failed", cause: "payment_failed" }, null, turn);
}

/** Extends the total time of a job to the end of the authorization, because it is not known whether the job is paid [PY8]. */
export function keepUntilKnown(state: DispatchState, job: LiveJob, payment: Payment): void {
  job.totalDue = Math.max(job.totalDue, payment.expiresAt);
  setTimer(state, job);
}

/** The cause of failure of a job that reaches its total deadline. */
export function lateCause(state: DispatchState, job: LiveJob, now: number): FailureCause {
  const payment = job.phase.kind === "settling" ? state.ledger.payments.get(job.payment ?? "") : undefined;
  return payment !== undefined && payment.doubts > 0 && payment.expiresAt <= now ? "payment_failed" : "deadline_exceeded";
}

function paid(state: DispatchState, payment: Payment, job: LiveJob | undefined, transaction: string, turn: ReduceContext): void {
  if (job === undefined) return movePayment(state, payment, { kind: "credit", transaction }, turn);
  movePayment(state, payment, { kind: "settled", transaction }, turn);
  if (job.phase.kind !== "settling") return;
  const worker = holding(state, job);
  // The worker may have changed, lost its tier or become silent meanwhile.
  if (worker !== undefined && job.totalDue > turn.now && isEligible(state, job, worker) && !isSilent(worker, turn)) return lease(state, job, worker, turn);
  unhold(state, job, turn);
  // After an unknown outcome the total time starts again.
  if (payment.doubts > 0) job.totalDue = turn.now + TIMING.total;
  wait(state, job, turn.now + TIMING.claimWindow, turn);
}

/** The worker that a settling job keeps, if it is still there. */
function holding(state: DispatchState, job: LiveJob): Worker | undefined {
  if (job.phase.kind !== "settling" || job.phase.hold === null) return undefined;
  const worker = state.workers.get(job.phase.hold.key);
  return worker?.conn === job.phase.hold.conn && worker.jobId === job.id ? worker : undefined;
}

/** Handles the payments that are due: drops old reservations, and asks again about unknown outcomes. */
export function passPaymentTime(state: DispatchState, turn: ReduceContext): void {
  const { timers, payments } = state.ledger;
  for (let first = timers.first(); first !== undefined && first.order <= turn.now; first = timers.first()) {
    const payment = payments.get(first.id);
    if (payment === undefined) timers.remove(first.id);
    else if (payment.phase.kind === "reserved") forgetPayment(state, payment, turn);
    else askAgain(state, payment, turn);
  }
}

function askAgain(state: DispatchState, payment: Payment, turn: ReduceContext): void {
  const job = state.jobs.get(payment.jobId);
  if (payment.expiresAt <= turn.now) {
    if (job !== undefined) fail(state, job, turn);
    // For this long it may still turn out that the payment was settled. Then it counts as not settled.
    if (payment.expiresAt + TIMING.unknownSettlement <= turn.now) return movePayment(state, payment, { kind: "void", reason: "unused" }, turn);
  }
  startSettling(state, payment, turn);
}

function nextTry(payment: Payment, now: number): number {
  const pause = now < payment.expiresAt ? Math.min(TIMING.settleRetry * 2 ** Math.min(payment.doubts - 1, 10), TIMING.settleRetryMax) : TIMING.settleRetryMax;
  const next = now + pause;
  // Facilitators say "expired" a few seconds early, and from then on do not tell whether the payment was used.
  const lastChance = payment.expiresAt - TIMING.settleLastChance;
  if (now < lastChance) return Math.min(next, lastChance);
  // The end of the authorization ends the job, so a try is due then.
  return now < payment.expiresAt ? Math.min(next, payment.expiresAt) : next;
}
