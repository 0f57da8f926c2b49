import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { Turn } from "./events.ts";
import { save } from "./lease.ts";
import { dropPayment, indexPayment, type Payment, type PaymentPhase } from "./payment.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";
import { setTimer } from "./timers.ts";

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

/** The job has ended: what its payment is now [PY7, PY9]. */
export function closeAccount(state: DispatchState, job: LiveJob, completed: boolean, turn: Turn): void {
  const payment = job.payment === null ? undefined : state.ledger.payments.get(job.payment);
  if (payment?.jobId === job.id) close(state, payment, completed, turn);
}

/** Closes what is paid for jobs that are not there, because their rows could not be read: nobody else would [PY9]. */
export function closeOrphaned(state: DispatchState, turn: Turn): void {
  for (const payment of [...state.ledger.payments.values()]) if (!state.jobs.has(payment.jobId)) close(state, payment, false, turn);
}

function close(state: DispatchState, payment: Payment, completed: boolean, turn: Turn): void {
  const { phase } = payment;
  if (phase.kind === "held") move(state, payment, { kind: "void", reason: "unused" }, turn);
  else if (phase.kind === "settled") move(state, payment, { kind: completed ? "spent" : "credit", transaction: phase.transaction }, turn);
  // Settling and unknown: whatever comes out of it later is a credit or void.
}

/** Keeps a worker for a job whose payment is settled first. */
export function hold(state: DispatchState, job: LiveJob, worker: Worker, payment: Payment, turn: Turn): void {
  job.phase = { kind: "settling", hold: { key: worker.key, conn: worker.conn }, holdDue: turn.now + TIMING.hold };
  setTimer(state, job);
  save(job, turn);
  startSettling(state, payment, turn);
}
