// What a payment does for its job: held, settling with a worker kept for it, closed when the job ends. On a job's way: claim → settle.
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { ReduceContext } from "./events.ts";
import { save, setTimer } from "./lease.ts";
import { dropPayment, indexPayment, type Payment, type PaymentPhase } from "./ledger.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";

/** Moves a payment on, and has it saved. */
export function movePayment(state: DispatchState, payment: Payment, phase: PaymentPhase, turn: ReduceContext): void {
  payment.phase = phase;
  indexPayment(state.ledger, payment);
  turn.rows.push({ type: "save_payment", payment: { ...payment } });
}

/** Forgets a payment: the same one may come again. */
export function forgetPayment(state: DispatchState, payment: Payment, turn: ReduceContext): void {
  dropPayment(state.ledger, payment);
  turn.rows.push({ type: "drop_payment", key: payment.key });
}

/** The payment that a job still has to have settled; undefined for one that is free or paid. */
export function owedPayment(state: DispatchState, job: LiveJob): Payment | undefined {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  return payment?.phase.kind === "held" ? payment : undefined;
}

/** Has a payment settled: now, or as soon as fewer settlements are under way [PY7]. */
export function startSettling(state: DispatchState, payment: Payment, turn: ReduceContext): void {
  const { inFlight, settleQueue, timers } = state.ledger;
  if (inFlight.size >= LIMITS.settlements) {
    settleQueue.add(payment.key);
    timers.remove(payment.key);
    return;
  }
  inFlight.add(payment.key);
  movePayment(state, payment, { kind: "settling" }, turn);
  turn.settles.push(payment.key);
}

/**
 * The job has ended: what its payment is now [PY7, PY9].
 * @returns The reference of the settlement that the job has spent, for its receipt [PY10]; null where there is none, or nobody said it.
 */
export function closeAccount(state: DispatchState, job: LiveJob, completed: boolean, turn: ReduceContext): string | null {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  if (payment?.jobId !== job.id) return null;
  close(state, payment, completed, turn);
  return payment.phase.kind === "spent" ? payment.phase.transaction || null : null;
}

/** Closes what is paid for jobs that are not there, because their rows could not be read: nobody else would [PY9]. */
export function closeOrphaned(state: DispatchState, turn: ReduceContext): void {
  for (const payment of [...state.ledger.payments.values()]) if (!state.jobs.has(payment.jobId)) close(state, payment, false, turn);
}

function close(state: DispatchState, payment: Payment, completed: boolean, turn: ReduceContext): void {
  const { phase } = payment;
  if (phase.kind === "held") movePayment(state, payment, { kind: "void", reason: "unused" }, turn);
  else if (phase.kind === "settled") movePayment(state, payment, { kind: completed ? "spent" : "credit", transaction: phase.transaction }, turn);
  // Settling and unknown: whatever comes out of it later is a credit or void.
}

/** Keeps a worker for a job whose payment is settled first. */
export function hold(state: DispatchState, job: LiveJob, worker: Worker, payment: Payment, turn: ReduceContext): void {
  job.phase = { kind: "settling", hold: { key: worker.key, conn: worker.conn }, holdDue: turn.now + TIMING.hold };
  setTimer(state, job);
  save(job, turn);
  startSettling(state, payment, turn);
}
