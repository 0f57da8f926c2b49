// Delivers results and failures until the coordinator acknowledges them, and gives back jobs that do not start. On a job's way: after the run, `job_complete`
// and its acknowledgement [WS10].
import { coordinatorTime } from "./clock.ts";
import type { ReceivedFrame } from "./frames.ts";
import { type Failure, type KeptResult, type ReduceContext, sendFrame, type SessionNote, type SessionState, tell, type UnacknowledgedResult } from "./state.ts";

type CompleteAck = Extract<ReceivedFrame, { type: "job_complete_ack" }>;

/** The owner sees at most this many characters of a coordinator's message. */
const LOGGED_CHARS = 1_000;

/** All jobs that this worker still has: running, finished but not acknowledged, failed but not reported yet [WS10]. */
export function resumeList(state: SessionState): { job_id: string; attempt: number }[] {
  const { job, unacknowledged, failures } = state;
  const entries = [...(job === null ? [] : [job]), ...unacknowledged.toReversed(), ...failures].map(({ jobId, attempt }) => ({ job_id: jobId, attempt }));
  return entries.filter((entry, i) => entries.findIndex((other) => other.job_id === entry.job_id && other.attempt === entry.attempt) === i);
}

/** Keeps a finished result on the shelf until it is acknowledged, and sends it. */
export function deliver(state: SessionState, result: KeptResult, ctx: ReduceContext): void {
  const { timing } = state;
  const others = state.unacknowledged.filter((one) => one.jobId !== result.jobId);
  // Its receipt is too old when the coordinator's clock says so, which may be sooner than that of this machine [RC3].
  const age = Math.max(0, (coordinatorTime(state, ctx) ?? result.completedAt) - result.completedAt);
  const added: UnacknowledgedResult = { ...result, resendDue: ctx.now + timing.resend, expiresDue: ctx.now + timing.keepFor - age };
  state.unacknowledged = withinBounds([...others, added]);
  for (const gone of others) if (!state.unacknowledged.includes(gone)) drop(gone, "no_room", ctx);
  keep(state, ctx);
  sendFrame(state, result.frame, ctx);
}

/** Returns an assigned job that this worker does not start. */
export function reject(state: SessionState, jobId: string, reason: string, ctx: ReduceContext): void {
  sendFrame(state, { type: "job_reject", job_id: jobId, reason }, ctx);
  tell({ type: "job_rejected", job_id: jobId, reason }, ctx);
}

/** Reports a failed run, now or when the worker is registered again. */
export function fail(state: SessionState, failure: Failure, ctx: ReduceContext): void {
  const { jobId, attempt, error, message, retryable } = failure;
  tell({ type: "job_failed", job_id: jobId, attempt, error, message, retryable }, ctx);
  if (!sendFailure(state, failure, ctx)) state.failures.push(failure);
}

function sendFailure(state: SessionState, { jobId, attempt, error, message, retryable }: Failure, ctx: ReduceContext): boolean {
  return sendFrame(state, { type: "job_failed", job_id: jobId, attempt, error, message: withoutPlaces(message), retryable }, ctx);
}

/** What names a place in a message, and the words that replace it. Only the last part of a path stays. */
const PLACES: readonly [RegExp, string][] = [
  [/\bfile:\/\/(?:\/(?=[A-Za-z]:)|(?=\/))/gi, ""],
  [/\b(?:https?|wss?|file):\/\/[^\s"')]+/gi, "its address"],
  [/(?<![\w.])(?:\d{1,3}(?:\.\d{1,3}){3}|\[[\da-f.]*:[\da-f:.]*\])(?::\d+)?(?![\w.]*\w)/gi, "its address"],
  // IPv6 without brackets has more colons than a time, or two side by side.
  [/(?<![\w.:])(?:(?:[\da-f]{1,4}:){3,7}|(?:[\da-f]{1,4}:)+:)(?:[\da-f:.]*[\da-f])?(?:%\w+)?(?!\w)/gi, "its address"],
  [/\b(ENOTFOUND|EAI_AGAIN|lookup) [\w.-]*\w/g, "$1 its address"],
  [/(?<![\w.:/\\-])[a-z][a-z\d.-]*:\d{4,5}(?!\w)/gi, "its address"],
  // Names with spaces, as that of the user: between backslashes, after the letter of a drive, and among the home folders.
  [/(?<![\w.])(?:[A-Za-z]:\/+|\/(?=home\/|Users\/))(?:[^"'()\\/:\r\n]+\/+)+([^\s"'()\\/]*)/g, "$1"],
  [/(?<![\w.])(?:[A-Za-z]:[\\/]+|~?\/|\\\\+)(?:[^\s"'()\\/]+[\\/]+|[^"'()\\/:\r\n]+\\+)+([^\s"'()\\/]*)/g, "$1"],
];

/**
 * A failure message for the seeker. Runtimes put addresses of the owner's network and paths of this machine into their errors; they are removed here. The
 * backslashes in a path of Windows may be doubled. The owner sees the whole message.
 */
function withoutPlaces(message: string): string {
  return PLACES.reduce((text, [place, instead]) => text.replaceAll(place, instead), message);
}

/** Sends, after a registration, everything that could not be sent before or may have been lost with the last socket. */
export function resendAll(state: SessionState, ctx: ReduceContext): void {
  for (const failure of state.failures.splice(0)) sendFailure(state, failure, ctx);
  for (const one of state.unacknowledged) one.resendDue = ctx.now;
  resendNext(state, ctx);
  const { job } = state;
  if (job === null) return;
  for (const { seq, delta } of job.progress.tail) sendFrame(state, { type: "job_progress", job_id: job.jobId, attempt: job.attempt, seq, delta }, ctx);
}

/**
 * Sends the next kept result again, unless one is on its way: together they would be more than a socket may send at once [LM2]. The one that was sent the
 * longest ago comes first, and after a reconnect the newest, because the lease that this worker got back may have only a moment left.
 */
function resendNext(state: SessionState, ctx: ReduceContext): void {
  if (state.link.kind !== "online" || state.unacknowledged.some(({ resendDue }) => resendDue > ctx.now)) return;
  const [next] = state.unacknowledged.toReversed().toSorted((a, b) => a.resendDue - b.resendDue);
  if (next === undefined) return;
  next.resendDue = ctx.now + state.timing.resend;
  sendFrame(state, next.frame, ctx);
}

/** Handles `job_complete_ack`. Every acknowledgement ends the resending of its result [WS10], and the next one follows. */
export function acknowledged(state: SessionState, { job_id: jobId, status, error, message }: CompleteAck, ctx: ReduceContext): void {
  if (!state.unacknowledged.some((one) => one.jobId === jobId)) return;
  state.unacknowledged = state.unacknowledged.filter((one) => one.jobId !== jobId);
  keep(state, ctx);
  tell({ type: "job_acknowledged", job_id: jobId, status, error: error ?? null, message: message?.slice(0, LOGGED_CHARS) ?? null }, ctx);
  resendNext(state, ctx);
}

/** Forgets the results of a job up to an attempt. True if there was one. */
export function forget(state: SessionState, jobId: string, attempt: number, ctx: ReduceContext): boolean {
  const others = state.unacknowledged.filter((one) => one.jobId !== jobId || one.attempt > attempt);
  const found = others.length < state.unacknowledged.length;
  state.unacknowledged = others;
  if (found) keep(state, ctx);
  return found;
}

/** Sends an unacknowledged result again, and drops results that are too old to be accepted. */
export function passDeliveryTime(state: SessionState, ctx: ReduceContext): void {
  const expired = state.unacknowledged.filter((one) => one.expiresDue <= ctx.now);
  if (expired.length > 0) {
    state.unacknowledged = state.unacknowledged.filter((one) => !expired.includes(one));
    for (const gone of expired) drop(gone, "expired", ctx);
    keep(state, ctx);
  }
  resendNext(state, ctx);
}

/** When a kept result is due next: to be sent again, once none is on its way, or to be dropped. */
export function deliveryDue({ unacknowledged, link }: SessionState): number {
  const resendDue =
    link.kind === "online" && unacknowledged.length > 0 ? Math.max(...unacknowledged.map((result) => result.resendDue)) : Number.POSITIVE_INFINITY;
  return Math.min(resendDue, ...unacknowledged.map((result) => result.expiresDue));
}

function keep(state: SessionState, ctx: ReduceContext): void {
  ctx.effects.push({ type: "keep", results: state.unacknowledged.map(({ jobId, attempt, frame, completedAt }) => ({ jobId, attempt, frame, completedAt })) });
}

function drop({ jobId, attempt }: UnacknowledgedResult, reason: Extract<SessionNote, { type: "result_dropped" }>["reason"], ctx: ReduceContext): void {
  tell({ type: "result_dropped", job_id: jobId, attempt, reason }, ctx);
}

/** Storage in which finished results survive the process. */
export interface ResultShelf {
  load(): readonly KeptResult[];
  /** Replaces the stored results. It may throw; the session then continues and warns its owner. */
  save(results: readonly KeptResult[]): void;
}

const MAX_RESULTS = 16;
const MAX_CHARS = 16 * 1024 * 1024;

/** The newest results that fit the bounds of a shelf, oldest first. */
export function withinBounds<T extends KeptResult>(results: readonly T[]): T[] {
  let chars = 0;
  const newest = results.slice(-MAX_RESULTS).toReversed();
  const fitting = newest.findIndex((result) => (chars += result.frame.length) > MAX_CHARS);
  return newest.slice(0, fitting === -1 ? newest.length : fitting).toReversed();
}
