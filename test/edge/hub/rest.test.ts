import { expect, test, vi } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import { TestHub } from "../support/worker-hub.ts";

const FLEET = 100;
const MINUTES = 10;

test("[WS6] a resting fleet of a hundred wakes the hub twice a minute", async () => {
  const hub = new TestHub();
  // The platform answers heartbeats and notes when. Here all workers are heard at every moment, from the first one on: on a busy machine a hundred
  // registrations take longer than the silence that the hub allows.
  await hub.inside((_, state) => vi.spyOn(state, "getWebSocketAutoResponseTimestamp").mockImplementation(() => new Date()));
  // Few at a time, so that none waits long for the others: a wait for a frame has an end.
  for (let n = 0; n < FLEET; n += 10) await Promise.all(Array.from({ length: 10 }, () => hub.worker()));
  hub.skip(0);
  const end = Date.now() + MINUTES * TIMING.ratePeriod;
  let wakes = 0;
  for (let at = await hub.alarmAt(); at !== null && at <= end; at = await hub.alarmAt()) {
    await hub.pass(Math.max(0, at - Date.now()));
    wakes++;
  }
  expect(wakes).toBeGreaterThan(0);
  expect(wakes).toBeLessThanOrEqual(2 * MINUTES + 1);
  expect(await hub.stub.workersOnline()).toBe(FLEET);
  vi.restoreAllMocks();
});
