// Decides about a worker's result: accepts it, rejects it, or counts a strike. On a job's way: complete → verify → end.
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { CLOSE } from "../../protocol/worker-messages.ts";
import { blameStrike, praise } from "./blame.ts";
import { type EventOf, type ReduceContext, save, type Send } from "./events.ts";
import { closeWorker, deny, finish, requeue } from "./lifecycle.ts";
import { type DispatchState, jobLeasedTo, type LiveJob, type Worker } from "./state.ts";

type Completion = EventOf<"complete">;

/**
 * Handles a worker's result. It counts if the worker held a lease of the job at any time and the job has not ended. The first valid result wins, even a
 * late one [WS12, JB6].
 */
export function complete(state: DispatchState, worker: Worker, event: Completion, ctx: ReduceContext): void {
  const job = state.jobs.get(event.jobId);
  // The shell looks up ended jobs and answers for them.
  if (job === undefined) return;
  if (!job.holders.some((holder) => holder.key === worker.key)) {
    answer(event, { status: "rejected", error: "not_assigned" }, ctx);
    return strike(state, worker, job, ctx);
  }
  // A bad result of an earlier attempt must not end the present one.
  const isPresent = jobLeasedTo(state, worker, job.id, event.attempt) !== undefined;
  switch (event.verdict) {
    case "output_too_large":
      answer(event, { status: "rejected", error: "output_too_large" }, ctx);
      if (isPresent) requeue(state, job, "output_too_large", null, ctx);
      return;
    case "worker_error":
      answer(event, { status: "accepted" }, ctx);
      if (isPresent) deny(state, job, worker, "worker_error", event.message ?? null, ctx);
      return;
    case "invalid_receipt":
      if (state.settings.receiptPolicy === "strict") {
        answer(event, { status: "rejected", error: "invalid_receipt" }, ctx);
        // The strike comes first: a worker that it parks must not get another job in between.
        strike(state, worker, job, ctx, isPresent);
        if (isPresent) requeue(state, job, "invalid_receipt", null, ctx);
        return;
      }
      break;
    case "valid":
      break;
    default:
      return event.verdict satisfies never;
  }
  worker.failuresInARow = 0;
  if (event.verdict === "valid") praise(state, worker, job, ctx);
  answer(event, { status: "accepted" }, ctx);
  const outcome = { status: "completed", key: worker.key, verified: event.verdict === "valid" } as const;
  // The worker that runs the job now may stop, even if it is a later attempt of this same worker.
  finish(state, job, outcome, isPresent ? null : "completed", ctx);
}

function answer(event: Completion, answer: Extract<Send, { type: "completion_ack" }>["answer"], ctx: ReduceContext): void {
  ctx.sends.push({ type: "completion_ack", connId: event.connId, jobId: event.jobId, answer });
}

/**
 * Counts an invalid or foreign result against the key, once for each job. Too many strikes park the key, each time for twice as long as the last, and
 * for half as long for each day since the last was over [RC4, WS4]. A parked worker's job waits again; with `handledByCaller` the caller handles this job.
 */
function strike(state: DispatchState, worker: Worker, job: LiveJob, ctx: ReduceContext, handledByCaller = false): void {
  if (state.settings.receiptPolicy === "record" || job.struck.has(worker.key)) return;
  // A job remembers a limited number of foreign keys, because any number of fresh keys may send a result of it. Each
  // socket may send only a few such results [LM2].
  if (job.struck.size >= LIMITS.keysPerJob && !job.holders.some((holder) => holder.key === worker.key)) return;
  job.struck.add(worker.key);
  save(job, ctx);
  const record = { ...worker.record };
  record.strikes++;
  const parked = record.strikes >= LIMITS.strikes;
  if (parked) {
    const days = record.parks === 0 ? 0 : Math.max(0, Math.floor((ctx.now - record.parkedUntil) / TIMING.parkHalving));
    record.parks = Math.floor(record.parks / 2 ** days);
    record.parkedUntil = ctx.now + Math.min(TIMING.park * 2 ** record.parks, TIMING.parkMax);
    record.parks++;
    record.strikes = 0;
  }
  blameStrike(state, worker, record, ctx);
  if (!parked) return;
  ctx.sends.push({ type: "parked", connId: worker.connId, ms: record.parkedUntil - ctx.now });
  closeWorker(state, worker, CLOSE.parked, "parked", ctx);
  const own = state.jobs.get(worker.jobId ?? "");
  if (own !== undefined && !(handledByCaller && own === job)) requeue(state, own, "worker_lost", null, ctx);
}
