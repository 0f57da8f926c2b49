// A worker registers, perhaps with jobs that it still runs. Beside a job's way: after a lost socket it gives a lease its worker back.
import { TIMING } from "../../protocol/limits.ts";
import { CLOSE } from "../../protocol/worker-messages.ts";
import { offerWorker } from "./claim.ts";
import { dequeue, indexWorker } from "./workers.ts";
import type { EventOf, ReduceContext } from "./events.ts";
import { executionTime, save, setTimer } from "./lease.ts";
import { closeWorker, leaveIfDrained, orphan, requeue } from "./lifecycle.ts";
import type { DispatchState, LiveJob, Worker } from "./state.ts";

type Registration = EventOf<"register">;

/** A worker registered on a new socket: an older socket of its key is replaced, its job rebound or given away [WS7, WS10]. */
export function register(state: DispatchState, event: Registration, turn: ReduceContext): void {
  const older = state.workers.get(event.key);
  if (older !== undefined) {
    closeWorker(state, older, CLOSE.replaced, "replaced", turn);
    orphan(state, older, turn);
  }
  const worker: Worker = {
    key: event.key,
    conn: event.conn,
    capabilities: event.capabilities,
    tier: event.tier,
    acks: event.acks,
    context: event.context ?? 0,
    record: { ...event.record },
    lastUsedAt: older?.lastUsedAt ?? event.lastUsedAt,
    seq: state.nextSeq++,
    jobId: null,
    draining: event.draining ?? false,
    // A clock that was put back since must not make it wait for longer.
    arrivesAt: event.acks ? null : Math.min(event.registeredAt ?? turn.now, turn.now) + TIMING.arrival,
    resting: false,
    silent: false,
    failuresInARow: older?.failuresInARow ?? 0,
  };
  state.workers.set(worker.key, worker);
  state.keyByConn.set(worker.conn, worker.key);
  resume(state, worker, event.resume, turn);
  indexWorker(state, worker);
  leaveIfDrained(state, worker, turn);
  offerWorker(state, worker, turn);
}

/**
 * Settles what the worker says it still has against what it holds. Without a list its lease is rebound; with one, the lease is
 * rebound only if it is listed. All else on the list is cancelled before anything new is assigned.
 */
function resume(state: DispatchState, worker: Worker, listed: Registration["resume"], turn: ReduceContext): void {
  const leased = state.jobs.get(state.leases.get(worker.key) ?? "");
  for (const entry of listed ?? []) {
    const job = state.jobs.get(entry.jobId);
    // Listed twice: the attempt that was just rebound must not be cancelled.
    if (job?.phase.kind === "leased" && job.phase.conn === worker.conn && job.phase.lease.attempt === entry.attempt) continue;
    if (job !== undefined && worker.jobId === null && canRebind(job, worker, entry.attempt, leased)) rebind(state, job, worker, true, turn);
    else turn.sends.push({ type: "cancel_attempt", conn: worker.conn, jobId: entry.jobId, attempt: entry.attempt, reason: "not_assigned" });
  }
  if (leased === undefined || leased.phase.kind !== "orphaned") return;
  if (listed === undefined) rebind(state, leased, worker, false, turn);
  else requeue(state, leased, "worker_lost", null, turn);
}

/** An orphaned lease of this attempt, or a job that waits again since this worker, its last holder, was given up on. */
function canRebind(job: LiveJob, worker: Worker, attempt: number, leased: LiveJob | undefined): boolean {
  switch (job.phase.kind) {
    case "orphaned":
      return job.phase.lease.key === worker.key && job.phase.lease.attempt === attempt;
    case "waiting": {
      const last = job.holders.at(-1);
      return leased === undefined && last?.key === worker.key && last.attempt === attempt && job.attempts === attempt;
    }
    case "settling":
    case "leased":
      return false;
    default:
      return job.phase satisfies never;
  }
}

function rebind(state: DispatchState, job: LiveJob, worker: Worker, listed: boolean, turn: ReduceContext): void {
  if (job.phase.kind === "leased" || job.phase.kind === "settling") return;
  const waited = job.phase.kind === "waiting";
  const lease = job.phase.kind === "orphaned" ? job.phase.lease : job.holders.at(-1);
  if (lease === undefined) return;
  if (waited) dequeue(state, job);
  // A deadline that passed while the socket was gone leaves a moment for a finished result to arrive.
  const executeDue = job.phase.kind === "orphaned" ? Math.max(job.phase.executeDue, turn.now + TIMING.ack) : turn.now + executionTime(job);
  // What the worker lists it has; what it does not may never have reached it.
  const started = listed && !lease.acked;
  if (started) lease.acked = true;
  const ackDue = worker.acks && !lease.acked ? turn.now + TIMING.ack : null;
  job.phase = { kind: "leased", lease, conn: worker.conn, ackDue, executeDue };
  state.leases.set(worker.key, job.id);
  worker.jobId = job.id;
  setTimer(state, job);
  if (waited || started) save(job, turn);
}
