import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Deadlines } from "../../../src/coordinator/hub/timers.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it("[API6] all deadlines share one timer, and without a deadline there is no timer", () => {
  const deadlines = new Deadlines();
  const now = Date.now();
  const called: number[] = [];
  const takeBack = Array.from({ length: 12_000 }, (_, index) => deadlines.add(now + 1 + ((index * 7_919) % 12_000), () => called.push(index)));
  expect(vi.getTimerCount()).toBe(1);
  for (const index of [0, 5, 11_999]) takeBack[index]?.();
  vi.advanceTimersByTime(12_001);
  expect(called).toHaveLength(11_997);
  expect(called).not.toContain(5);
  const dues = called.map((index) => (index * 7_919) % 12_000);
  expect(dues).toEqual(dues.toSorted((a, b) => a - b));
  expect(vi.getTimerCount()).toBe(0);
  deadlines.add(Date.now() + 5, () => {})();
  expect(vi.getTimerCount()).toBe(0);
});

it("[API6] who waited until a deadline, and is done before it, leaves no timer", async () => {
  await new Deadlines().until(Date.now() + 60_000, Promise.resolve());
  expect(vi.getTimerCount()).toBe(0);
});

it("[API6] a deadline that is added later but is earlier comes first", () => {
  const deadlines = new Deadlines();
  const called: string[] = [];
  deadlines.add(Date.now() + 100, () => called.push("late"));
  deadlines.add(Date.now() + 10, () => called.push("soon"));
  vi.advanceTimersByTime(11);
  expect(called).toEqual(["soon"]);
  vi.advanceTimersByTime(100);
  expect(called).toEqual(["soon", "late"]);
});
