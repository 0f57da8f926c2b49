import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Deadlines, Waits } from "../../../src/coordinator/hub/timers.ts";
import { LIMITS, MiB } from "../../../src/protocol/limits.ts";
import { keptBytes } from "../../support/kept-memory.ts";

const LONG = 3_600_000;

/** Sends this many requests that wait, and returns how many of them really wait: the others are answered at once. */
async function waiting(waits: Waits, count: number, jobId: (index: number) => string, waiter: Parameters<Waits["wait"]>[3]): Promise<number> {
  let left = 0;
  for (let index = 0; index < count; index++) void waits.wait(jobId(index), LONG, Date.now(), waiter).then(() => left++);
  await new Promise((resolve) => setImmediate(resolve));
  return count - left;
}

describe("requests that wait", () => {
  const poll = (owner: string | null) => ({ owner, isCommit: false });

  test("[API6, LM1] 200 of one client and 2,000 in all may wait; the others get the present state, until a job ends", async () => {
    expect([LIMITS.waitsPerClient, LIMITS.waits]).toEqual([200, 2_000]);
    const deadlines = new Deadlines();
    const waits = new Waits(deadlines);
    expect(await waiting(waits, 300, () => "one", poll("a"))).toBe(LIMITS.waitsPerClient);
    expect(await waiting(waits, 10, () => "two", poll("b"))).toBe(10);
    // Of clients that are not known any one may have all that is left.
    expect(await waiting(waits, 3_000, () => "three", poll(null))).toBe(LIMITS.waits - LIMITS.waitsPerClient - 10);
    expect(await waiting(waits, 1, () => "four", poll("c"))).toBe(0);
    waits.ended("one");
    expect(await waiting(waits, 300, () => "four", poll("a"))).toBe(LIMITS.waitsPerClient);
    for (const job of ["two", "three", "four"]) waits.ended(job);
    expect(await waiting(waits, 3_000, () => "five", poll(null))).toBe(LIMITS.waits);
    deadlines.passAll();
    expect(await waiting(waits, 300, () => "six", poll("a"))).toBe(LIMITS.waitsPerClient);
    waits.ended("six");
  });

  test("[API5, LM1] of the commits for one job 8 may wait, because each keeps its body; polls of it are not counted", async () => {
    const waits = new Waits(new Deadlines());
    const commit = { owner: null, isCommit: true };
    expect(await waiting(waits, 20, () => "one", commit)).toBe(LIMITS.waitersPerKey);
    expect(await waiting(waits, 20, (index) => `job ${index}`, commit)).toBe(20);
    expect(await waiting(waits, 20, () => "one", poll(null))).toBe(20);
    waits.ended("one");
    expect(await waiting(waits, 20, () => "one", commit)).toBe(LIMITS.waitersPerKey);
    waits.ended("one");
    for (let index = 0; index < 20; index++) waits.ended(`job ${index}`);
  });
});

test("[LM1] waits that have ended leave nothing in memory", () => {
  const waits = new Waits(new Deadlines());
  const kept = keptBytes(() => {
    for (let i = 0; i < 50_000; i++) {
      void waits.wait(`job ${i}`, LONG, 0, { owner: "a", isCommit: true });
      waits.ended(`job ${i}`);
    }
  });
  expect(kept).toBeLessThan(2 * MiB);
});

test("[API6] many waits that end in time use one timer", async () => {
  const deadlines = new Deadlines();
  const set = vi.spyOn(globalThis, "setTimeout");
  onTestFinished(() => set.mockRestore());
  const open = Promise.withResolvers<void>();
  const waits = Array.from({ length: 1_000 }, () => deadlines.until(Date.now() + LONG, open.promise));
  expect(set).toHaveBeenCalledTimes(1);
  // One that ends earlier moves the timer.
  const late = deadlines.until(Date.now() + 5);
  expect(set).toHaveBeenCalledTimes(2);
  await late;
  open.resolve();
  await Promise.all(waits);
});
