import { TIMING } from "../../protocol/limits.ts";
import type { DispatchState, LiveJob } from "./state.ts";

/** When a live job needs attention next, ms since the epoch. */
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

/** Arms the 2 s tick while something needs it, and the sweep while there are workers. */
export function armTicks(state: DispatchState, now: number): void {
  if (state.queued === 0 && state.resting.size === 0) state.tickDue = null;
  else state.tickDue ??= now + TIMING.retryTick;
  if (state.workers.size === 0) state.sweepDue = null;
  else state.sweepDue ??= now + TIMING.sweep;
}

/** When `time` has to be told next, ms since the epoch; null when nothing waits for a time. */
export function nextDue(state: DispatchState): number | null {
  // Where nothing waits, nobody has to wake up for a worker that has arrived.
  const arrival = state.queued > 0 ? state.arriving.first()?.order : undefined;
  const dues = [state.timers.first()?.order, state.ledger.timers.first()?.order, arrival, state.tickDue, state.sweepDue].filter(
    (due) => typeof due === "number",
  );
  return dues.length === 0 ? null : Math.min(...dues);
}
