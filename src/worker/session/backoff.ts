import type { SessionTiming } from "./timing.ts";

/** Milliseconds before try number `tries` (0 is the first): full jitter below a bound that doubles from 5 s to 30 s [WS4]. */
export function reconnectDelay(tries: number, timing: SessionTiming, random: number): number {
  // 2 ** 1100 is Infinity, which Math.min takes as it should.
  return Math.round(random * Math.min(timing.reconnectMax, timing.reconnectFirst * 2 ** tries));
}

/** Milliseconds that a parked worker stays away: what the coordinator says, at most an hour, and a little jitter [WS4]. */
export function parkDelay(retryAfterS: number | null | undefined, timing: SessionTiming, random: number): number {
  const stated = typeof retryAfterS === "number" && retryAfterS > 0 ? retryAfterS * 1000 : timing.park;
  return Math.round(Math.min(stated, timing.parkMax) + random * timing.reconnectFirst);
}
