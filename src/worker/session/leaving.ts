import { CLOSE } from "../../protocol/worker-messages.ts";
import { sendFrame, type Turn } from "./session-event.ts";
import type { SessionState } from "./state.ts";

const LEFT = { reason: "drained", message: "drained: every job is finished and acknowledged" } as const;
const LEFT_EARLY = { reason: "drained", message: "left without the last acknowledgement; the unacknowledged results are kept" } as const;

/** Continues the leaving of a worker [WS11]: sends `drain` once per socket, and ends the session when nothing is left to do. */
export function leaveIfDone(state: SessionState, turn: Turn): void {
  const { leaving, link } = state;
  if (leaving === null || link.kind === "stopped") return;
  if (link.kind === "online" && leaving.toldConn !== link.conn) {
    leaving.toldConn = link.conn;
    turn.effects.push({ type: "send", conn: link.conn, text: '{"type":"drain"}' });
  }
  if (state.waiting !== null) {
    sendFrame(state, { type: "job_reject", job_id: state.waiting.assign.job_id, reason: "draining" }, turn);
    state.waiting = null;
  }
  if (state.job !== null) return;
  leaving.due ??= turn.now + state.timing.leave;
  const settled = state.held.length === 0 && state.failures.length === 0;
  if (settled && (link.kind !== "online" || link.drained)) return leave(state, LEFT, turn);
  if (leaving.due <= turn.now) leave(state, settled ? LEFT : LEFT_EARLY, turn);
}

function leave(state: SessionState, stop: typeof LEFT | typeof LEFT_EARLY, turn: Turn): void {
  if ("conn" in state.link) turn.effects.push({ type: "close", conn: state.link.conn, code: CLOSE.normal, reason: "drained" });
  state.link = { kind: "stopped", stop };
  turn.effects.push({ type: "note", note: { type: "stopped", ...stop } });
}

/** When a leaving worker stops waiting. */
export function leavingDue(state: SessionState): number {
  return state.leaving?.due ?? Number.POSITIVE_INFINITY;
}
