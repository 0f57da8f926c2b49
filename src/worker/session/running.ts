// A job on the worker: accept or reject it, run it, stream its progress, and watch its deadlines. On a job's way: from `job_assign` to its end [WS8, WS9].
import { TaskType } from "../../protocol/job.ts";
import { wantedModel } from "../../protocol/models.ts";
import { parseIsoTime } from "../../protocol/text.ts";
import { coordinatorTime, isClockRefused } from "./clock.ts";
import { deliver, fail, forget, reject } from "./delivery.ts";
import type { Assign } from "./frames.ts";
import { leaveIfDone } from "./leaving.ts";
import { type Failure, type Progress, type RunningJob, sendFrame, type SessionEvent, type SessionState, tell, type ReduceContext } from "./state.ts";

/** Why an attempt without a sign of life ends, at the worker and at the coordinator [JB4]. */
const EXECUTION_TIMEOUT = "execution_timeout";

/** Handles an assigned job [WS8]: acknowledges and runs it, or rejects it. A rejection uses no attempt. */
export function assigned(state: SessionState, assign: Assign, ctx: ReduceContext): void {
  const { job } = state;
  const { job_id: jobId, attempt } = assign;
  if (job !== null && job.jobId === jobId && attempt <= job.attempt) {
    // The same frame again: the first acknowledgement may have been lost.
    if (attempt === job.attempt) sendFrame(state, { type: "job_ack", job_id: jobId, attempt }, ctx);
    return;
  }
  const reason = rejection(state, assign, ctx);
  if (reason !== null) return reject(state, jobId, reason, ctx);
  // A newer attempt of the running job: the older one no longer counts.
  if (job !== null) abandonRun(state, job, ctx);
  if (state.runtimeTaken && assign.job_type === "LLM_INFER") return waitForRuntime(state, assign, ctx);
  begin(state, assign, ctx);
}

/**
 * Lets a job wait while the runtime works for another coordinator, for as long as its acknowledgement may take. If the runtime is not free by then, the job is
 * rejected unstarted. It is not acknowledged before, because an acknowledgement means that the job runs.
 */
function waitForRuntime(state: SessionState, assign: Assign, ctx: ReduceContext): void {
  if (state.waiting?.assign.job_id !== assign.job_id) tell({ type: "job_waiting", job_id: assign.job_id, attempt: assign.attempt }, ctx);
  state.waiting = { assign, due: state.waiting?.due ?? ctx.now + state.timing.runtimeWait };
}

/** Handles a runtime that another session took or released. When it is free, a waiting job starts, if this worker may still start one. */
export function runtimeChanged(state: SessionState, taken: boolean, ctx: ReduceContext): void {
  state.runtimeTaken = taken;
  const { waiting } = state;
  if (taken || waiting === null || state.job !== null) return;
  state.waiting = null;
  const reason = rejection(state, waiting.assign, ctx);
  if (reason === null) begin(state, waiting.assign, ctx);
  else reject(state, waiting.assign.job_id, reason, ctx);
}

function begin(state: SessionState, assign: Assign, ctx: ReduceContext): void {
  const { job_id: jobId, attempt } = assign;
  const jobType = assign.job_type === "TASK" ? "TASK" : "LLM_INFER";
  state.hasWorked = true;
  state.job = {
    jobId,
    attempt,
    jobType,
    startedAt: ctx.now,
    executeDue: ctx.now + executionTime(state, jobType),
    totalDue: ctx.now + remaining(state, assign.deadline, coordinatorTime(state, ctx) ?? ctx.wall),
    lastFrameAt: ctx.now,
    progress: { seq: 0, waiting: "", tail: [] },
    chars: 0,
    reportedAt: ctx.now,
  };
  sendFrame(state, { type: "job_ack", job_id: jobId, attempt }, ctx);
  ctx.effects.push({ type: "run", run: { jobId, attempt, jobType, payload: assign.payload } });
  tell({ type: "job_started", job_id: jobId, attempt, job_type: jobType }, ctx);
}

/** Why this worker cannot take the job, or null. */
function rejection(state: SessionState, assign: Assign, ctx: ReduceContext): string | null {
  const { job_type: jobType, payload } = assign;
  if (state.leaving !== null) return "draining";
  if (isClockRefused(state, ctx)) return "clock";
  if (state.job !== null && state.job.jobId !== assign.job_id) return "busy";
  if (state.waiting !== null && state.waiting.assign.job_id !== assign.job_id) return "busy";
  if (!state.profile.capabilities.some((capability) => capability === jobType)) return "unsupported_job_type";
  if (jobType === "LLM_INFER") return llmRejection(state, payload);
  if (typeof payload["input"] !== "string") return "invalid_payload";
  return TaskType.safeParse(payload["task_type"]).success ? null : "unsupported_task_type";
}

/** The same for an LLM job. The model may have changed since the job was assigned, and the answer of another one would be a false result [JB10]. */
function llmRejection(state: SessionState, { prompt, model }: Assign["payload"]): string | null {
  if (typeof prompt !== "string") return "invalid_payload";
  const wanted = typeof model === "string" ? wantedModel(model) : undefined;
  return wanted === undefined || state.profile.models.some((name) => name.toLowerCase() === wanted) ? null : "no_such_model";
}

/**
 * Milliseconds until the job's deadline, by the coordinator's clock if it is known. No coordinator assigns a job that is overdue or due later than the total
 * time from now. Such a deadline shows that the two clocks differ; then the total time counts from now.
 */
function remaining(state: SessionState, deadline: string | null | undefined, time: number): number {
  const left = (parseIsoTime(deadline ?? "") ?? 0) - time;
  return left > 0 && left < state.timing.total ? left : state.timing.total;
}

function executionTime(state: SessionState, jobType: RunningJob["jobType"]): number {
  return jobType === "TASK" ? state.timing.executeTask : state.timing.executeLlm;
}

/**
 * Handles a cancelled job: stops and forgets it [WS11]. A cancel of an older attempt does not affect a newer one. `not_assigned` only says that this worker has
 * no lease of the job: a result that is finished may still count, and its acknowledgement will end it [WS12].
 */
export function cancelled(state: SessionState, jobId: string, attempt: number | null, reason: string, ctx: ReduceContext): void {
  const upTo = attempt ?? Number.POSITIVE_INFINITY;
  const { job } = state;
  const stops = job !== null && job.jobId === jobId && job.attempt <= upTo;
  if (stops) abandonRun(state, job, ctx, reason === EXECUTION_TIMEOUT);
  const waits = state.waiting?.assign.job_id === jobId && state.waiting.assign.attempt <= upTo;
  if (waits) state.waiting = null;
  const forgets = reason !== "not_assigned" && forget(state, jobId, upTo, ctx);
  if (stops || waits || forgets) tell({ type: "job_cancelled", job_id: jobId, attempt: stops ? job.attempt : (attempt ?? 0), reason }, ctx);
  leaveIfDone(state, ctx);
}

function abandonRun(state: SessionState, job: RunningJob, ctx: ReduceContext, timedOut = false): void {
  ctx.effects.push({ type: "abort", jobId: job.jobId, attempt: job.attempt, timedOut });
  state.job = null;
}

/** The running job, if it is this one. An event of a run that is over changes nothing. */
function currentRun(state: SessionState, jobId: string, attempt: number): RunningJob | null {
  return state.job?.jobId === jobId && state.job.attempt === attempt ? state.job : null;
}

/** Handles a sign of life of the run, perhaps with visible text. */
export function progressed(state: SessionState, event: Extract<SessionEvent, { type: "progress" }>, ctx: ReduceContext): void {
  const job = currentRun(state, event.jobId, event.attempt);
  if (job === null) return;
  job.executeDue = ctx.now + executionTime(state, job.jobType);
  job.progress.waiting += event.delta;
  job.chars += event.delta.length;
  if (ctx.now - job.reportedAt >= state.timing.report) {
    job.reportedAt = ctx.now;
    tell({ type: "job_progress", job_id: job.jobId, attempt: job.attempt, ms: Math.round(ctx.now - job.startedAt), chars: job.chars }, ctx);
  }
  const pause = job.progress.waiting === "" ? state.timing.keepalive : state.timing.progress;
  if (ctx.now - job.lastFrameAt >= pause) sendProgress(state, job, ctx);
}

function sendProgress(state: SessionState, job: RunningJob, ctx: ReduceContext): void {
  if (state.link.kind !== "online") return;
  job.lastFrameAt = ctx.now;
  sendFrame(state, { type: "job_progress", job_id: job.jobId, attempt: job.attempt, ...nextDelta(job.progress) }, ctx);
}

/** Handles a run that has a result. */
export function completed(state: SessionState, event: Extract<SessionEvent, { type: "completed" }>, ctx: ReduceContext): void {
  const { jobId, attempt } = event.result;
  const job = currentRun(state, jobId, attempt);
  if (job === null) return;
  if (job.progress.waiting !== "") sendProgress(state, job, ctx);
  state.job = null;
  if (isClockRefused(state, ctx)) {
    fail(
      state,
      { jobId, attempt, error: "worker_error", message: "the worker's clock was set during the job, so its receipt would not be valid", retryable: true },
      ctx,
    );
    return leaveIfDone(state, ctx);
  }
  tell({ type: "job_finished", job_id: jobId, attempt, ms: Math.round(ctx.now - job.startedAt), tokens: event.tokens }, ctx);
  deliver(state, event.result, ctx);
  leaveIfDone(state, ctx);
}

/** Handles a run that has failed. */
export function failed(state: SessionState, failure: Failure, ctx: ReduceContext): void {
  if (currentRun(state, failure.jobId, failure.attempt) === null) return;
  state.job = null;
  fail(state, failure, ctx);
  leaveIfDone(state, ctx);
}

/** Ends a run whose time is over, and sends text that waited for its next frame. */
export function passRunTime(state: SessionState, ctx: ReduceContext): void {
  const { job, waiting } = state;
  if (waiting !== null && waiting.due <= ctx.now) {
    state.waiting = null;
    reject(state, waiting.assign.job_id, "busy", ctx);
  }
  if (job === null) return;
  const { jobId, attempt } = job;
  if (job.totalDue <= ctx.now) {
    abandonRun(state, job, ctx);
    fail(state, { jobId, attempt, error: "deadline_exceeded", message: "the job's deadline has passed", retryable: false }, ctx);
  } else if (job.executeDue <= ctx.now) {
    abandonRun(state, job, ctx, true);
    fail(state, { jobId, attempt, error: EXECUTION_TIMEOUT, message: "no sign of progress for too long", retryable: true }, ctx);
  } else if (job.progress.waiting !== "" && ctx.now - job.lastFrameAt >= state.timing.progress) {
    sendProgress(state, job, ctx);
  }
}

/** The next deadline of the run. */
export function runDue(state: SessionState): number {
  const { job } = state;
  const waitingDue = state.waiting?.due ?? Number.POSITIVE_INFINITY;
  if (job === null) return waitingDue;
  const text = job.progress.waiting !== "" && state.link.kind === "online" ? job.lastFrameAt + state.timing.progress : Number.POSITIVE_INFINITY;
  return Math.min(job.executeDue, job.totalDue, text, waitingDue);
}

/** The most characters of text in one frame; the rest follows in the next one. */
const FRAME_CHARS = 32_768;
/** Frames that are sent again after a reconnect: the last ones may have been lost, and the coordinator ignores a repeated one [WS9]. */
const TAIL_FRAMES = 32;

/** Takes the waiting text as the delta of the next frame; `seq` counts from 0. Without text the frame is a sign of life. */
function nextDelta(progress: Progress): { seq: number; delta: string } {
  let end = Math.min(progress.waiting.length, FRAME_CHARS);
  // A cut surrogate pair would be lost in UTF-8.
  if (end < progress.waiting.length && /[\uD800-\uDBFF]/.test(progress.waiting.charAt(end - 1))) end -= 1;
  const frame = { seq: progress.seq++, delta: progress.waiting.slice(0, end) };
  progress.waiting = progress.waiting.slice(end);
  progress.tail.push(frame);
  if (progress.tail.length > TAIL_FRAMES) progress.tail.shift();
  return frame;
}
