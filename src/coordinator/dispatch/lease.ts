// Leases a job to a worker, sets its timers and saves it. On a job's way: assign.
import { TIMING } from "../../protocol/limits.ts";
import type { ReduceContext } from "./events.ts";
import { beginWork } from "./probation.ts";
import type { DispatchState, Lease, LiveJob, Worker } from "./state.ts";
import { isAnswerable } from "./workers.ts";

/** Marks a job's row as changed. */
export function save(job: LiveJob, ctx: ReduceContext): void {
  job.rev++;
  if (job.phase.kind === "leased") job.savedExecuteDue = job.phase.executeDue;
  ctx.rows.push({ type: "save", jobId: job.id });
}

/** How long one attempt at a job may take, in ms [JB4]. */
export function executionTime(job: LiveJob): number {
  return job.jobType === "TASK" ? TIMING.executeTask : TIMING.executeLlm;
}

/** Leases a job to the worker that was chosen for it, and sends the assignment. */
export function lease(state: DispatchState, job: LiveJob, worker: Worker, ctx: ReduceContext): void {
  job.attempts++;
  const held: Lease = { key: worker.key, attempt: job.attempts, acked: false };
  if (isAnswerable(job, worker)) {
    held.network = worker.network;
    beginWork(state, worker.network, worker.key, ctx.now);
  }
  job.holders.push(held);
  if (!worker.acks) {
    job.started = true;
    held.begun = true;
  }
  const ackDue = worker.acks ? ctx.now + TIMING.ack : null;
  job.phase = { kind: "leased", lease: held, conn: worker.conn, ackDue, executeDue: ctx.now + executionTime(job) };
  state.leases.set(worker.key, job.id);
  setTimer(state, job);
  save(job, ctx);
  ctx.sends.push({ type: "assign", conn: worker.conn, jobId: job.id, attempt: job.attempts, deadline: job.totalDue });
}

/** When the next deadline of a live job is, ms since the epoch. */
function dueOf(job: LiveJob): number {
  switch (job.phase.kind) {
    case "waiting":
      return Math.min(job.phase.claimDue, job.totalDue);
    case "settling":
      return job.phase.hold === null ? job.totalDue : Math.min(job.phase.holdDue, job.totalDue);
    case "leased":
      return Math.min(job.phase.ackDue ?? job.totalDue, job.phase.executeDue, job.totalDue);
    case "orphaned":
      return Math.min(job.phase.graceDue, job.totalDue);
    default:
      return job.phase satisfies never;
  }
}

/** Sets the job's one timer by its phase; call after every change of a phase or of a time in it. */
export function setTimer(state: DispatchState, job: LiveJob): void {
  state.timers.add(job.id, dueOf(job), job.seq);
}

/** Sets the next 2 s tick while jobs wait or workers rest, and the next sweep while workers are connected. */
export function armTicks(state: DispatchState, now: number): void {
  if (state.queue.jobs === 0 && state.resting.size === 0) state.tickDue = null;
  else state.tickDue ??= now + TIMING.retryTick;
  if (state.workers.size === 0) state.sweepDue = null;
  else state.sweepDue ??= now + TIMING.sweep;
}

/** When the next `time` event is due, ms since the epoch; null if nothing waits for a time. */
export function nextDue(state: DispatchState): number | null {
  // If no job waits, the hub need not wake up for a worker that has arrived.
  const arrival = state.queue.jobs > 0 ? state.arriving.first()?.order : undefined;
  const dues = [state.timers.first()?.order, state.ledger.timers.first()?.order, arrival, state.tickDue, state.sweepDue].filter(
    (due) => typeof due === "number",
  );
  return dues.length === 0 ? null : Math.min(...dues);
}
