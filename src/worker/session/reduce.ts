// The pure core of a worker session: one event in, a changed state and effects out. On a job's way: from `job_assign` to `job_complete_ack`.
import { doubtsClock } from "./clock.ts";
import { acknowledged, deliveryDue, passDeliveryTime } from "./delivery.ts";
import { type ReceivedFrame, readCoordinatorFrame } from "./frames.ts";
import { leaveIfDone, leavingDue, stopSession } from "./leaving.ts";
import { announce, challenged, closed, dial, heard, linkDue, nudged, opened, passLinkTime, register, registered, woken } from "./link.ts";
import { assigned, cancelled, completed, failed, passRunTime, progressed, runDue, runtimeChanged } from "./running.ts";
import { currentConn, type SessionEvent, type SessionState, tell, type ReduceContext } from "./state.ts";

/** Applies one event: changes `state` and adds to `ctx.effects`. Time and randomness come from `ctx` only. */
export function reduce(state: SessionState, event: SessionEvent, ctx: ReduceContext): void {
  if (state.link.kind === "stopped") return;
  // A socket is disposable: a late event of an older one changes nothing.
  if ("conn" in event && event.conn !== currentConn(state)) return;
  const slept = noticeSleep(state, ctx);
  if (doubtsClock(state, ctx)) announce(state, ctx);
  switch (event.type) {
    case "start":
      // Results of an earlier process may be too old by now.
      passDeliveryTime(state, ctx);
      return state.link.kind === "idle" ? dial(state, ctx) : undefined;
    case "opened":
      return opened(state, ctx);
    case "frame": {
      const frame = readCoordinatorFrame(event.text);
      // The first frame after a sleep may have arrived before it, so it does not show that the link still works.
      if (!slept) heard(state, frame?.type === "heartbeat_ack", ctx);
      return frame === null ? undefined : applyFrame(state, frame, ctx);
    }
    case "closed":
      return closed(state, event.code, event.reason, ctx);
    case "signed":
      return state.link.kind === "signing" ? register(state, "signed", event.signature, ctx) : undefined;
    case "progress":
      return progressed(state, event, ctx);
    case "completed":
      return completed(state, event, ctx);
    case "failed":
      return failed(state, event, ctx);
    case "announce":
      state.profile = event.profile;
      return announce(state, ctx);
    case "runtime":
      return runtimeChanged(state, event.taken, ctx);
    case "drain":
      if (state.leaving !== null) return;
      state.leaving = { due: null, drainConn: null };
      tell({ type: "draining" }, ctx);
      return leaveIfDone(state, ctx);
    case "nudge":
      return nudged(state, ctx);
    case "stop":
      return stopSession(state, { reason: "stopped", message: "stopped" }, ctx);
    case "time":
      passRunTime(state, ctx);
      passDeliveryTime(state, ctx);
      passLinkTime(state, ctx);
      return leaveIfDone(state, ctx);
    default:
      return event satisfies never;
  }
}

/**
 * Notices a sleep: the session's clock stops while the machine sleeps, the wall clock does not. A wall clock that was set forward looks the same; that is safe.
 * True if there was one.
 */
function noticeSleep(state: SessionState, ctx: ReduceContext): boolean {
  const slept = ctx.wall - state.clocks.wall - (ctx.now - state.clocks.now);
  state.clocks = { now: ctx.now, wall: ctx.wall };
  if (slept < state.timing.asleep) return false;
  woken(state, slept, ctx);
  return true;
}

function applyFrame(state: SessionState, frame: ReceivedFrame, ctx: ReduceContext): void {
  switch (frame.type) {
    case "challenge":
      return challenged(state, frame, ctx);
    case "register_ack":
      return registered(state, frame, ctx);
    case "heartbeat_ack":
      return;
    case "job_assign":
      return state.link.kind === "online" ? assigned(state, frame, ctx) : undefined;
    case "job_complete_ack":
      acknowledged(state, frame, ctx);
      return leaveIfDone(state, ctx);
    case "job_cancel":
      return cancelled(state, frame.job_id, frame.attempt ?? null, frame.reason ?? "no reason given", ctx);
    case "tier":
      return state.link.kind === "online" ? tell({ type: "tier", tier: frame.tier }, ctx) : undefined;
    case "drained":
      if (state.link.kind === "online") state.link.drained = true;
      return leaveIfDone(state, ctx);
    case "error":
      if (frame.code === "parked") state.parkedFor = frame.retry_after_s ?? null;
      return tell({ type: "warning", code: frame.code, message: `the coordinator reports: ${frame.message ?? frame.code}` }, ctx);
    default:
      return frame satisfies never;
  }
}

/** When a `time` event is next due, on the session's clock; Infinity for never. */
export function nextDue(state: SessionState): number {
  if (state.link.kind === "stopped") return Number.POSITIVE_INFINITY;
  return Math.min(linkDue(state), runDue(state), deliveryDue(state), leavingDue(state));
}
