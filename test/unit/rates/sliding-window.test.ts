import * as fc from "fast-check";
import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { SlidingWindow } from "../../../src/coordinator/rates/sliding-window.ts";

const PERIOD = 10_000;
const START = 1_750_000_000_000;
/** Requests of one client: how long after the one before. */
const gaps = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 15_000 })), { minLength: 1, maxLength: 300 });
const limit = fc.integer({ min: 1, max: 20 });

/** When each request came, and whether it was let through. */
function run(gapsBefore: number[], most: number): { at: number; ok: boolean; retryAfter: number }[] {
  const count = new SlidingWindow(PERIOD, 10);
  let at = START;
  return gapsBefore.map((gap) => {
    at += gap;
    const pass = count.take("client", most, at);
    return { at, ok: pass.ok, retryAfter: pass.ok ? 0 : pass.reason.retryAfter };
  });
}

test("[LM2] no time span of one period has more than the limit, wherever it begins", () => {
  fc.assert(
    fc.property(gaps, limit, (before, most) => {
      const passed = run(before, most).filter(({ ok }) => ok);
      for (const [first, { at }] of passed.entries()) {
        const within = passed.slice(first).filter((other) => other.at - at < PERIOD).length;
        expect(within).toBeLessThanOrEqual(most);
      }
    }),
    { numRuns: 500 },
  );
});

test("[LM2] a client that has kept the limit for 1.1 periods is not refused", () => {
  fc.assert(
    fc.property(gaps, limit, (before, most) => {
      const all = run(before, most);
      for (const [index, { at, ok }] of all.entries()) {
        const counted = all.slice(0, index).filter((other) => other.ok && at - other.at < PERIOD * 1.1).length;
        if (!ok) expect(counted).toBeGreaterThanOrEqual(most);
      }
    }),
    { numRuns: 500 },
  );
});

test("[API1] after Retry-After a client is allowed, and a millisecond before it is not", () => {
  fc.assert(
    fc.property(gaps, limit, (before, most) => {
      const count = new SlidingWindow(PERIOD, 10);
      let at = START;
      for (const gap of before) {
        at += gap;
        const pass = count.take("client", most, at);
        if (pass.ok) continue;
        expect(pass.reason.retryAfter).toBeGreaterThan(0);
        expect(pass.reason.retryAfter).toBeLessThanOrEqual(PERIOD * 1.1);
        expect(count.take("client", most, at + pass.reason.retryAfter - 1).ok).toBe(false);
        expect(count.take("client", most, at + pass.reason.retryAfter).ok).toBe(true);
        return;
      }
    }),
    { numRuns: 500 },
  );
});

test("[LM2] up to the limit a client is allowed, above it is refused; another client is still allowed", () => {
  const count = new SlidingWindow(PERIOD, 10);
  for (let n = 0; n < 7; n++) expect(count.take("a", 7, START + n)).toEqual({ ok: true, value: null });
  expect(count.take("a", 7, START + 8).ok).toBe(false);
  expect(count.take("b", 7, START + 8).ok).toBe(true);
});

test("[LM2] an IPv6 /48 is counted too: it may do as much as eight of its /64 networks, and another /48 is not affected", () => {
  const count = new SlidingWindow(PERIOD, 1_000);
  const [limit, all] = [3, 3 * LIMITS.clientsPerNetwork];
  let allowed = 0;
  for (let n = 0; n < 100; n++) if (count.take(`2001:db8:1:${n.toString(16)}::/64`, limit, START).ok) allowed++;
  expect(allowed).toBe(all);
  const late = count.take("2001:db8:1:ffff::/64", limit, START);
  expect(late.ok ? 0 : late.reason.retryAfter).toBeGreaterThan(0);
  for (let n = 0; n < limit; n++) expect(count.take("2001:db8:2:1::/64", limit, START).ok).toBe(true);
  expect(count.take("2001:db8:2:1::/64", limit, START).ok).toBe(false);
  expect(count.take("2001:db8:2:2::/64", limit, START).ok).toBe(true);
  expect(count.take("2001:db8:1:ffff::/64", limit, START + 2 * PERIOD).ok).toBe(true);
});

test("[LM2] with a limit of 0 everything is refused", () => {
  expect(new SlidingWindow(PERIOD, 10).take("a", 0, START)).toMatchObject({ ok: false });
});

test("[LM2] a clock that is set back by less than a period neither makes room nor loses a count", () => {
  const count = new SlidingWindow(PERIOD, 10);
  expect(count.take("a", 1, START)).toEqual({ ok: true, value: null });
  expect(count.take("a", 1, START - PERIOD / 2).ok).toBe(false);
  expect(count.take("a", 1, START + 2 * PERIOD)).toEqual({ ok: true, value: null });
});

test("[LM2] after a clock was set back by hours a client is counted anew, and waits no longer than before", () => {
  const count = new SlidingWindow(PERIOD, 10);
  for (let n = 0; n < 7; n++) count.take("a", 7, START);
  const now = START - 3_600_000;
  for (let n = 0; n < 7; n++) expect(count.take("a", 7, now).ok).toBe(true);
  const refused = count.take("a", 7, now);
  expect(refused.ok ? 0 : refused.reason.retryAfter).toBeGreaterThan(0);
  expect(refused.ok ? 0 : refused.reason.retryAfter).toBeLessThanOrEqual(1.1 * PERIOD);
  expect(count.take("a", 7, now + 1.1 * PERIOD).ok).toBe(true);
});

test("[LM2] memory is bounded: the client that was silent for longest is forgotten, not one that keeps asking", () => {
  const count = new SlidingWindow(PERIOD, 3);
  for (const key of ["a", "b", "c"]) count.take(key, 1, START);
  expect(count.take("a", 1, START).ok).toBe(false);
  count.take("d", 1, START);
  expect(count.size).toBe(3);
  expect(count.take("a", 1, START).ok).toBe(false);
  expect(count.take("b", 1, START).ok).toBe(true);
});

test("[LM2] ever new clients of one IPv6 /48, which are refused, do not make the count of another client forgotten", () => {
  const count = new SlidingWindow(PERIOD, 50);
  for (let n = 0; n < 5; n++) expect(count.take("192.0.2.1", 5, START).ok).toBe(true);
  const newcomers = Array.from({ length: 500 }, (_, n) => count.take(`2001:db8:1:${(n + 1).toString(16)}::/64`, 1, START).ok);
  expect(newcomers.filter((ok) => ok)).toHaveLength(LIMITS.clientsPerNetwork);
  expect(count.take("192.0.2.1", 5, START).ok).toBe(false);
});
