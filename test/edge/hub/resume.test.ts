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
