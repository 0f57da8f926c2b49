// This machine's clock against the coordinator's, because a receipt with a wrong time is refused. On a job's way: whether the worker takes it [WS4, RC3].
import { parseIsoTime } from "../../protocol/text.ts";
import { type ClockVerdict, type SessionState, tell, type ReduceContext } from "./state.ts";

/**
 * Learns the coordinator's time from its answer to a registration [WS4], and tells the owner the verdict. Without a time in the answer the clock is not judged.
 */
export function learnTime(state: SessionState, time: string | null | undefined, ctx: ReduceContext): void {
  const theirs = parseIsoTime(time ?? "");
  state.coordinatorOffset = theirs === null ? null : theirs - ctx.now;
  const verdict = clockVerdict(state, ctx);
  if (verdict === null) return;
  state.askTimeDue = verdict === "right" ? ctx.now : ctx.now + state.timing.askTime;
  tellVerdict(state, verdict, ctx);
}

/** The coordinator's time now, in ms since the epoch; null while it is unknown. It advances with the session's monotonic clock. */
export function coordinatorTime(state: SessionState, ctx: ReduceContext): number | null {
  return state.coordinatorOffset === null ? null : ctx.now + state.coordinatorOffset;
}

/**
 * Judges this machine's clock between two answers of the coordinator. True if the coordinator must be asked for its time, at most once a minute: its clock may
 * have been set, or the session's clock has stood still, so the owner hears only of a difference that the coordinator confirms.
 */
export function doubtsClock(state: SessionState, ctx: ReduceContext): boolean {
  const verdict = clockVerdict(state, ctx);
  if (verdict === "right") tellVerdict(state, verdict, ctx);
  if (verdict === null || verdict === "right" || ctx.now < state.askTimeDue) return false;
  state.askTimeDue = ctx.now + state.timing.askTime;
  return true;
}

/** True if the coordinator would refuse a receipt with the time of this machine's clock [RC3]. After a sleep the offset is not known, so this is false. */
export function isClockRefused(state: SessionState, ctx: ReduceContext): boolean {
  return clockVerdict(state, ctx) === "refused";
}

/** How far this machine's clock is ahead of the coordinator's, in ms; null while that is unknown. */
function clockOff(state: SessionState, ctx: ReduceContext): number | null {
  const theirs = coordinatorTime(state, ctx);
  return theirs === null ? null : Math.round(ctx.wall - theirs);
}

function clockVerdict(state: SessionState, ctx: ReduceContext): ClockVerdict | null {
  const off = clockOff(state, ctx);
  return off === null ? null : verdictOf(Math.abs(off), state.timing);
}

function tellVerdict(state: SessionState, verdict: ClockVerdict, ctx: ReduceContext): void {
  if (verdict === state.toldClock) return;
  state.toldClock = verdict;
  tell({ type: "clock", verdict, off_ms: clockOff(state, ctx) ?? 0 }, ctx);
}

/** The verdict on a clock. @param off how far the clock is off in either direction, in ms */
export function verdictOf(off: number, limits: { clockDoubtful: number; clockRefused: number }): ClockVerdict {
  if (off > limits.clockRefused) return "refused";
  return off > limits.clockDoubtful ? "doubtful" : "right";
}

/** A verdict as a sentence. `off` is in ms, positive for a clock that is ahead. */
export function clockSentence(verdict: ClockVerdict, off: number): string {
  if (verdict === "right") return "this machine's clock agrees with the coordinator's again";
  const fact = `this machine's clock is ${offText(off)} the coordinator's`;
  return verdict === "doubtful"
    ? `WARNING: ${fact}; set it soon: if it is off by more than 5 min, the coordinator refuses the receipts`
    : `WARNING: ${fact}: this worker takes no job until the clock is set, because the coordinator would refuse every receipt`;
}

/** How far a clock is off, in words: `7 min 3 s behind`. */
export function offText(off: number): string {
  const seconds = Math.round(Math.abs(off) / 1000);
  const size = seconds < 120 ? `${seconds} s` : seconds < 7_200 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${Math.round(seconds / 3_600)} h`;
  return `${size} ${off < 0 ? "behind" : "ahead of"}`;
}
