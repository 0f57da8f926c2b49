// Moves a payment with its job: held while the job waits, settling while a worker is claimed, closed when the job ends. On a job's way: claim → settle.
import { TIMING } from "../../protocol/times.ts";
import { type Outcome, type ReduceContext, save } from "./events.ts";
import { checkMove, type CreditPart, creditsOf, dropPayment, indexPayment, mayGiveBack, type Payment, paymentOf, type PaymentPhase, stepOf } from "./ledger.ts";
import { beginWork } from "./standing.ts";
import { type DispatchState, type LiveJob, setTimer, type Worker } from "./state.ts";
import { countsForNetwork, isEligible } from "./workers.ts";

/** Moves a payment to its next phase and saves it. `from` is its step as it was saved, `none` for a new one. @throws {IllegalMove} */
export function movePayment(state: DispatchState, payment: Payment, phase: PaymentPhase, ctx: ReduceContext, from = stepOf(payment)): void {
  checkMove(payment.key, from, stepOf({ ...payment, phase }));
  const becomesUnresolved = phase.kind === "unresolved" && payment.phase.kind !== "unresolved";
  payment.phase = phase;
  savePayment(state, payment, ctx, { ...(becomesUnresolved && { becomesUnresolved }) });
}

function savePayment(state: DispatchState, payment: Payment, ctx: ReduceContext, news: { opensCredit?: true; becomesUnresolved?: true } = {}): void {
  indexPayment(state.ledger, payment);
  ctx.rows.push({ type: "save_payment", payment: { ...payment }, ...news });
}

/** Forgets a payment, so that the same one can be sent again. @throws {IllegalMove} */
export function forgetPayment(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  checkMove(payment.key, stepOf(payment), "none");
  dropPayment(state.ledger, payment);
  ctx.rows.push({ type: "drop_payment", key: payment.key });
}

/** The payment that must be settled before a job is assigned; undefined for a job that is free or paid. */
export function owedPayment(state: DispatchState, job: LiveJob): Payment | undefined {
  const payment = paymentOf(state.ledger, job);
  return payment?.phase.kind === "held" ? payment : undefined;
}

/** True if money has moved for a job: its payment is settled, or it is paid from a balance. */
export function isPaid(state: DispatchState, job: LiveJob): boolean {
  const kind = paymentOf(state.ledger, job)?.phase.kind;
  return kind === "settled" || kind === "covered";
}

/**
 * Starts to settle a payment: by the request that brought it, or by the hub, which does so as soon as fewer of its settlements are under way [PY7]. If its job
 * has ended and the chain is read, it waits until it has expired: another call tells nothing that the chain does not, and could move money needlessly [PY8].
 */
export function startSettling(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  const { settlingByHub, settlingByRequest, settleQueue, askQueue, timers } = state.ledger;
  const { key, expiresAt } = payment;
  if (state.settings.chain && ctx.now < expiresAt && !state.jobs.has(payment.jobId)) {
    timers.add(key, expiresAt, 0);
    return;
  }
  const byRequest = ctx.settledByRequest === key;
  if (!byRequest && settlingByHub.size >= state.settings.settlements) {
    (state.jobs.has(payment.jobId) ? settleQueue : askQueue).add(key);
    timers.remove(key);
    return;
  }
  if (byRequest) settlingByRequest.add(key);
  else {
    settlingByHub.add(key);
    ctx.settles.push(key);
  }
  movePayment(state, payment, { kind: "settling", until: ctx.now + TIMING.settleReport, ...(byRequest && { by: "request" }) }, ctx);
  const job = state.jobs.get(payment.jobId);
  if (job?.phase.kind !== "settling" || job.phase.claimed === null) return;
  job.phase.releaseDue = ctx.now + TIMING.hold;
  setTimer(state, job);
}

/** True if a worker that may take this job is claimed for another one whose settlement has not begun: it may be free soon [PY7]. */
export function awaitsTurn(state: DispatchState, job: LiveJob): boolean {
  for (const key of state.ledger.settleQueue) {
    const other = state.jobs.get(state.ledger.payments.get(key)?.jobId ?? "");
    const worker = other?.phase.kind === "settling" ? state.workers.get(other.phase.claimed?.key ?? "") : undefined;
    if (worker !== undefined && isEligible(state, job, worker)) return true;
  }
  return false;
}

/**
 * Closes the payment of a job that has ended [PY7, PY9].
 * @returns The reference of the settlement that the job has spent, for its receipt [PY10]; null if there is none, or if the facilitator did not name it.
 */
export function closePaymentOf(state: DispatchState, job: LiveJob, outcome: Outcome, ctx: ReduceContext): string | null {
  const payment = paymentOf(state.ledger, job);
  if (payment?.jobId !== job.id) return null;
  // As it is before it is closed: close() gives the payment its next phase.
  const { phase } = payment;
  const { settleQueue, askQueue } = state.ledger;
  if (settleQueue.delete(payment.key)) askQueue.add(payment.key);
  close(state, payment, judgeSpent(state, job, payment, outcome, ctx), ctx);
  return outcome.status === "completed" && (phase.kind === "settled" || phase.kind === "covered") ? phase.transaction || null : null;
}

/** Closes the payments of jobs that are missing because their rows could not be read. Otherwise these payments would stay open forever [PY9]. */
export function closeWithoutJob(state: DispatchState, ctx: ReduceContext): void {
  for (const payment of [...state.ledger.payments.values()]) if (!state.jobs.has(payment.jobId)) close(state, payment, false, ctx);
}

/**
 * Decides whether a job that has ended was worth its money: it completed, was cancelled while a connected worker was at it [JB13], or streamed text too often
 * [PY9]. If it gives its money back although it streamed text, that is noted with its payment.
 */
function judgeSpent(state: DispatchState, job: LiveJob, payment: Payment, outcome: Outcome, ctx: ReduceContext): boolean {
  if (outcome.status === "completed") return true;
  if (outcome.cause === "cancelled") {
    // A worker that is gone within its grace time counts as lost.
    const lease = job.phase.kind === "leased" ? job.phase.lease : undefined;
    return lease !== undefined && (lease.acked || lease.begun === true);
  }
  if (outcome.cause !== "deadline_exceeded" || !job.streamed || !isPaid(state, job)) return false;
  if (!mayGiveBack(state.ledger, payment, ctx.now)) return true;
  payment.streamedAt = ctx.now;
  return false;
}

function close(state: DispatchState, payment: Payment, spent: boolean, ctx: ReduceContext): void {
  const { phase } = payment;
  switch (phase.kind) {
    case "held":
      return movePayment(state, payment, { kind: "void", reason: "unused" }, ctx);
    case "covered":
      return endCover(state, payment, phase, spent, ctx);
    case "settled":
      return closeSettled(state, payment, phase, spent, ctx);
    case "settling":
    case "unknown":
      // It becomes a credit or void when its outcome is known.
      return;
    case "reserved":
    case "unresolved":
    case "credit":
    case "spent":
    case "void":
      return;
    default:
      return phase satisfies never;
  }
}

function closeSettled(state: DispatchState, payment: Payment, phase: Extract<PaymentPhase, { kind: "settled" }>, spent: boolean, ctx: ReduceContext): void {
  if (spent) return movePayment(state, payment, { ...phase, kind: "spent" }, ctx);
  const { assumedAt } = phase;
  // Only the operator can make a credit of a settlement that was assumed [PY8].
  if (assumedAt !== undefined) return movePayment(state, payment, { kind: "unresolved", reason: "assumed", retryDue: null, assumedAt }, ctx);
  openCredit(state, payment, phase.transaction, ctx);
}

/** Puts the money of a payment into its payer's balance: it has moved, and its job has failed [PY9]. */
export function openCredit(state: DispatchState, payment: Payment, transaction: string, ctx: ReduceContext): void {
  const phase = { kind: "credit", transaction } as const;
  checkMove(payment.key, stepOf(payment), stepOf({ ...payment, phase }));
  payment.phase = phase;
  payment.credit = { left: payment.amount, lent: "0", since: ctx.now, transaction };
  savePayment(state, payment, ctx, { opensCredit: true });
}

/**
 * Pays the job of a payment from its payer's balance, the oldest credits first; nothing of the payment's own money moves. The balance has to cover it [PY9].
 */
export function cover(state: DispatchState, payment: Payment, jobId: string, ctx: ReduceContext): void {
  let owed = BigInt(payment.amount);
  const parts: { lender: Payment; amount: bigint }[] = [];
  let transaction: string | null = null;
  for (const one of creditsOf(state.ledger, payment, ctx.storedCredits)) {
    const { key, credit } = one;
    const left = BigInt(credit.left);
    const amount = left < owed ? left : owed;
    if (amount === 0n) continue;
    owed -= amount;
    parts.push({ lender: key === payment.key ? payment : one, amount });
    transaction ??= credit.transaction;
  }
  if (owed > 0n) throw new Error("a balance does not cover a payment");
  const { phase } = payment;
  const own = phase.kind === "credit" || phase.kind === "spent" ? phase.transaction : null;
  for (const { lender, amount } of parts) lend(state, lender, { lent: amount, spent: 0n }, ctx, payment);
  payment.jobId = jobId;
  const taken = parts.map(({ lender, amount }): CreditPart => ({ key: lender.key, amount: String(amount) }));
  movePayment(state, payment, { kind: "covered", transaction: transaction ?? "", parts: taken, own }, ctx);
}

type Covered = Extract<PaymentPhase, { kind: "covered" }>;

/** Ends the cover of a job: its amount is spent, or goes back to where it came from [PY9]. */
function endCover(state: DispatchState, payment: Payment, { parts, transaction, own }: Covered, spent: boolean, ctx: ReduceContext): void {
  for (const { key, amount } of parts) {
    const lender = state.ledger.payments.get(key);
    if (lender !== undefined) lend(state, lender, { lent: -BigInt(amount), spent: spent ? BigInt(amount) : 0n }, ctx, payment);
  }
  movePayment(state, payment, endOfCover(payment, transaction, own, spent), ctx);
}

function endOfCover({ credit }: Payment, transaction: string, own: string | null, spent: boolean): PaymentPhase {
  if (own === null) return { kind: "void", reason: spent ? "paid_by_credit" : "given_back", transaction };
  if (spent) return { kind: "spent", transaction, by: "balance", own };
  return credit === undefined ? { kind: "spent", transaction: own, by: "others" } : { kind: "credit", transaction: own };
}

/** How a credit changes: `lent` is what a job gets of it, less than 0 for what it gives back; `spent` is gone. */
type Loan = { lent: bigint; spent: bigint };

/** Lends a part of a credit to the job of `payment`, or ends that. The row of `payment` is saved by the caller. */
function lend(state: DispatchState, lender: Payment, loan: Loan, ctx: ReduceContext, payment: Payment): void {
  if (lender.credit === undefined) return;
  const lent = BigInt(lender.credit.lent) + loan.lent;
  const left = BigInt(lender.credit.left) - loan.lent - loan.spent;
  // Of a quarantined payment it must stay known that its money was a credit: an order of the operator would make it one again.
  if (left + lent === 0n && lender.phase.kind !== "unresolved") delete lender.credit;
  else lender.credit = { ...lender.credit, left: String(left), lent: String(lent) };
  if (lender === payment) return;
  const { phase } = lender;
  const isEmpty = lender.credit === undefined && phase.kind === "credit";
  if (isEmpty) movePayment(state, lender, { kind: "spent", transaction: phase.transaction, by: "others" }, ctx);
  else savePayment(state, lender, ctx);
}

/** Settles the payment of a job before its claimed worker gets a lease [PY7]. */
export function settleFirst(state: DispatchState, job: LiveJob, worker: Worker, payment: Payment, ctx: ReduceContext): void {
  const { key, connId, network } = worker;
  const isAnswered = countsForNetwork(job, worker);
  if (isAnswered) beginWork(state, network, key, ctx.now);
  job.phase = { kind: "settling", claimed: { key, connId, ...(isAnswered && { network }) }, releaseDue: job.totalDue };
  setTimer(state, job);
  save(job, ctx);
  startSettling(state, payment, ctx);
}
