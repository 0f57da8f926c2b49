import { expect, test } from "vitest";
import { KeyedMutex } from "../../../src/coordinator/hub/keyed-mutex.ts";
import { MiB } from "../../../src/protocol/limits.ts";
import { keptBytes } from "../../support/kept-memory.ts";

const STAY = 60_000;
const HOUR = 3_600_000;

test("[PY6] one at a time: the second request waits until the first has released all its keys", async () => {
  const mutex = new KeyedMutex();
  expect(mutex.acquire("payment", "first", 0, STAY)).toBeNull();
  expect(mutex.acquire("idempotency", "first", 0, STAY)).toBeNull();
  expect(mutex.acquire("payment", "first", 1, STAY)).toBeNull();
  const waits = [mutex.acquire("payment", "second", 1, STAY), mutex.acquire("idempotency", "third", 1, STAY)];
  expect(waits).not.toContain(null);
  // Its request asks again while others wait.
  expect(mutex.acquire("payment", "first", 1, STAY)).toBeNull();
  mutex.release("second");
  mutex.release("first");
  for (const wait of waits) await wait?.released;
  expect(mutex.size).toBe(0);
  expect(mutex.acquire("payment", "second", 2, STAY)).toBeNull();
});

test("[LM1] requests that were cut off and never released their keys are forgotten after a time", async () => {
  const mutex = new KeyedMutex();
  for (let i = 0; i < 1_000; i++) void mutex.acquire(`payment ${i}`, `job ${i}`, i, STAY);
  const waits = mutex.acquire("payment 0", "second", STAY - 1, STAY);
  // It would have been released by nobody.
  expect(waits?.until).toBe(STAY);
  void mutex.acquire("payment", "last", STAY + 1_000, STAY);
  expect(mutex.size).toBe(1);
  await waits?.released;
});

test("[LM1] keys that were released leave nothing in memory", () => {
  const mutex = new KeyedMutex();
  const kept = keptBytes(() => {
    for (let i = 0; i < 50_000; i++) {
      void mutex.acquire(`payment ${i}`, `job ${i}`, 0, STAY);
      mutex.release(`job ${i}`);
    }
  });
  expect(kept).toBeLessThan(2 * MiB);
  expect(mutex.size).toBe(0);
});

test("[PY6] if the clock is set back, no request waits for longer than the usual time", async () => {
  const mutex = new KeyedMutex();
  void mutex.acquire("payment", "first", HOUR, STAY);
  expect(mutex.acquire("payment", "second", 0, STAY)).toBeNull();
});
