// What a settlement becomes: the outcome of a settle call, what the chain shows, the operator's order, and payment timers. On a job's way: settle → assign.
import type { FailureCause } from "../../protocol/job.ts";
import { TIMING } from "../../protocol/times.ts";
import { lease } from "./claim.ts";
import type { EventOf, OrderOutcome, ReduceContext } from "./events.ts";
import { callEnd, isInDoubt, mayAssume, type Payment, paymentOf, type PaymentPhase, type Settlement, stepOf } from "./ledger.ts";
import { failure, finish, releaseWorker, wait } from "./lifecycle.ts";
import { forgetPayment, movePayment, openCredit, startSettling } from "./payment-moves.ts";
import { endWork } from "./standing.ts";
import { type DispatchState, type LiveJob, setTimer, type Worker } from "./state.ts";
import { isEligible, isSilent } from "./workers.ts";

/** Handles the end of a settle call. Job, worker and payment are checked again, because they may have changed meanwhile [PY7, PY8]. */
export function settled(state: DispatchState, { key, settlement, by, stored }: Omit<EventOf<"settled">, "type">, ctx: ReduceContext): void {
  const { settlingByHub, settlingByRequest, payments } = state.ledger;
  const isAwaited = (by === "hub" ? settlingByHub : settlingByRequest).delete(key);
  const payment = payments.get(key) ?? stored;
  if (payment !== null && (isAwaited || isNews(payment, settlement))) {
    // The call of a request may still run while the hub makes one of its own.
    settlingByHub.delete(key);
    conclude(state, payment, settlement, ctx);
  }
  settleNext(state, ctx);
}

/** Starts the settlements that wait, as many as may be under way: first those of live jobs. */
function settleNext(state: DispatchState, ctx: ReduceContext): void {
  const { settleQueue, askQueue, settlingByHub, payments } = state.ledger;
  for (const queue of [settleQueue, askQueue]) {
    for (const next of queue) {
      if (settlingByHub.size >= state.settings.settlements) return;
      queue.delete(next);
      const waiting = payments.get(next);
      if (waiting !== undefined) startSettling(state, waiting, ctx);
    }
  }
}

/**
 * True if an answer still counts although nobody waits for it: the hub has lost its memory since, or has given up. If it says that money moved, that is true
 * anyway. If the payment cannot have moved, the move is illegal, and the operator is told.
 */
function isNews({ phase }: Payment, settlement: Settlement): boolean {
  if (settlement.kind !== "settled" || (phase.kind === "unresolved" && phase.reason === "illegal_move")) return false;
  return !["settled", "spent", "credit", "covered"].includes(phase.kind) || isAssumed(phase);
}

/** True if a settlement is only assumed: then an answer with its transaction still tells something new. */
function isAssumed(phase: PaymentPhase): phase is Extract<PaymentPhase, { kind: "settled" | "spent" }> {
  return (phase.kind === "settled" || phase.kind === "spent") && phase.assumedAt !== undefined;
}

function conclude(state: DispatchState, payment: Payment, settlement: Settlement, ctx: ReduceContext): void {
  const job = state.jobs.get(payment.jobId);
  switch (settlement.kind) {
    case "settled":
      if (isAssumed(payment.phase)) return movePayment(state, payment, { kind: payment.phase.kind, transaction: settlement.transaction }, ctx);
      return paid(state, payment, job, { kind: "settled", transaction: settlement.transaction }, ctx);
    case "already_used":
      // The chain knows what it was used for; the facilitator does not say.
      if (state.settings.chain && payment.doubts > 0) return stayInDoubt(state, payment, job, ctx);
      // An earlier call of ours, whose answer was lost, has probably used the payment. A payer can use or cancel it too, so this is believed a few times a day.
      if (payment.lostAnswer && job !== undefined && mayAssume(state.ledger, payment.payer, ctx.now)) {
        return paid(state, payment, job, { kind: "settled", transaction: "", assumedAt: ctx.now }, ctx);
      }
      movePayment(state, payment, { kind: "unresolved", reason: "already_used", retryDue: null }, ctx);
      if (job !== undefined) fail(state, job, ctx);
      return;
    case "refused":
      // This call moved nothing, but an earlier one may have. The chain will tell.
      if (state.settings.chain && payment.doubts > 0) return stayInDoubt(state, payment, job, ctx);
      // Without the chain, nobody may ever know. So after a doubt the job ends, and the payment stays in doubt.
      if (payment.doubts > 0) doubt(state, payment, ctx);
      else movePayment(state, payment, { kind: "void", reason: "refused" }, ctx);
      if (job !== undefined) fail(state, job, ctx);
      return;
    case "not_asked":
      if (payment.doubts > 0) return stayInDoubt(state, payment, job, ctx);
      if (job === undefined) return movePayment(state, payment, { kind: "void", reason: "unused" }, ctx);
      return askLater(state, payment, job, ctx);
    case "unknown":
      payment.lostAnswer ||= settlement.lost;
      return stayInDoubt(state, payment, job, ctx, settlement.mayStillRun === true);
    default:
      return settlement satisfies never;
  }
}

/**
 * Nobody knows whether the money has moved. The worker is free for other jobs, and the job waits for the answer until its payment expires. If the call may
 * still run, none begins beside it [PY8].
 */
function stayInDoubt(state: DispatchState, payment: Payment, job: LiveJob | undefined, ctx: ReduceContext, mayStillRun = false): void {
  doubt(state, payment, ctx, mayStillRun);
  if (job === undefined) return;
  if (payment.expiresAt <= ctx.now) return fail(state, job, ctx);
  releaseWorker(state, job, ctx);
  keepUntilKnown(state, job, payment);
}

/** Handles what the chain shows about a payment in doubt: its money has moved to us, or it never can [PY8]. */
export function decided(state: DispatchState, { key, finding, stored }: EventOf<"chain">, ctx: ReduceContext): void {
  const payment = state.ledger.payments.get(key) ?? stored;
  if (payment === null || !isInDoubt(payment)) return;
  // A settle call may be under way. It can say nothing new.
  state.ledger.settlingByHub.delete(key);
  if (finding.kind === "settled") conclude(state, payment, finding, ctx);
  else {
    const { assumedAt } = "assumedAt" in payment.phase ? payment.phase : {};
    const { proof } = finding;
    movePayment(state, payment, { kind: "void", reason: "by_chain", proof, ...(assumedAt !== undefined && { assumedAt }) }, ctx);
    const job = state.jobs.get(payment.jobId);
    if (job !== undefined) fail(state, job, ctx);
  }
  settleNext(state, ctx);
}

/** Carries out an order of the operator, who has looked at the chain. It decides only what nothing else has decided [PY8]. */
export function carryOutOrder(state: DispatchState, { key, verb, stored }: EventOf<"order">, ctx: ReduceContext): OrderOutcome {
  const payment = state.ledger.payments.get(key) ?? stored;
  if (payment === null) return "no_such_payment";
  if (payment.phase.kind === "settling") return "under_way";
  if (payment.phase.kind !== "unresolved") return "not_unresolved";
  const { assumedAt, reason } = payment.phase;
  // A quarantined payment may have been anything before: its job may still run, and its money may be a credit already.
  if (reason === "illegal_move" && state.jobs.has(payment.jobId)) return "under_way";
  if (reason === "illegal_move" && payment.credit !== undefined) return "has_balance";
  if (verb === "credit") openCredit(state, payment, "", ctx);
  // An assumption that was wrong still counts for its day.
  else movePayment(state, payment, { kind: "void", reason: "by_operator", ...(assumedAt !== undefined && { assumedAt }) }, ctx);
  return "done";
}

function doubt(state: DispatchState, payment: Payment, ctx: ReduceContext, mayStillRun = false): void {
  const from = stepOf(payment);
  payment.doubts++;
  const free = mayStillRun && payment.phase.kind === "settling" ? callEnd(payment.phase) : 0;
  const retryDue = Math.max(nextTry(payment, ctx.now), Math.min(free, payment.expiresAt));
  // A payment that may have moved is never void by time alone [PY8].
  if (payment.expiresAt > ctx.now) return movePayment(state, payment, { kind: "unknown", retryDue }, ctx, from);
  const isAsked = retryDue < payment.expiresAt + TIMING.unknownSettlement;
  movePayment(state, payment, { kind: "unresolved", reason: "expired", retryDue: isAsked ? retryDue : null }, ctx, from);
}

/** Releases the worker after a request that the facilitator did not accept: nothing has happened, and the job waits for another worker after a pause. */
function askLater(state: DispatchState, payment: Payment, job: LiveJob, ctx: ReduceContext): void {
  const retryDue = Math.max(ctx.now, Math.min(ctx.now + TIMING.settleRetry, job.windowDue));
  movePayment(state, payment, { kind: "held", retryDue }, ctx);
  releaseWorker(state, job, ctx);
}

/** Ends the pause after a request that was not accepted. */
function endPause(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  movePayment(state, payment, { kind: "held" }, ctx);
  const job = state.jobs.get(payment.jobId);
  if (job?.phase.kind !== "settling") return;
  // There were workers, but the settlement never began.
  if (job.windowDue <= ctx.now) return fail(state, job, ctx);
  wait(state, job, job.windowDue, ctx);
}

function fail(state: DispatchState, job: LiveJob, ctx: ReduceContext): void {
  finish(state, job, failure("payment_failed"), null, ctx);
}

/** Extends the total time of a job to the end of the authorization, because it is not known whether the job is paid [PY8]. */
export function keepUntilKnown(state: DispatchState, job: LiveJob, payment: Payment): void {
  job.totalDue = Math.max(job.totalDue, payment.expiresAt);
  setTimer(state, job);
}

/**
 * The cause of failure of a job that reaches its total deadline. While its payment is being settled, its money may
 * still move. Only `payment_failed` tells this to the payer.
 */
export function lateCause(state: DispatchState, job: LiveJob, now: number): FailureCause {
  const payment = job.phase.kind === "settling" ? paymentOf(state.ledger, job) : undefined;
  if (payment === undefined) return "deadline_exceeded";
  const isOpen = payment.phase.kind === "settling" || (payment.doubts > 0 && payment.expiresAt <= now);
  return isOpen ? "payment_failed" : "deadline_exceeded";
}

function paid(state: DispatchState, payment: Payment, job: LiveJob | undefined, phase: Extract<PaymentPhase, { kind: "settled" }>, ctx: ReduceContext): void {
  if (job === undefined) return openCredit(state, payment, phase.transaction, ctx);
  movePayment(state, payment, phase, ctx);
  if (job.phase.kind !== "settling") return;
  const worker = claimedWorker(state, job);
  // The worker may have changed, lost its tier or become silent meanwhile.
  if (worker !== undefined && job.totalDue > ctx.now && isEligible(state, job, worker) && !isSilent(worker, ctx)) {
    endWork(state, job.phase.claimed?.network, worker.key);
    return lease(state, job, worker, ctx);
  }
  releaseWorker(state, job, ctx);
  // After an unknown outcome the total time starts again.
  if (payment.doubts > 0) job.totalDue = ctx.now + TIMING.total;
  wait(state, job, ctx.now + TIMING.claimWindow, ctx);
}

/** The worker that was claimed for a settling job, if it is still there. */
function claimedWorker(state: DispatchState, job: LiveJob): Worker | undefined {
  if (job.phase.kind !== "settling" || job.phase.claimed === null) return undefined;
  const worker = state.workers.get(job.phase.claimed.key);
  return worker?.connId === job.phase.claimed.connId && worker.jobId === job.id ? worker : undefined;
}

/** Handles the payments that are due: drops old reservations, and asks again about unknown outcomes. */
export function passPaymentTime(state: DispatchState, ctx: ReduceContext): void {
  const { timers, payments } = state.ledger;
  for (let first = timers.first(); first !== undefined && first.order <= ctx.now; first = timers.first()) {
    const payment = payments.get(first.id);
    if (payment === undefined) timers.remove(first.id);
    else if (payment.phase.kind === "reserved") forgetPayment(state, payment, ctx);
    else if (payment.phase.kind === "held") endPause(state, payment, ctx);
    else if (payment.phase.kind === "settling") giveUp(state, payment, ctx);
    else askAgain(state, payment, ctx);
  }
}

/** Gives up a settle call whose end nobody has reported: its router or its connection is gone. */
function giveUp(state: DispatchState, { key }: Payment, ctx: ReduceContext): void {
  const by = state.ledger.settlingByRequest.has(key) ? "request" : "hub";
  settled(state, { key, settlement: { kind: "unknown", lost: true, mayStillRun: true }, by, stored: null }, ctx);
}

function askAgain(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  const job = state.jobs.get(payment.jobId);
  if (payment.expiresAt <= ctx.now && job !== undefined) fail(state, job, ctx);
  startSettling(state, payment, ctx);
}

function nextTry(payment: Payment, now: number): number {
  // The pause is as long as the time since the payment expired, so it doubles with each try.
  if (now >= payment.expiresAt) return now + Math.min(Math.max(now - payment.expiresAt, TIMING.settleRetryMax), TIMING.settleRetryLate);
  const next = now + Math.min(TIMING.settleRetry * 2 ** Math.min(payment.doubts - 1, 10), TIMING.settleRetryMax);
  // Facilitators say "expired" a few seconds early, and from then on do not tell whether the payment was used.
  const lastChance = payment.expiresAt - TIMING.settleLastChance;
  if (now < lastChance) return Math.min(next, lastChance);
  // The end of the authorization ends the job, so a try is due then.
  return Math.min(next, payment.expiresAt);
}
