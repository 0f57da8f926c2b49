// Moves a payment with its job: held while the job waits, settling while a worker is kept, closed when the job ends. On a job's way: claim → settle.
import { TIMING } from "../../protocol/limits.ts";
import type { ReduceContext } from "./events.ts";
import { save, setTimer } from "./lease.ts";
import { checkMove, dropPayment, indexPayment, type Payment, type PaymentPhase, stepOf } from "./ledger.ts";
import { beginWork } from "./probation.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";
import { isAnswerable, isEligible } from "./workers.ts";

/** Moves a payment to its next phase and saves it. `from` is its step as it was saved, `none` for a new one. @throws {IllegalMove} */
export function movePayment(state: DispatchState, payment: Payment, phase: PaymentPhase, ctx: ReduceContext, from = stepOf(payment)): void {
  checkMove(payment.key, from, stepOf({ ...payment, phase }));
  payment.phase = phase;
  indexPayment(state.ledger, payment);
  ctx.rows.push({ type: "save_payment", payment: { ...payment } });
}

/** Forgets a payment, so that the same one can come again. @throws {IllegalMove} */
export function forgetPayment(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  checkMove(payment.key, stepOf(payment), "none");
  dropPayment(state.ledger, payment);
  ctx.rows.push({ type: "drop_payment", key: payment.key });
}

/** The payment that must be settled before a job is assigned; undefined for a job that is free or paid. */
export function owedPayment(state: DispatchState, job: LiveJob): Payment | undefined {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  return payment?.phase.kind === "held" ? payment : undefined;
}

/** Starts to settle a payment: by the request that brought it, or by the hub, which does so as soon as fewer of its settlements are under way [PY7]. */
export function startSettling(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  const { inFlight, entrusted, settleQueue, timers } = state.ledger;
  const { key } = payment;
  if (ctx.entrusts === key) entrusted.add(key);
  else if (inFlight.size >= state.rules.settlements) {
    settleQueue.add(key);
    timers.remove(key);
    return;
  } else {
    inFlight.add(key);
    ctx.settles.push(key);
  }
  movePayment(state, payment, { kind: "settling", until: ctx.now + TIMING.settleReport }, ctx);
  const job = state.jobs.get(payment.jobId);
  if (job?.phase.kind !== "settling" || job.phase.hold === null) return;
  job.phase.holdDue = ctx.now + TIMING.hold;
  setTimer(state, job);
}

/** True if a worker that may take this job is kept for another one whose settlement has not begun: it may be free soon [PY7]. */
export function awaitsTurn(state: DispatchState, job: LiveJob): boolean {
  for (const key of state.ledger.settleQueue) {
    const other = state.jobs.get(state.ledger.payments.get(key)?.jobId ?? "");
    const worker = other?.phase.kind === "settling" ? state.workers.get(other.phase.hold?.key ?? "") : undefined;
    if (worker !== undefined && isEligible(state, job, worker)) return true;
  }
  return false;
}

/**
 * Closes the payment of a job that has ended [PY7, PY9].
 * @returns The reference of the settlement that the job has spent, for its receipt [PY10]; null if there is none, or if the facilitator did not name it.
 */
export function closeAccount(state: DispatchState, job: LiveJob, completed: boolean, ctx: ReduceContext): string | null {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  if (payment?.jobId !== job.id) return null;
  close(state, payment, completed, ctx);
  return payment.phase.kind === "spent" ? payment.phase.transaction || null : null;
}

/** Closes the payments of jobs that are missing because their rows could not be read. Otherwise these payments would stay open for ever [PY9]. */
export function closeOrphaned(state: DispatchState, ctx: ReduceContext): void {
  for (const payment of [...state.ledger.payments.values()]) if (!state.jobs.has(payment.jobId)) close(state, payment, false, ctx);
}

function close(state: DispatchState, payment: Payment, completed: boolean, ctx: ReduceContext): void {
  const { phase } = payment;
  if (phase.kind === "held") movePayment(state, payment, { kind: "void", reason: "unused" }, ctx);
  else if (phase.kind === "settled") movePayment(state, payment, ended(phase, completed), ctx);
  // A payment that is settling or unknown becomes a credit or void when its outcome is known.
}

/** The phase of a settled payment whose job has ended. What was only assumed becomes a credit by the operator alone [PY8]. */
function ended({ transaction, assumedAt }: Extract<PaymentPhase, { kind: "settled" }>, completed: boolean): PaymentPhase {
  if (completed) return { kind: "spent", transaction, ...(assumedAt !== undefined && { assumedAt }) };
  return assumedAt === undefined ? { kind: "credit", transaction } : { kind: "unresolved", reason: "assumed", retryDue: null, assumedAt };
}

/** Keeps a worker for a job while its payment is settled. */
export function hold(state: DispatchState, job: LiveJob, worker: Worker, payment: Payment, ctx: ReduceContext): void {
  const { key, conn, network } = worker;
  const isAnswered = isAnswerable(job, worker);
  if (isAnswered) beginWork(state, network, key, ctx.now);
  job.phase = { kind: "settling", hold: { key, conn, ...(isAnswered && { network }) }, holdDue: job.totalDue };
  setTimer(state, job);
  save(job, ctx);
  startSettling(state, payment, ctx);
}
