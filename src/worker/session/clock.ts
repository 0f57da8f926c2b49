import { parseIsoTime } from "../../protocol/text.ts";
import { type ClockVerdict, type SessionState, tell, type ReduceContext } from "./state.ts";

/** Learns the coordinator's time from its answer to a registration [WS4]. Without a time in the answer the clock is not judged. */
export function learnTime(state: SessionState, time: string | null | undefined, ctx: ReduceContext): void {
  const theirs = parseIsoTime(time ?? "");
  state.coordinatorOffset = theirs === null ? null : theirs - ctx.now;
  judgeClock(state, ctx);
}

/** The coordinator's time now, in ms since the epoch; null while it is unknown. It advances with the session's monotonic clock. */
export function coordinatorTime(state: SessionState, ctx: ReduceContext): number | null {
  return state.coordinatorOffset === null ? null : ctx.now + state.coordinatorOffset;
}

/** Tells the owner if the verdict on this machine's clock has changed. */
export function judgeClock(state: SessionState, ctx: ReduceContext): void {
  const theirs = coordinatorTime(state, ctx);
  if (theirs === null) return;
  const off = Math.round(ctx.wall - theirs);
  const verdict = verdictOf(Math.abs(off), state.timing);
  if (verdict === state.clock) return;
  state.clock = verdict;
  tell({ type: "clock", verdict, off_ms: off }, ctx);
}

/** True if the coordinator would refuse a receipt with the time of this machine's clock [RC3]. After a sleep the offset is not known, so this is false. */
export function isClockRefused(state: SessionState, ctx: ReduceContext): boolean {
  return state.clock === "refused" && coordinatorTime(state, ctx) !== null;
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
