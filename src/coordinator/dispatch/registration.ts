// Registers a worker, perhaps with jobs that it still runs, and handles its later updates. On a job's way: after a lost socket it gives the worker its lease
// back.
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { CLOSE } from "../../protocol/worker-messages.ts";
import { matchWorker } from "./claim.ts";
import { type EventOf, type ReduceContext, save } from "./events.ts";
import { closeWorker, leaveIfDrained, orphan, requeue } from "./lifecycle.ts";
import { beginWork, enterProbation, standingOf } from "./standing.ts";
import { type DispatchState, executionTime, type LiveJob, setTimer, type Worker } from "./state.ts";
import { changeModels, changeProfile, dequeue, indexWorker, notePlaces, poolsOf } from "./workers.ts";

type Registration = EventOf<"register">;

/** Registers a worker on a new socket. An older socket of its key is replaced, and its job goes to the new socket or waits again [WS7, WS10]. */
export function register(state: DispatchState, event: Registration, ctx: ReduceContext): void {
  const older = state.workers.get(event.key);
  if (older !== undefined) {
    closeWorker(state, older, CLOSE.replaced, "replaced", ctx);
    orphan(state, older, ctx);
  }
  // If the clock was set back since, the worker must not wait longer, also for its next job.
  const registeredAt = Math.min(event.registeredAt ?? ctx.now, ctx.now);
  const usedAt = Math.min(event.lastUsedAt, ctx.now);
  const { failed, failedAt } = event.record;
  // A socket that is restored after a loss of memory is no new one.
  const failedJustNow = event.registeredAt === undefined && ctx.now - failedAt < TIMING.retryTick ? failed : 0;
  const { capabilities, tier, network, chats = false } = event;
  const profile = { capabilities, tier, models: changeModels(state, { network, models: [] }, event.models ?? [], ctx), chats };
  const worker: Worker = {
    key: event.key,
    connId: event.connId,
    ...profile,
    announced: event.models ?? [],
    ...poolsOf(profile),
    placed: new Set(),
    listed: null,
    acks: event.acks,
    context: event.context ?? 0,
    contexts: event.contexts ?? null,
    network,
    authenticated: event.authenticated,
    publicOnly: event.publicOnly ?? false,
    record: { ...event.record },
    proven: standingOf(event.record, event.authenticated) === "proven",
    // A key that never had a job counts as used now. Otherwise fresh keys would always come first [JB3].
    lastUsedAt: older?.lastUsedAt ?? (usedAt > 0 ? usedAt : registeredAt),
    seq: state.nextSeq++,
    jobId: null,
    draining: event.draining ?? false,
    arrivesAt: event.acks ? null : registeredAt + TIMING.arrival,
    // A new socket does not reset the rest of a worker or its failures in a row. Otherwise the worker could fail a
    // whole queue at once, socket by socket [JB4].
    resting: older?.resting ?? failedJustNow >= LIMITS.failuresInARow,
    silent: false,
    failuresInARow: older?.failuresInARow ?? Math.min(failedJustNow, LIMITS.failuresInARow - 1),
  };
  state.departed.delete(worker.key);
  state.workers.set(worker.key, worker);
  if (!worker.proven) enterProbation(state, worker, usedAt, ctx.now);
  state.keyByConn.set(worker.connId, worker.key);
  notePlaces(state, worker);
  resume(state, worker, event.resume, ctx);
  indexWorker(state, worker);
  leaveIfDrained(state, worker, ctx);
  matchWorker(state, worker, ctx);
}

/**
 * Compares the jobs that the worker lists with its lease. Without a list its lease moves to the new socket; with a list only if the lease is on it. All
 * other jobs on the list are cancelled before a new job is assigned.
 */
function resume(state: DispatchState, worker: Worker, listed: Registration["resume"], ctx: ReduceContext): void {
  const leased = state.jobs.get(state.leases.get(worker.key) ?? "");
  for (const entry of listed ?? []) {
    const job = state.jobs.get(entry.jobId);
    // The list may name a job twice; the attempt that has just moved must not be cancelled.
    if (job?.phase.kind === "leased" && job.phase.connId === worker.connId && job.phase.lease.attempt === entry.attempt) continue;
    if (job !== undefined && worker.jobId === null && mayLease(job, worker) && canRebind(job, worker, entry.attempt, leased))
      rebind(state, job, worker, true, ctx);
    else ctx.sends.push({ type: "cancel_attempt", connId: worker.connId, jobId: entry.jobId, attempt: entry.attempt, reason: "not_assigned" });
  }
  if (leased === undefined || leased.phase.kind !== "orphaned") return;
  if (listed === undefined && mayLease(leased, worker)) rebind(state, leased, worker, false, ctx);
  else requeue(state, leased, "worker_lost", null, ctx);
}

/** True unless the job is PRIVATE and the worker may be a stranger with the key of another worker [WS5]. */
function mayLease(job: LiveJob, worker: Worker): boolean {
  return job.privacyClass === "PUBLIC" || !worker.publicOnly;
}

/**
 * True if this worker may have the job back: its lease of this attempt is orphaned, or the job waits again because this worker, its last holder, was lost. An
 * attempt that failed or timed out is over: given back, it would fail again at once and use no further attempt, without end [JB4].
 */
function canRebind(job: LiveJob, worker: Worker, attempt: number, leased: LiveJob | undefined): boolean {
  switch (job.phase.kind) {
    case "orphaned":
      return job.phase.lease.key === worker.key && job.phase.lease.attempt === attempt;
    case "waiting": {
      const last = job.holders.at(-1);
      const isLast = last?.key === worker.key && last.attempt === attempt && job.attempts === attempt;
      return leased === undefined && isLast && job.cause === "worker_lost";
    }
    case "settling":
    case "leased":
      return false;
    default:
      return job.phase satisfies never;
  }
}

function rebind(state: DispatchState, job: LiveJob, worker: Worker, listed: boolean, ctx: ReduceContext): void {
  if (job.phase.kind === "leased" || job.phase.kind === "settling") return;
  const waited = job.phase.kind === "waiting";
  const lease = job.phase.kind === "orphaned" ? job.phase.lease : job.holders.at(-1);
  if (lease === undefined) return;
  if (waited) {
    dequeue(state, job);
    if (lease.network !== undefined) beginWork(state, lease.network, lease.key, ctx.now);
  }
  // If the deadline passed while the socket was gone, a finished result still has a moment to arrive.
  const executeDue = job.phase.kind === "orphaned" ? Math.max(job.phase.executeDue, ctx.now + TIMING.ack) : ctx.now + executionTime(job);
  // A job on the list has reached the worker; without a list the assignment may have been lost.
  const started = listed && !lease.acked;
  if (started) {
    lease.acked = true;
    job.started = true;
  }
  const ackDue = worker.acks && !lease.acked ? ctx.now + TIMING.ack : null;
  job.phase = { kind: "leased", lease, connId: worker.connId, ackDue, executeDue };
  state.leases.set(worker.key, job.id);
  worker.jobId = job.id;
  setTimer(state, job);
  // The row may still have an old grace time. If it is not overwritten, that time is over when the hub starts again,
  // and the worker is lost at once.
  if (waited || started || job.graceSaved) save(job, ctx);
}

/** Handles a stake that was read again [ST2]. */
export function changeTier(state: DispatchState, { key, tier }: EventOf<"tier">, ctx: ReduceContext): void {
  const worker = state.workers.get(key);
  if (worker === undefined || worker.tier === tier) return;
  changeProfile(state, worker, { tier }, ctx);
  matchWorker(state, worker, ctx);
}

/** Handles a `register` of a worker that is registered: it offers something else now [WS3]. */
export function update(state: DispatchState, worker: Worker, event: EventOf<"update">, ctx: ReduceContext): void {
  worker.acks = event.acks;
  worker.context = event.context ?? 0;
  worker.contexts = event.contexts ?? null;
  if (event.acks && worker.arrivesAt !== null) {
    worker.arrivesAt = null;
    indexWorker(state, worker);
  }
  changeProfile(state, worker, { capabilities: event.capabilities, models: event.models ?? [], chats: event.chats ?? false }, ctx);
  matchWorker(state, worker, ctx);
}

/**
 * At most this many workers without places for all their models are tried at once. So when many workers leave together,
 * each of them costs no more than this.
 */
const PLACED_AT_ONCE = 20;

/**
 * Offers the places that other workers have given back to the workers that found none. Those that are not tried now
 * come first the next time [JB10].
 */
export function placeModels(state: DispatchState, ctx: ReduceContext): void {
  for (const worker of [...state.unplaced].slice(0, PLACED_AT_ONCE)) {
    changeProfile(state, worker, { models: worker.announced }, ctx);
    matchWorker(state, worker, ctx);
  }
}
