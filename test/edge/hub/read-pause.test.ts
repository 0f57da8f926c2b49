import { describe, expect, test } from "vitest";
import { LIMITS, RATES } from "../../../src/protocol/limits.ts";
import { ReadPause } from "../../../src/coordinator/hub/read-pause.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { TestHub, withSettings } from "../support/worker-hub.ts";

withSettings({ RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" });

const LOUD = { type: "heartbeat", loud: true };

describe("frames that may not be read", () => {
  test("[LM2] one pause at a time, and none soon after one", async () => {
    const pauses: Promise<unknown>[] = [];
    let now = 1_000_000;
    const ctx = {
      blockConcurrencyWhile: <T>(callback: () => Promise<T>): Promise<T> => {
        const paused = callback();
        pauses.push(paused);
        return paused;
      },
    };
    const pause = new ReadPause(ctx, () => now);
    const { 0: ws } = new WebSocketPair();
    for (let n = 0; n < 1_000; n++) pause.take(ws);
    expect(pauses).toHaveLength(1);
    await pauses[0];
    now += TUNING.readPauseSpacing - 1;
    pause.take(ws);
    expect(pauses).toHaveLength(1);
    now++;
    pause.take(ws);
    expect(pauses).toHaveLength(2);
    await pauses[1];
    // A clock that was set back does not end the pauses.
    now -= 3_600_000;
    pause.take(ws);
    expect(pauses).toHaveLength(3);
  });

  /** Counts the pauses of a hub from now on. */
  async function pausesOf(hub: TestHub): Promise<() => Promise<number>> {
    await hub.inside((_, state) => {
      const pause = state.blockConcurrencyWhile.bind(state);
      let count = 0;
      Object.defineProperty(state, "blockConcurrencyWhile", {
        value: (callback: () => Promise<unknown>) => {
          count++;
          return pause(callback);
        },
      });
      Object.defineProperty(state, "pauses", { get: () => count });
    });
    return () => hub.inside((_, state) => Number(Reflect.get(state, "pauses")));
  }

  test("[LM2] make the hub pause: those over the rate", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    hub.skip(1_000);
    const pauses = await pausesOf(hub);
    const send = (count: number) => hub.together(...Array.from({ length: count }, () => ({ from: worker, frame: LOUD })));
    await send(RATES.messageBurst);
    expect(await pauses(), "within the rate").toBe(0);
    await send(50);
    expect(await pauses()).toBe(1);
  });

  test("[LM2] make the hub pause: those of a socket that it has closed and whose client goes on", async () => {
    const hub = new TestHub();
    await hub.worker();
    const pauses = await pausesOf(hub);
    await hub.inside(async (instance, state) => {
      const [ws] = state.getWebSockets();
      for (let n = 0; n < LIMITS.badFramesInARow; n++) await instance.webSocketMessage(ws!, "no JSON");
    });
    expect(await pauses(), "read, and answered by a close").toBe(0);
    const again = new TestHub();
    await again.worker();
    const more = await pausesOf(again);
    await again.inside(async (instance, state) => {
      const [ws] = state.getWebSockets();
      for (let n = 0; n < LIMITS.badFramesInARow + 50; n++) await instance.webSocketMessage(ws!, "no JSON");
    });
    expect(await more()).toBe(1);
  });
});
