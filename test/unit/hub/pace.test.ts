import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Pace } from "../../../src/coordinator/hub/pace.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";

const NOW = Date.UTC(2026, 4, 6);
const { journalGatheringMax, journalPause, journalRest } = TUNING;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "setTimeout"], now: NOW }));
afterEach(() => void vi.useRealTimers());

/** How long a batch waits that begins now: `turn` for the end of this turn, without a timer, otherwise the ms of its timer. */
async function waitOf(pace: Pace): Promise<"turn" | number> {
  let isWritten = false;
  const began = Date.now();
  pace.next(() => (isWritten = true));
  if (isWritten) throw new Error("the batch was written during the call");
  await Promise.resolve();
  if (isWritten) return "turn";
  vi.advanceTimersToNextTimer();
  const waited = Date.now() - began;
  vi.setSystemTime(began);
  return waited;
}

/** A pace whose last write took so long to be on the disk. */
function afterSync(ms: number): Pace {
  const pace = new Pace();
  pace.written();
  vi.setSystemTime(Date.now() + ms);
  pace.synced();
  return pace;
}

test("at rest a batch is written at the end of the turn that began it; soon after a write a timer of 0 ms lets others share it", async () => {
  expect(await waitOf(new Pace())).toBe("turn");
  const pace = afterSync(0);
  expect(await waitOf(pace)).toBe(0);
  vi.setSystemTime(NOW + journalRest - 1);
  expect(await waitOf(pace)).toBe(0);
  vi.setSystemTime(NOW + journalRest);
  expect(await waitOf(pace)).toBe("turn");
});

test("while a sync lasts a batch waits half as long as the sync has taken, and it does not rest", async () => {
  const pace = new Pace();
  pace.written();
  expect(await waitOf(pace)).toBe(0);
  // The sync has stopped the hub. The events that have come meanwhile may be handled before the hub hears of its end.
  vi.setSystemTime(NOW + journalRest + 2);
  expect(await waitOf(pace)).toBe((journalRest + 2) / 2);
});

test("on a slow disk what has come during a sync is written together, and not at the first of these events", async () => {
  const pace = afterSync(6);
  expect(await waitOf(pace)).toBe(3);
  vi.setSystemTime(NOW + 6 + journalRest);
  expect(await waitOf(pace), "the hub rests only when the batch is not to wait any more").toBe(3 - journalRest);
  vi.setSystemTime(NOW + 6 + 3);
  expect(await waitOf(pace)).toBe("turn");
  expect(await waitOf(afterSync(60_000)), "after a very slow sync").toBe(journalGatheringMax);
});

test("a clock that was set back makes the time no longer", async () => {
  const pace = afterSync(6);
  vi.setSystemTime(NOW - 60_000);
  expect(await waitOf(pace)).toBe(journalGatheringMax);
});

test("after a failed write the next batch waits for the pause, until a write succeeds", async () => {
  const pace = afterSync(0);
  vi.setSystemTime(NOW + 60_000);
  pace.failed();
  expect(await waitOf(pace)).toBe(journalPause);
  pace.written();
  pace.synced();
  expect(await waitOf(pace)).toBe(0);
});

/** When the changes of a message are written that begin so many batches: `turn` at its end, otherwise the ms of the timer; and how often. */
async function gatheredBy(pace: Pace, batches: number): Promise<{ at: "turn" | number; times: number }> {
  let times = 0;
  const began = Date.now();
  const write = (): void => void times++;
  await pace.gather(() => {
    for (let n = 0; n < batches; n++) pace.next(write);
    void Promise.resolve().then(() => pace.next(write));
  }, write);
  if (times > 0) return { at: "turn", times };
  vi.advanceTimersToNextTimer();
  return { at: Date.now() - began, times };
}

test("what a message brings, now or in its microtasks, is written once, at the end of its turn, also soon after a write", async () => {
  expect(await gatheredBy(afterSync(0), 2)).toEqual({ at: "turn", times: 1 });
  expect(await gatheredBy(new Pace(), 0)).toEqual({ at: "turn", times: 1 });
  expect(vi.getTimerCount()).toBe(0);
});

test("after a slow sync or a failed write it waits as any other batch", async () => {
  expect(await gatheredBy(afterSync(6), 2)).toEqual({ at: 3, times: 1 });
  const failed = afterSync(0);
  failed.failed();
  expect(await gatheredBy(failed, 1)).toEqual({ at: journalPause, times: 1 });
});

test("a message that cannot be read to its end has its changes written, and batches after it are written as ever", async () => {
  const pace = afterSync(0);
  const write = vi.fn<() => void>();
  const broken = pace.gather(() => {
    pace.next(write);
    throw new Error("broken");
  }, write);
  await expect(broken).rejects.toThrow("broken");
  expect(write).toHaveBeenCalledTimes(1);
  expect(await waitOf(pace)).toBe(0);
});
