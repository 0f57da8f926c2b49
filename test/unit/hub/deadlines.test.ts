import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { Deadlines } from "../../../src/coordinator/hub/timers.ts";

afterEach(() => vi.restoreAllMocks());

test("[API6] an error in one deadline does not stop the others", async () => {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  const deadlines = new Deadlines();
  const now = Date.now();
  const broken = (): never => {
    throw new Error("damaged");
  };
  deadlines.add(now - 2, broken);
  // In the same turn of the timer, and on the next one.
  await new Promise<void>((resolve) => deadlines.add(now - 1, resolve));
  deadlines.add(now - 1, broken);
  await new Promise<void>((resolve) => deadlines.add(now + 5, resolve));
  const far = now + 3_600_000;
  deadlines.add(far, broken);
  await new Promise<void>((resolve) => {
    deadlines.add(far + 1, resolve);
    // The clock was put back.
    deadlines.passAll();
  });
  expect(log.mock.calls.map(([line]) => String(JSON.parse(String(line)).event))).toEqual(Array.from({ length: 3 }, () => "deadline_failed"));
});

test("[API6] each deadline is called at its time, and when none is left there is no timer, which would keep the hub awake", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const deadlines = new Deadlines();
  const called: number[] = [];
  for (const ms of [20, 10, 30]) deadlines.add(Date.now() + ms, () => called.push(ms));
  await vi.advanceTimersByTimeAsync(10);
  expect(called).toEqual([10]);
  await vi.advanceTimersByTimeAsync(20);
  expect(called).toEqual([10, 20, 30]);
  await deadlines.until(Date.now() + 3_600_000, Promise.resolve());
  expect(vi.getTimerCount()).toBe(0);
});
