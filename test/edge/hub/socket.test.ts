import { LIMITS } from "../../../src/protocol/limits.ts";
import { describe, expect, test } from "vitest";
import { TestHub } from "../support/worker-hub.ts";

describe("a socket before it registers", () => {
  test.for([
    ["https://hub.test:443/", "hub.test"],
    ["https://hub.test:80/", "hub.test:80"],
  ])("[WS2] the host of %s is %s", async ([url, host]) => {
    const hub = new TestHub();
    expect((await hub.connect(undefined, url)).challenge.host).toBe(host);
  });

  test("[WS2] a socket that does not register is closed after 10 s, a registered one is not, even if the hub lost its memory", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const [silent, registered] = [await hub.connect(), await hub.worker()];
    await hub.evict();
    await hub.pass(9_999);
    await silent.beat();
    expect(await hub.pass(1)).toBe(true);
    expect(await silent.closed()).toBe(4008);
    await registered.quiet();
  });

  test("[WS2] each has its own 10 s, after the hub lost its memory too", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const first = await hub.connect();
    hub.skip(4_000);
    const second = await hub.connect();
    hub.skip(4_000);
    const third = await hub.connect();
    await hub.evict();
    await hub.pass(2_000);
    expect(await first.closed()).toBe(4008);
    await second.beat();
    await hub.pass(4_000);
    expect(await second.closed()).toBe(4008);
    await third.register();
  });

  test("[WS6] a heartbeat before register is answered by the platform", async () => {
    const hub = new TestHub();
    expect(await (await hub.connect()).beat()).toEqual({ type: "heartbeat_ack" });
  });
});

describe("bad frames", () => {
  test("[WS1] ten in a row close the socket with 4400, and its worker is disconnected", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (let i = 0; i < LIMITS.badFramesInARow; i++) worker.send("[]");
    for (let i = 0; i < LIMITS.badFramesInARow; i++) await worker.next("error");
    expect(await worker.closed()).toBe(4400);
    expect(await hub.workersOnline()).toBe(0);
  });

  test.for(["beat", "quiet"] as const)("[WS1, WS6] a heartbeat resets the count, whether the platform answers it or the hub does: %s", async (beat) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < LIMITS.badFramesInARow - 1; i++) worker.send("[]");
      for (let i = 0; i < LIMITS.badFramesInARow - 1; i++) await worker.next("error");
      await worker[beat]();
    }
  });

  test("[WS1] ten before register close the socket too", async () => {
    const hub = new TestHub();
    const worker = await hub.connect();
    const frames = [{ type: "heartbeat", n: 1 }, { type: "drain" }, { type: "job_complete" }, { type: "nonsense" }, { no: "type" }];
    for (let i = 0; i < LIMITS.badFramesInARow; i++) worker.send(frames[i % frames.length] ?? {});
    for (let i = 0; i < LIMITS.badFramesInARow; i++) {
      expect(await worker.next("error")).toMatchObject({ code: "not_registered", message: expect.any(String) });
    }
    expect(await worker.closed()).toBe(4400);
  });

  test("[LM1] a frame of more than 1.25 MiB closes the socket with 1009 and its job waits again", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned({ acks: false });
    worker.send(JSON.stringify({ type: "heartbeat", x: "é".repeat(LIMITS.frameBytes / 2) }));
    expect(await worker.closed()).toBe(1009);
    expect(await hub.workersOnline()).toBe(0);
    expect((await hub.job(id)).status).toBe("assigned");
    await hub.pass(15_000);
    expect((await hub.job(id)).status).toBe("pending");
  });
});
