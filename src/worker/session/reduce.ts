// The pure core of a worker session: one event in, a changed state and effects out. It covers a job's way from `job_assign` to `job_complete_ack`.
import { judgeClock } from "./clock.ts";
import { acknowledged, deliveryDue, passDeliveryTime } from "./delivery.ts";
import { type CoordinatorFrame, readCoordinatorFrame } from "./frames.ts";
import { assigned, cancelled, completed, failed, leaveIfDone, leavingDue, passRunTime, progressed, runDue, runtimeChanged } from "./running.ts";
import { announce, challenged, closed, dial, heard, linkDue, nudged, opened, passLinkTime, register, registered, stopSession, woken } from "./link.ts";
import { type SessionEvent, tell, type Turn } from "./session-event.ts";
import { presentConn, type SessionState } from "./state.ts";

/** Applies one event: changes `state` and adds to `turn.effects`. Time and randomness come from the turn only. */
export function reduce(state: SessionState, event: SessionEvent, turn: Turn): void {
  if (state.link.kind === "stopped") return;
  // A socket is disposable: a late event of an older one changes nothing.
  if ("conn" in event && event.conn !== presentConn(state)) return;
  noticeSleep(state, turn);
  switch (event.type) {
    case "start":
      return state.link.kind === "idle" ? dial(state, turn) : undefined;
    case "opened":
      return opened(state, turn);
    case "frame": {
      const frame = readCoordinatorFrame(event.text);
      heard(state, frame?.type === "heartbeat_ack", turn);
      return frame === null ? undefined : understood(state, frame, turn);
    }
    case "closed":
      return closed(state, event.code, event.reason, turn);
    case "signed":
      return state.link.kind === "signing" ? register(state, "signed", event.signature, turn) : undefined;
    case "progress":
      return progressed(state, event, turn);
    case "completed":
      return completed(state, event, turn);
    case "failed":
      return failed(state, event, turn);
    case "announce":
      state.profile = event.profile;
      return announce(state, turn);
    case "runtime":
      return runtimeChanged(state, event.taken, turn);
    case "drain":
      if (state.leaving !== null) return;
      state.leaving = { due: null, toldConn: null };
      tell({ type: "draining" }, turn);
      return leaveIfDone(state, turn);
    case "nudge":
      return nudged(state, turn);
    case "stop":
      return stopSession(state, { reason: "stopped", message: "stopped" }, turn);
    case "time":
      passRunTime(state, turn);
      passDeliveryTime(state, turn);
      passLinkTime(state, turn);
      return leaveIfDone(state, turn);
    default:
      return event satisfies never;
  }
}

/** Notices a sleep: the session's clock stops while the machine sleeps, the wall clock does not. A wall clock that was set forward looks the same; that is safe. */
function noticeSleep(state: SessionState, turn: Turn): void {
  const slept = turn.wall - state.clocks.wall - (turn.now - state.clocks.now);
  state.clocks = { now: turn.now, wall: turn.wall };
  if (slept >= state.timing.asleep) woken(state, slept, turn);
  judgeClock(state, turn);
}

function understood(state: SessionState, frame: CoordinatorFrame, turn: Turn): void {
  switch (frame.type) {
    case "challenge":
      return challenged(state, frame, turn);
    case "register_ack":
      return registered(state, frame, turn);
    case "heartbeat_ack":
      return;
    case "job_assign":
      return state.link.kind === "online" ? assigned(state, frame, turn) : undefined;
    case "job_complete_ack":
      acknowledged(state, frame, turn);
      return leaveIfDone(state, turn);
    case "job_cancel":
      return cancelled(state, frame.job_id, frame.attempt ?? null, frame.reason ?? "no reason given", turn);
    case "tier":
      return state.link.kind === "online" ? tell({ type: "tier", tier: frame.tier }, turn) : undefined;
    case "drained":
      if (state.link.kind === "online") state.link.drained = true;
      return leaveIfDone(state, turn);
    case "error":
      if (frame.code === "parked") state.parkedFor = frame.retry_after_s ?? null;
      return tell({ type: "warning", code: frame.code, message: `the coordinator reports: ${frame.message ?? frame.code}` }, turn);
    default:
      return frame satisfies never;
  }
}

/** When a `time` event is next due, on the session's clock; Infinity for never. */
export function nextDue(state: SessionState): number {
  if (state.link.kind === "stopped") return Number.POSITIVE_INFINITY;
  return Math.min(linkDue(state), runDue(state), deliveryDue(state), leavingDue(state));
}
