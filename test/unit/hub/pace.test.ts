import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Payment } from "../../../src/coordinator/dispatch/index.ts";
import { Batch, Pace } from "../../../src/coordinator/hub/batch.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";

const NOW = Date.UTC(2026, 4, 6);
const { journalGathering, journalPause, journalSpacing, journalSpacingMax } = TUNING;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
afterEach(() => void vi.useRealTimers());

test("at rest a batch is written at once", () => {
  const pace = new Pace();
  expect(pace.left()).toBe(0);
  pace.written(1_000);
  pace.synced();
  vi.setSystemTime(NOW + journalSpacingMax);
  expect(pace.left()).toBe(0);
});

test("at rest a batch is written at the end of the turn that began it, without a timer, and otherwise when its time is over", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout"], now: NOW });
  const pace = new Pace();
  const write = vi.fn<() => void>();
  pace.next(write);
  expect(write).not.toHaveBeenCalled();
  await Promise.resolve();
  expect(write).toHaveBeenCalledOnce();
  pace.written(1);
  pace.next(write);
  vi.advanceTimersByTime(journalSpacing - 1);
  await Promise.resolve();
  expect(write).toHaveBeenCalledOnce();
  vi.advanceTimersByTime(1);
  expect(write).toHaveBeenCalledTimes(2);
});

test("after a write the next batch collects changes for as many ms as that one had rows, from the least to the most", () => {
  const pace = new Pace();
  const left = [0, 1, journalSpacing + 1, journalSpacingMax - 1, journalSpacingMax + 1, 1_000, 1].map((rows) => {
    pace.written(rows);
    return pace.left();
  });
  expect(left).toEqual([journalSpacing, journalSpacing, journalSpacing + 1, journalSpacingMax - 1, ...[journalSpacingMax, journalSpacingMax], journalSpacing]);
  vi.setSystemTime(NOW + 1);
  expect(pace.left()).toBe(journalSpacing - 1);
});

test("on a slow disk what has come during a sync is written together, and not at the first of these events", () => {
  const pace = new Pace();
  pace.written(1);
  // The sync has stopped the hub. The events that have come meanwhile may be handled before the hub hears of its end.
  vi.setSystemTime(NOW + journalSpacing + 1);
  expect(pace.left()).toBe((journalSpacing + 1) / 2);
  pace.synced();
  expect(pace.left()).toBe((journalSpacing + 1) / 2);
  vi.setSystemTime(NOW + 2 * journalSpacing + 1);
  expect(pace.left()).toBe(0);
  pace.written(1);
  vi.setSystemTime(NOW + 60_000);
  expect(pace.left(), "after a very slow sync").toBe(journalSpacing);
  pace.written(1);
  pace.synced();
  vi.setSystemTime(NOW + 60_000 + journalSpacing - journalGathering);
  expect(pace.left(), "after a fast one").toBe(journalGathering);
});

test("a clock that was set back makes the time no longer", () => {
  const pace = new Pace();
  pace.written(1_000);
  vi.setSystemTime(NOW - 60_000);
  expect(pace.left()).toBe(journalSpacingMax);
});

test("after a failed write the next batch waits for the pause, until a write succeeds", () => {
  const pace = new Pace();
  pace.written(1);
  pace.failed();
  expect(pace.left()).toBe(journalPause);
  pace.written(1);
  expect(pace.left()).toBe(journalSpacing);
});

test("[PY6] the texts of a payment are written with it, also if it moves again before that", () => {
  const held: Payment = {
    ...{ key: "key", digest: "digest", binding: "binding", payer: "0xaa", asset: "eip155:10143/0x00", amount: "1000", expiresAt: NOW, jobId: "job" },
    ...{ doubts: 0, lostAnswer: false, phase: { kind: "held" } },
  };
  const payment: Payment = { ...held, phase: { kind: "settling", until: NOW } };
  const texts = { payload: "payload", requirements: "requirements" };
  const batch = new Batch();
  batch.add({ rows: [{ type: "save_payment", payment: held }], sends: [], settles: [] }, { payment: { key: "key", ...texts } });
  batch.add({ rows: [{ type: "save_payment", payment }], sends: [], settles: [] }, {});
  expect(batch.payments.get("key")).toEqual({ payment, texts: { key: "key", ...texts } });
});
