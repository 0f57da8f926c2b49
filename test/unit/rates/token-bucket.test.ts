import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RATES } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { type TakeResult, TokenBucket } from "../../../src/coordinator/rates/token-bucket.ts";
import { FrameBudget } from "../../../src/coordinator/hub/frame-budget.ts";

const { messagesPerSecond: PER_SECOND, messageBurst: BURST } = RATES;
const START = 1_750_000_000_000;
const fullBucket = (): TokenBucket => new TokenBucket({ perSecond: PER_SECOND, burst: BURST }, START);
/** A frame every so many ms until one ends the socket, or for `ms`; how long it took and the outcomes. */
function send(bucket: TokenBucket, from: number, every: number, ms: number): { kinds: TakeResult["kind"][]; took: number } {
  const kinds: TakeResult["kind"][] = [];
  for (let at = 0; at <= ms; at += every) {
    const { kind } = bucket.take(from + at);
    kinds.push(kind);
    if (kind === "flood") return { kinds, took: at };
  }
  return { kinds, took: ms };
}

describe("frames of one socket", () => {
  test("[LM2] a burst passes, the frame after it does not", () => {
    const bucket = fullBucket();
    for (let n = 0; n < BURST; n++) expect(bucket.take(START)).toEqual({ kind: "pass" });
    expect(bucket.take(START)).toEqual({ kind: "excess", nth: 1 });
    expect(bucket.take(START)).toEqual({ kind: "excess", nth: 2 });
  });

  test("[LM2] a frame counts its amount; a spared frame passes, uses the tokens that are left, and is not part of a flood", () => {
    const bucket = new TokenBucket({ perSecond: 10, burst: 100 }, START);
    expect(bucket.take(START, 60)).toEqual({ kind: "pass" });
    expect(bucket.take(START, 60)).toEqual({ kind: "excess", nth: 1 });
    expect(bucket.take(START, 40)).toEqual({ kind: "pass" });
    for (let at = START; at < START + 2 * TIMING.flood; at += 500) expect(bucket.take(at, 60, () => true)).toEqual({ kind: "pass" });
    expect(bucket.take(START + 2 * TIMING.flood, 60)).toEqual({ kind: "excess", nth: 1 });
    // No debt: a second later the tokens of a second are there.
    expect(bucket.take(START + 2 * TIMING.flood + 1_000, 10)).toEqual({ kind: "pass" });
  });

  test("[LM2] a sender that keeps the rate is never refused", () => {
    const { kinds } = send(fullBucket(), START, 1_000 / PER_SECOND, 60_000);
    expect(new Set(kinds)).toEqual(new Set(["pass"]));
  });

  test("[LM2] at twice the rate half of the frames are refused, and after 5 s the socket floods", () => {
    const bucket = fullBucket();
    send(bucket, START, 0.5, 50);
    const { kinds, took } = send(bucket, START + 50, 500 / PER_SECOND, 60_000);
    expect(kinds.at(-1)).toBe("flood");
    expect(took).toBeGreaterThanOrEqual(TIMING.flood - 100);
    expect(took).toBeLessThanOrEqual(TIMING.flood + 100);
    const passed = kinds.filter((kind) => kind === "pass").length;
    expect(passed / kinds.length).toBeGreaterThan(0.4);
  });

  test("[LM2] after a pause the flood is over", () => {
    const bucket = fullBucket();
    const once = (at: number) => Array.from({ length: BURST + 50 }, () => bucket.take(at).kind);
    for (let n = 0; n < 10; n++) expect(once(START + n * (TIMING.flood - 1))).not.toContain("flood");
  });

  test("[LM2] a clock that is set back by less than the bucket takes to fill gives nothing", () => {
    const bucket = fullBucket();
    for (let n = 0; n < BURST; n++) bucket.take(START);
    expect(bucket.take(START - (BURST / PER_SECOND) * 1_000).kind).toBe("excess");
    expect(bucket.take(START).kind).toBe("excess");
  });

  test("[LM2] after a clock was set back by hours a sender has its rate, and floods if it sends too much", () => {
    const bucket = fullBucket();
    for (let n = 0; n < BURST + 50; n++) bucket.take(START);
    const now = START - 3_600_000;
    expect(new Set(send(bucket, now, 1_000 / PER_SECOND, 60_000).kinds)).toEqual(new Set(["pass"]));
    send(bucket, now + 60_000, 0.5, 50);
    const { kinds, took } = send(bucket, now + 60_050, 500 / PER_SECOND, 60_000);
    expect(kinds.at(-1)).toBe("flood");
    expect(took).toBeLessThanOrEqual(TIMING.flood + 100);
  });

  test("[LM2] in no time span more passes than the burst and the rate allow", () => {
    const gaps = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 3_000 })), { maxLength: 400 });
    fc.assert(
      fc.property(gaps, fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 40 }), (before, perSecond, burst) => {
        const bucket = new TokenBucket({ perSecond, burst }, START);
        let at = START;
        const passed: number[] = [];
        for (const gap of before) {
          at += gap;
          if (bucket.take(at).kind === "pass") passed.push(at);
        }
        for (const [first, from] of passed.entries()) {
          for (const [n, to] of passed.slice(first).entries()) expect(n + 1).toBeLessThanOrEqual(burst + ((to - from) * perSecond) / 1_000 + 1e-6);
        }
      }),
      { numRuns: 300 },
    );
  });
});

test("[LM2] a budget counts updates apart from frames and bytes, at the rates of one socket", () => {
  const rate = (perSecond: number, burst: number) => ({ perSecond, burst });
  const { updatesPerSecond, updateBurst, bytesPerSecond, byteBurst } = RATES;
  const rates = { messages: rate(PER_SECOND, BURST), bytes: rate(bytesPerSecond, byteBurst), updates: rate(updatesPerSecond, updateBurst) };
  const budget = new FrameBudget(rates, START);
  for (let n = 0; n < updateBurst; n++) expect(budget.takeUpdate(START)).toEqual({ kind: "pass", of: "updates" });
  expect(budget.takeUpdate(START)).toEqual({ kind: "excess", nth: 1, of: "updates" });
  for (let n = 0; n < BURST; n++) expect(budget.take(START, 100, () => false).kind).toBe("pass");
  // A worker that keeps the rate is never refused, and one that announces again after a pause does not flood.
  for (let second = 1; second <= 60; second++) expect(budget.takeUpdate(START + second * 1_000).kind).toBe("pass");
  expect(budget.takeUpdate(START + 60_000).kind).toBe("excess");
  for (let at = 70_000; at <= 700_000; at += 10_000) expect([budget.takeUpdate(START + at).kind, budget.takeUpdate(START + at).kind]).toEqual(["pass", "pass"]);
});
