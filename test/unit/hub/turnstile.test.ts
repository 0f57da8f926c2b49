import { expect, test } from "vitest";
import { Turnstile } from "../../../src/coordinator/hub/turnstile.ts";

const STAY = 60_000;
const HOUR = 3_600_000;

test("[PY6] one at a time: who comes second waits until the first has left all that it entered", async () => {
  const turnstile = new Turnstile();
  expect(turnstile.enter("payment", "first", 0, STAY)).toBeNull();
  expect(turnstile.enter("idempotency", "first", 0, STAY)).toBeNull();
  expect(turnstile.enter("payment", "first", 1, STAY)).toBeNull();
  const waits = [turnstile.enter("payment", "second", 1, STAY), turnstile.enter("idempotency", "third", 1, STAY)];
  expect(waits).not.toContain(null);
  turnstile.leave("second");
  turnstile.leave("first");
  for (const wait of waits) await wait;
  expect(turnstile.size).toBe(0);
  expect(turnstile.enter("payment", "second", 2, STAY)).toBeNull();
});

test("[LM1] requests that hung up and never left are forgotten when their time is over", async () => {
  const turnstile = new Turnstile();
  for (let i = 0; i < 1_000; i++) void turnstile.enter(`payment ${i}`, `job ${i}`, i, STAY);
  const waits = turnstile.enter("payment 0", "second", STAY - 1, STAY);
  expect(waits).not.toBeNull();
  void turnstile.enter("payment", "last", STAY + 1_000, STAY);
  expect(turnstile.size).toBe(1);
  await waits;
});

test("[PY6] the clock is put back: nobody waits for longer than a stay", async () => {
  const turnstile = new Turnstile();
  void turnstile.enter("payment", "first", HOUR, STAY);
  expect(turnstile.enter("payment", "second", 0, STAY)).toBeNull();
});
