// Reserves a payment in the ledger before it is verified, and uses it for a job. On a job's way: pay, before the job is stored.
import { LIMITS } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/result.ts";
import { TIMING } from "../../protocol/times.ts";
import { hasIdleWorker, hasRoomFor } from "./claim.ts";
import type { Paying, ReduceContext, SubmitRefusal } from "./events.ts";
import { callEnd, checkMove, heldOf, indexPayment, isCovered, type Payment, type PaymentFacts, type Reservation, stepOf } from "./ledger.ts";
import { refuse } from "./lifecycle.ts";
import { cover, forgetPayment, movePayment } from "./payment-moves.ts";
import type { DispatchState, JobFacts } from "./state.ts";
import { hasTrustedWorker } from "./workers.ts";

/** Reserves a payment for a job. `stored` is the ledger's row of a payment that is done; null if there is none. */
export function reserve(state: DispatchState, facts: PaymentFacts, job: JobFacts, stored: Payment | null, ctx: ReduceContext): Reservation {
  const known = state.ledger.payments.get(facts.key) ?? stored;
  if (known !== null) {
    if (known.digest !== facts.digest || known.binding !== facts.binding) return { state: "refused", reason: "payment_already_used" };
    if (known.phase.kind === "reserved") return known.jobId === job.id ? { state: "reserved" } : { state: "busy" };
    const step = stepOf(known);
    if (step === "void refused" || step === "void by_operator") return { state: "refused", reason: "payment_already_used" };
    // A payment in doubt was answered 201 when it came first, so a repeated request gets 201 too.
    const isUsed = step === "unresolved already_used" || step === "void by_chain";
    if (isUsed && known.doubts === 0) return { state: "refused", reason: "payment_already_used" };
    if (paysAlready(known, job.id)) return { state: "known", jobId: known.jobId };
    if (!isCovered(state.ledger, known, ctx.storedCredits)) return { state: "refused", reason: "payment_already_used" };
  }
  if (job.model !== undefined && !state.models.isKnown(job.model, ctx.now)) return { state: "refused", reason: "no_such_model" };
  if (job.privacyClass === "PRIVATE" && !hasTrustedWorker(state, job)) {
    refuse(job, ctx);
    return { state: "refused", reason: "no_trusted_worker" };
  }
  // If a worker is idle, the request itself settles the payment and needs no place in the queue of settlements.
  const isQueueFull = state.ledger.settleQueue.size >= LIMITS.queuedSettlements && !hasIdleWorker(state, job, ctx);
  if (isQueueFull || !hasRoomFor(state, job, known?.payer ?? facts.payer, ctx)) return { state: "refused", reason: "queue_full" };
  if (known !== null) return { state: "credit" };
  if (facts.payer !== null && hasTooMany(state, facts.payer, facts, job, ctx)) return { state: "refused", reason: "too_many_held_payments" };
  const payment: Payment = { ...facts, jobId: job.id, doubts: 0, lostAnswer: false, phase: { kind: "reserved", until: ctx.now + TIMING.reservation } };
  movePayment(state, payment, payment.phase, ctx, "none");
  return { state: "reserved" };
}

/** True if the job of a payment has failed after it was paid, so that the same request may start a new one, paid from the balance [PY9]. */
function mayComeAgain({ phase }: Payment): boolean {
  if (phase.kind === "spent") return phase.by === "others";
  return phase.kind === "credit" || (phase.kind === "void" && phase.reason === "given_back");
}

/** True if a payment pays, or has paid, for a job, so that the same request gets that job again [PY6]. `jobId` is the id of the request. */
export function paysAlready(payment: Payment, jobId: string): boolean {
  return !mayComeAgain(payment) || payment.jobId === jobId;
}

/**
 * Assigns a verified payment to a new job: it is `covered` if the payer's balance pays for the job, otherwise `held` [PY9]. `known`: it pays for this job
 * already.
 */
export function payForJob(state: DispatchState, { key, payer, stored }: Paying, job: JobFacts, ctx: ReduceContext): Result<"new" | "known", SubmitRefusal> {
  const payment = state.ledger.payments.get(key) ?? stored ?? undefined;
  if (payment === undefined) return { ok: false, reason: "reservation_lost" };
  if (!paysAlready(payment, job.id)) {
    // Other requests may have spent it since it was reserved.
    if (!isCovered(state.ledger, payment, ctx.storedCredits)) return { ok: false, reason: "payment_already_used" };
    cover(state, payment, job.id, ctx);
    return { ok: true, value: "new" };
  }
  // Another request uses this payment. Only `reserve` can tell whether it is for the same job.
  if (payment.jobId !== job.id) return { ok: false, reason: "reservation_lost" };
  if (payment.phase.kind !== "reserved") return { ok: true, value: "known" };
  if (payer !== null) payment.payer = payer;
  if (isCovered(state.ledger, payment, ctx.storedCredits)) {
    cover(state, payment, job.id, ctx);
    return { ok: true, value: "new" };
  }
  if (payment.payer !== null && hasTooMany(state, payment.payer, payment, job, ctx)) {
    forgetPayment(state, payment, ctx);
    return { ok: false, reason: "too_many_held_payments" };
  }
  movePayment(state, payment, { kind: "held" }, ctx);
  return { ok: true, value: "new" };
}

/** Drops a reservation: the facilitator refused the payment, or could not be asked. */
export function release(state: DispatchState, key: string, jobId: string, ctx: ReduceContext): void {
  const payment = state.ledger.payments.get(key);
  // A request drops only its own reservation.
  if (payment?.phase.kind === "reserved" && payment.jobId === jobId) forgetPayment(state, payment, ctx);
}

/**
 * True if a payer has too many unsettled payments for one more. Many authorizations on one balance all verify, but only the first settles: each of the
 * others would keep a worker, or a place in the queue, for nothing.
 */
function hasTooMany(state: DispatchState, payer: string, facts: PaymentFacts, job: JobFacts, ctx: ReduceContext): boolean {
  const unsettled = state.ledger.unsettledByPayer.get(payer)?.size ?? 0;
  if (unsettled < LIMITS.heldPayments || isCovered(state.ledger, facts, ctx.storedCredits)) return false;
  if (unsettled >= LIMITS.unsettledPayments) return true;
  return heldOf(state.ledger, payer) >= LIMITS.heldPayments && !hasIdleWorker(state, job, ctx);
}

/**
 * Rebuilds the ledger from its saved rows. A settle call of the hub that was under way when the memory was lost has an unknown outcome, and the facilitator may
 * still be processing it. A settle call of a request may still run, and so may one of a hub that has only rebuilt its memory, for which `isSettling` is true:
 * its outcome is told, or the call counts as lost at its time.
 */
export function restorePayments(state: DispatchState, saved: readonly Payment[], now: number, isSettling: (key: string) => boolean = () => false): void {
  const { settlingByHub, settlingByRequest } = state.ledger;
  for (const row of saved) {
    const payment: Payment = { ...row };
    const isByRequest = payment.phase.kind === "settling" && payment.phase.by === "request";
    if (payment.phase.kind === "settling" && payment.phase.until > now && (isByRequest || isSettling(payment.key))) {
      (isByRequest ? settlingByRequest : settlingByHub).add(payment.key);
      // If the clock was set back since, its time could be hours away.
      payment.phase = { ...payment.phase, until: Math.min(payment.phase.until, now + TIMING.settleReport) };
    } else if (payment.phase.kind === "settling") {
      checkMove(payment.key, stepOf(payment), "unknown");
      payment.phase = { kind: "unknown", retryDue: Math.max(now, Math.min(callEnd(payment.phase), payment.expiresAt, now + TIMING.settleCall)) };
      payment.doubts++;
      payment.lostAnswer = true;
    } else if (payment.phase.kind === "held") {
      // Its job waits like any other again.
      payment.phase = { kind: "held" };
    } else if ("retryDue" in payment.phase && typeof payment.phase.retryDue === "number") {
      // If the clock was set back since, the next try could be hours away.
      const most = payment.phase.kind === "unresolved" ? TIMING.settleRetryLate : TIMING.settleRetryMax;
      payment.phase = { ...payment.phase, retryDue: Math.min(payment.phase.retryDue, now + most) };
    }
    indexPayment(state.ledger, payment);
  }
}
