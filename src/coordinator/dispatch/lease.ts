import { TIMING } from "../../protocol/limits.ts";
import type { Turn } from "./events.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";
import { setTimer } from "./timers.ts";

/** Marks a job's row as changed. */
export function save(job: LiveJob, turn: Turn): void {
  job.rev++;
  if (job.phase.kind === "leased") job.savedExecuteDue = job.phase.executeDue;
  turn.effects.push({ type: "save", jobId: job.id });
}

/** How long one attempt at a job may take, in ms [JB4]. */
export function executionTime(job: LiveJob): number {
  return job.jobType === "TASK" ? TIMING.executeTask : TIMING.executeLlm;
}

/** Leases a job to the worker that was chosen for it, and has it assigned. */
export function lease(state: DispatchState, job: LiveJob, worker: Worker, turn: Turn): void {
  job.attempts++;
  const held = { key: worker.key, attempt: job.attempts, acked: false };
  job.holders.push(held);
  const ackDue = worker.acks ? turn.now + TIMING.ack : null;
  job.phase = { kind: "leased", lease: held, conn: worker.conn, ackDue, executeDue: turn.now + executionTime(job) };
  state.leases.set(worker.key, job.id);
  setTimer(state, job);
  save(job, turn);
  turn.effects.push({ type: "assign", conn: worker.conn, jobId: job.id, attempt: job.attempts, deadline: job.totalDue });
}
