// The end of a session: a worker that leaves finishes and delivers first [WS11]; every other reason ends it at once.
import { CLOSE } from "../../protocol/worker-messages.ts";
import { reject } from "./delivery.ts";
import { currentConn, type ReduceContext, sendFrame, type SessionState, type Stop, tell } from "./state.ts";

const LEFT = { reason: "drained", message: "every job is finished, and the coordinator has every result" } as const;
const LEFT_UNUSED = { reason: "drained", message: "this worker has ended" } as const;
const LEFT_WITH_RESULTS = { reason: "drained", message: "left without the last acknowledgement; the unacknowledged results are kept" } as const;
const LEFT_WITH_FAILURE = { reason: "drained", message: "left before the coordinator was told that a job has failed" } as const;

/** Continues the leaving of a worker: sends `drain` once per socket, and ends the session when nothing is left to do. */
export function leaveIfDone(state: SessionState, ctx: ReduceContext): void {
  const { leaving, link } = state;
  if (leaving === null || link.kind === "stopped") return;
  if (link.kind === "online" && leaving.drainConn !== link.conn) {
    leaving.drainConn = link.conn;
    sendFrame(state, { type: "drain" }, ctx);
  }
  if (state.waiting !== null) {
    reject(state, state.waiting.assign.job_id, "draining", ctx);
    state.waiting = null;
  }
  if (state.job !== null) return;
  leaving.due ??= ctx.now + state.timing.leave;
  const missing = state.unacknowledged.length > 0 ? LEFT_WITH_RESULTS : state.failures.length > 0 ? LEFT_WITH_FAILURE : null;
  const whole = state.hasWorked ? LEFT : LEFT_UNUSED;
  if (missing === null && (link.kind !== "online" || link.drained)) return stopSession(state, whole, ctx);
  if (leaving.due <= ctx.now) stopSession(state, missing ?? whole, ctx);
}

/** When a leaving worker stops waiting. */
export function leavingDue(state: SessionState): number {
  return state.leaving?.due ?? Number.POSITIVE_INFINITY;
}

/** Ends the session for good. A run is aborted; kept results stay on the shelf. */
export function stopSession(state: SessionState, stop: Stop, ctx: ReduceContext): void {
  if (state.link.kind === "stopped") return;
  if (state.job !== null) ctx.effects.push({ type: "abort", jobId: state.job.jobId, attempt: state.job.attempt, timedOut: false });
  state.job = null;
  state.waiting = null;
  closeSocket(state, stop.reason === "drained" ? "drained" : "", ctx);
  state.link = { kind: "stopped", stop };
  tell({ type: "stopped", ...stop }, ctx);
}

/** Closes the current socket, if there is one. */
export function closeSocket(state: SessionState, reason: string, ctx: ReduceContext): void {
  const conn = currentConn(state);
  if (conn !== null) ctx.effects.push({ type: "close", conn, code: CLOSE.normal, reason });
}
