// Handles the outcome of a settle call. On a job's way: settle → assign.
import type { FailureCause } from "../../protocol/job.ts";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { ReduceContext } from "./events.ts";
import { forgetPayment, movePayment, startSettling } from "./holds.ts";
import { lease, setTimer } from "./lease.ts";
import type { Payment, Settlement } from "./ledger.ts";
import { finish, unhold, wait } from "./lifecycle.ts";
import { endWork } from "./probation.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";
import { isEligible, isSilent } from "./workers.ts";

/** Handles the end of a settle call. Job, worker and payment are checked again, because they may have changed meanwhile [PY7, PY8]. */
export function settled(state: DispatchState, key: string, settlement: Settlement, ctx: ReduceContext): void {
  state.ledger.inFlight.delete(key);
  const payment = state.ledger.payments.get(key);
  // The hub may have lost its memory since the call. That money moved is true even so.
  const isNews = payment?.phase.kind === "settling" || (payment?.phase.kind === "unknown" && settlement.kind === "settled");
  if (payment !== undefined && isNews) conclude(state, payment, settlement, ctx);
  for (const next of state.ledger.settleQueue) {
    if (state.ledger.inFlight.size >= LIMITS.settlements) return;
    state.ledger.settleQueue.delete(next);
    const waiting = state.ledger.payments.get(next);
    if (waiting !== undefined) startSettling(state, waiting, ctx);
  }
}

function conclude(state: DispatchState, payment: Payment, settlement: Settlement, ctx: ReduceContext): void {
  const job = state.jobs.get(payment.jobId);
  switch (settlement.kind) {
    case "settled":
      return paid(state, payment, job, settlement.transaction, ctx);
    case "refused":
      // An earlier call of ours, whose answer was lost, has used the payment.
      if (settlement.alreadyUsed && payment.doubts > 0) return paid(state, payment, job, "", ctx);
      // If two calls run at once, one fails and does not say why. So after a doubt the job ends, but the money may have moved.
      if (payment.doubts > 0) doubt(state, payment, ctx);
      else movePayment(state, payment, { kind: "void", reason: "refused" }, ctx);
      if (job !== undefined) fail(state, job, ctx);
      return;
    case "unknown":
      doubt(state, payment, ctx);
      if (job === undefined) return;
      if (payment.expiresAt <= ctx.now) return fail(state, job, ctx);
      unhold(state, job, ctx);
      keepUntilKnown(state, job, payment);
      return;
    default:
      settlement satisfies never;
  }
}

function doubt(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  payment.doubts++;
  movePayment(state, payment, { kind: "unknown", retryDue: nextTry(payment, ctx.now) }, ctx);
}

function fail(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  finish(state, job, { status: "failed", cause: "payment_failed" }, null, ctx);
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

function paid(state: DispatchState, payment: Payment, job: LiveJob | undefined, transaction: string, ctx: ReduceContext): void {
  if (job === undefined) return movePayment(state, payment, { kind: "credit", transaction }, ctx);
  movePayment(state, payment, { kind: "settled", transaction }, ctx);
  if (job.phase.kind !== "settling") return;
  const worker = holding(state, job);
  // The worker may have changed, lost its tier or become silent meanwhile.
  if (worker !== undefined && job.totalDue > ctx.now && isEligible(state, job, worker) && !isSilent(worker, ctx)) {
    endWork(state, job.phase.hold?.network, worker.key);
    return lease(state, job, worker, ctx);
  }
  unhold(state, job, ctx);
  // After an unknown outcome the total time starts again.
  if (payment.doubts > 0) job.totalDue = ctx.now + TIMING.total;
  wait(state, job, ctx.now + TIMING.claimWindow, ctx);
}

/** The worker that a settling job keeps, if it is still there. */
function holding(state: DispatchState, job: LiveJob): Worker | undefined {
  if (job.phase.kind !== "settling" || job.phase.hold === null) return undefined;
  const worker = state.workers.get(job.phase.hold.key);
  return worker?.conn === job.phase.hold.conn && worker.jobId === job.id ? worker : undefined;
}

/** Handles the payments that are due: drops old reservations, and asks again about unknown outcomes. */
export function passPaymentTime(state: DispatchState, ctx: ReduceContext): void {
  const { timers, payments } = state.ledger;
  for (let first = timers.first(); first !== undefined && first.order <= ctx.now; first = timers.first()) {
    const payment = payments.get(first.id);
    if (payment === undefined) timers.remove(first.id);
    else if (payment.phase.kind === "reserved") forgetPayment(state, payment, ctx);
    else askAgain(state, payment, ctx);
  }
}

function askAgain(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  const job = state.jobs.get(payment.jobId);
  if (payment.expiresAt <= ctx.now) {
    if (job !== undefined) fail(state, job, ctx);
    // For this long it may still turn out that the payment was settled. Then it counts as not settled.
    if (payment.expiresAt + TIMING.unknownSettlement <= ctx.now) return movePayment(state, payment, { kind: "void", reason: "unused" }, ctx);
  }
  startSettling(state, payment, ctx);
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
