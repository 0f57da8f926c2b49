import { describe, expect, test } from "vitest";
import { TestHub } from "../support/worker-hub.ts";

describe("signs of life", () => {
  test("[WS6] the exact heartbeat is answered by the platform: the hub is not woken", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.evict();
    expect(await worker.beat()).toEqual({ type: "heartbeat_ack" });
    // The eviction fails because the object is not running.
    await expect(hub.evict()).rejects.toThrow("not currently running");
  });

  test("[WS6] silent for more than 25 s: it gets no job, until it sends something", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    hub.skip(25_000);
    const first = await hub.commit();
    const job = await worker.assigned();
    expect(job.job_id).toBe(first);
    await worker.complete(job);
    hub.skip(25_001);
    const second = await hub.commit();
    expect((await hub.job(second)).status).toBe("pending");
    worker.send({ type: "job_ack", job_id: "any", attempt: 1 });
    expect((await worker.assigned()).job_id).toBe(second);
    expect((await worker.next("job_cancel")).job_id).toBe("any");
  });

  test("[WS6] every frame is a sign of life, a bad one too", async () => {
    for (const frame of ["{", { type: "heartbeat", n: 1 }, { type: "job_ack", job_id: "x", attempt: 1 }]) {
      const hub = new TestHub();
      hub.skip(0);
      const worker = await hub.worker();
      hub.skip(29_999);
      const id = await hub.commit();
      expect((await hub.job(id)).status).toBe("pending");
      worker.send(frame);
      expect((await worker.assigned()).job_id).toBe(id);
    }
  });

  test("[WS6] the sweep closes sockets that were silent for 30 s with 4008, requeues their jobs at once, and keeps the others", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const silent = await hub.worker();
    const id = await hub.commit("cheap", { job_type: "LLM_INFER" });
    await silent.assigned();
    const lively = await hub.worker();
    hub.skip(29_999);
    await lively.quiet();
    await hub.pass(0);
    await lively.quiet();
    expect(await hub.workersOnline()).toBe(2);
    await hub.pass(1);
    expect(await silent.closed()).toBe(4008);
    expect(await lively.assigned()).toMatchObject({ job_id: id, attempt: 2 });
    expect(await hub.workersOnline()).toBe(1);
  });

  test("[WS6] a hub that sleeps again and again still finds the silent workers, and only those", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const [silent, lively] = [await hub.worker(), await hub.worker()];
    for (let seconds = 0; seconds < 30; seconds += 10) {
      await hub.evict();
      hub.skip(10_000);
      await lively.quiet();
    }
    await hub.evict();
    expect(await hub.pass(0)).toBe(true);
    expect(await silent.closed()).toBe(4008);
    await lively.quiet();
    expect(await hub.workersOnline()).toBe(1);
    // The alarm for the next sweep is set.
    await hub.evict();
    await hub.pass(31_000);
    expect(await lively.closed()).toBe(4008);
  });

  test("[WS6] heartbeats that the platform answered count, after a sleep too", async () => {
    const hub = new TestHub();
    // The platform records real time, so the test puts the registration into the past.
    hub.skip(-40_000);
    const [beating, silent] = [await hub.worker(), await hub.worker()];
    await beating.beat();
    hub.skip(40_000);
    await hub.evict();
    await hub.pass(0);
    expect(await silent.closed()).toBe(4008);
    const id = await hub.commit();
    expect((await beating.assigned()).job_id).toBe(id);
  });

  test("[WS6] a worker that was closed as silent may reconnect", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    await hub.pass(30_000);
    expect(await worker.closed()).toBe(4008);
    await hub.commit();
    await (await hub.worker({ key: worker.key })).assigned();
  });
});
