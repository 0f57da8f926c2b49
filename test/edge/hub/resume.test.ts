import { describe, expect, test } from "vitest";
import { TestHub } from "../support/worker-hub.ts";

test("[WS3] the challenge survives the loss of the hub's memory", async () => {
  const hub = new TestHub();
  const worker = await hub.connect();
  await hub.evict();
  expect((await worker.register({ signed: true })).authenticated).toBe(true);
});

describe("reconnecting", () => {
  test("[WS10] a listed job that ended meanwhile is cancelled", async () => {
    const hub = new TestHub();
    const old = await hub.worker();
    const id = await hub.commit();
    await old.complete(await old.assigned());
    const young = await hub.connect(old.key);
    await young.register({ signed: true, resume: [{ job_id: id, attempt: 1 }] });
    expect(await young.next("job_cancel")).toMatchObject({ job_id: id, attempt: 1 });
    expect((await hub.job(id)).status).toBe("completed");
  });

  test("[WS10] a finished result is resent after reconnecting and answered, though the hub died before", async () => {
    const hub = new TestHub();
    const old = await hub.worker();
    const id = await hub.commit();
    const job = await old.assigned();
    await hub.abort();
    expect(await old.closed()).toBe(1006);
    const young = await hub.worker({ key: old.key, resume: [{ job_id: id, attempt: 1 }] });
    expect((await young.complete(job)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
  });
});

describe("drain", () => {
  test("[WS11] with a job it gets no other, finishes, and is drained, after the hub lost its memory too", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    worker.send({ type: "drain" });
    await worker.quiet();
    await hub.evict();
    const waiting = await hub.commit();
    expect((await worker.complete(job)).status).toBe("accepted");
    await worker.next("drained");
    expect(await worker.closed()).toBe(1000);
    expect((await hub.job(waiting)).status).toBe("pending");
  });

  test("[JB3] [WS5] a worker that the hub closes is noted too: when it was seen, and when it got its last job", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ signed: true });
    await hub.commit();
    await worker.complete(await worker.assigned());
    await hub.sql("UPDATE keys SET last_seen = 1");
    worker.send({ type: "drain" });
    await worker.next("drained");
    expect(await worker.closed()).toBe(1000);
    const [noted] = await hub.sql<{ last_seen: number; last_used: number }>("SELECT last_seen, last_used FROM keys");
    expect(Math.min(noted?.last_seen ?? 0, noted?.last_used ?? 0)).toBeGreaterThan(Date.now() - 60_000);
  });

  test("[JB3] [WS7] a worker that is replaced by its own new socket keeps the time of its last job", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    await worker.complete(await worker.assigned());
    const newer = await hub.worker({ key: worker.key, signed: true });
    expect(await worker.closed()).toBe(4001);
    newer.close();
    await hub.online(0);
    const [noted] = await hub.sql<{ last_used: number }>("SELECT last_used FROM keys");
    expect(noted?.last_used).toBeGreaterThan(Date.now() - 60_000);
  });

  test("[WS11] a worker that reconnects is not draining any more", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    worker.send({ type: "drain" });
    const young = await hub.worker({ key: worker.key, signed: true });
    await young.complete(job);
    await hub.commit();
    await young.assigned();
  });
});
