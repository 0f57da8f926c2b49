import { TIMING } from "../../protocol/limits.ts";

/** What one socket has sent lately: a token bucket, and since when it has been sending too much. Times in ms. */
export type Flow = { tokens: number; filledAt: number; floodSince: number; refusedAt: number; refused: number };

/** What becomes of a frame: it is read, or is one too many (the `nth` of this flood), or the last straw. */
export type Passage = { kind: "pass" } | { kind: "excess"; nth: number } | { kind: "flood" };

/** A full bucket. */
export function freshFlow(burst: number, now: number): Flow {
  return { tokens: burst, filledAt: now, floodSince: now, refusedAt: Number.NEGATIVE_INFINITY, refused: 0 };
}

/**
 * Takes one frame: `burst` at once and `perSecond` in the long run pass [LM2]. A socket that goes on sending too much for
 * {@link TIMING.flood}, without having kept its rate for {@link TIMING.floodOver} in between, floods. Changes `flow` in place.
 */
export function takeFrame(flow: Flow, perSecond: number, burst: number, now: number): Passage {
  const at = Math.max(now, flow.filledAt);
  flow.tokens = Math.min(burst, flow.tokens + ((at - flow.filledAt) * perSecond) / 1_000);
  flow.filledAt = at;
  if (flow.tokens >= 1) {
    flow.tokens--;
    return { kind: "pass" };
  }
  if (at - flow.refusedAt > TIMING.floodOver) {
    flow.floodSince = at;
    flow.refused = 0;
  }
  flow.refusedAt = at;
  flow.refused++;
  return at - flow.floodSince >= TIMING.flood ? { kind: "flood" } : { kind: "excess", nth: flow.refused };
}
