// Moves a payment with its job: held while the job waits, settling while a worker is kept, closed when the job ends. On a job's way: claim → settle.
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { ReduceContext } from "./events.ts";
import { save, setTimer } from "./lease.ts";
import { dropPayment, indexPayment, type Payment, type PaymentPhase } from "./ledger.ts";
import { beginWork } from "./probation.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";
import { isAnswerable } from "./workers.ts";

/** Moves a payment to its next phase and saves it. */
export function movePayment(state: DispatchState, payment: Payment, phase: PaymentPhase, ctx: ReduceContext): void {
  payment.phase = phase;
  indexPayment(state.ledger, payment);
  ctx.rows.push({ type: "save_payment", payment: { ...payment } });
}

/** Forgets a payment, so that the same one can come again. */
export function forgetPayment(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  dropPayment(state.ledger, payment);
  ctx.rows.push({ type: "drop_payment", key: payment.key });
}

/** The payment that must be settled before a job is assigned; undefined for a job that is free or paid. */
export function owedPayment(state: DispatchState, job: LiveJob): Payment | undefined {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  return payment?.phase.kind === "held" ? payment : undefined;
}

/** Starts to settle a payment, now or as soon as fewer settlements are under way [PY7]. */
export function startSettling(state: DispatchState, payment: Payment, ctx: ReduceContext): void {
  const { inFlight, settleQueue, timers } = state.ledger;
  if (inFlight.size >= LIMITS.settlements) {
    settleQueue.add(payment.key);
    timers.remove(payment.key);
    return;
  }
  inFlight.add(payment.key);
  movePayment(state, payment, { kind: "settling" }, ctx);
  ctx.settles.push(payment.key);
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
  else if (phase.kind === "settled") movePayment(state, payment, { kind: completed ? "spent" : "credit", transaction: phase.transaction }, ctx);
  // A payment that is settling or unknown becomes a credit or void when its outcome is known.
}

/** Keeps a worker for a job while its payment is settled. */
export function hold(state: DispatchState, job: LiveJob, worker: Worker, payment: Payment, ctx: ReduceContext): void {
  const { key, conn, network } = worker;
  const isAnswered = isAnswerable(job, worker);
  if (isAnswered) beginWork(state, network, key, ctx.now);
  job.phase = { kind: "settling", hold: { key, conn, ...(isAnswered && { network }) }, holdDue: ctx.now + TIMING.hold };
  setTimer(state, job);
  save(job, ctx);
  startSettling(state, payment, ctx);
}
