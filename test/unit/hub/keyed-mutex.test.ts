import { expect, test } from "vitest";
import { KeyedMutex } from "../../../src/coordinator/hub/paid-commits.ts";

const STAY = 60_000;
const HOUR = 3_600_000;

test("[PY6] one at a time: who comes second waits until the first has left all that it entered", async () => {
  const turnstile = new KeyedMutex();
  expect(turnstile.acquire("payment", "first", 0, STAY)).toBeNull();
  expect(turnstile.acquire("idempotency", "first", 0, STAY)).toBeNull();
  expect(turnstile.acquire("payment", "first", 1, STAY)).toBeNull();
  const waits = [turnstile.acquire("payment", "second", 1, STAY), turnstile.acquire("idempotency", "third", 1, STAY)];
  expect(waits).not.toContain(null);
  turnstile.release("second");
  turnstile.release("first");
  for (const wait of waits) await wait;
  expect(turnstile.size).toBe(0);
  expect(turnstile.acquire("payment", "second", 2, STAY)).toBeNull();
});

test("[LM1] requests that hung up and never left are forgotten when their time is over", async () => {
  const turnstile = new KeyedMutex();
  for (let i = 0; i < 1_000; i++) void turnstile.acquire(`payment ${i}`, `job ${i}`, i, STAY);
  const waits = turnstile.acquire("payment 0", "second", STAY - 1, STAY);
  expect(waits).not.toBeNull();
  void turnstile.acquire("payment", "last", STAY + 1_000, STAY);
  expect(turnstile.size).toBe(1);
  await waits;
});

test("[PY6] the clock is put back: nobody waits for longer than a stay", async () => {
  const turnstile = new KeyedMutex();
  void turnstile.acquire("payment", "first", HOUR, STAY);
  expect(turnstile.acquire("payment", "second", 0, STAY)).toBeNull();
});
