import { describe, expect, test } from "vitest";
import { TestHub } from "../support/worker-hub.ts";

describe("reconnecting", () => {
  test("[WS10] resume left out: the lease is rebound with its deadline", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const old = await hub.plainWorker();
    const id = await hub.commit();
    await old.assigned();
    old.close();
    await hub.online(0);
    hub.skip(14_000);
    const young = await hub.worker({ key: old.key, features: [] });
    await young.quiet();
    expect((await hub.job(id)).status).toBe("assigned");
    hub.skip(15_999);
    await young.quiet();
    await hub.pass(0);
    await young.quiet();
    await hub.pass(1);
    expect(await young.next("job_cancel")).toMatchObject({ job_id: id, reason: "execution_timeout" });
  });

  test("[WS10] resume []: the job is requeued at once, and goes to another worker", async () => {
    const hub = new TestHub();
    const old = await hub.worker();
    const id = await hub.commit();
    await old.assigned();
    const other = await hub.worker();
    old.close();
    await hub.online(1);
    const young = await hub.worker({ key: old.key, resume: [] });
    expect(await other.assigned()).toMatchObject({ job_id: id, attempt: 2 });
    await young.quiet();
  });

  test("[WS10] [JB4] resume []: if no other worker is connected it gets the job again, not before the next tick", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const old = await hub.worker();
    const id = await hub.commit();
    await old.assigned();
    old.close();
    await hub.online(0);
    const young = await hub.worker({ key: old.key, resume: [] });
    await young.quiet();
    expect((await hub.job(id)).status).toBe("pending");
    await hub.pass(2_000);
    expect(await young.assigned()).toMatchObject({ job_id: id, attempt: 2 });
  });

  test("[WS10] resume lists the job: it goes on as running, and its result is accepted", async () => {
    const hub = new TestHub();
    const old = await hub.worker();
    const id = await hub.commit();
    const job = await old.assigned();
    old.close();
    await hub.online(0);
    const young = await hub.worker({ key: old.key, resume: [{ job_id: id, attempt: 1 }] });
    await young.quiet();
    expect((await hub.job(id)).status).toBe("running");
    expect((await young.complete(job)).status).toBe("accepted");
  });

  test("[WS10] a listed job that the worker does not get back is cancelled before a new job is assigned", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const old = await hub.worker();
    const lost = await hub.commit();
    await old.assigned();
    old.close();
    await hub.online(0);
    await hub.pass(15_000);
    const other = await hub.worker();
    expect(await other.assigned()).toMatchObject({ job_id: lost, attempt: 2 });
    const waiting = await hub.commit();
    const young = await hub.connect(old.key);
    const unknown = crypto.randomUUID();
    await young.register({
      resume: [
        { job_id: lost, attempt: 1 },
        { job_id: unknown, attempt: 2 },
      ],
    });
    expect(await young.next("job_cancel")).toMatchObject({ job_id: lost, attempt: 1 });
    expect(await young.next("job_cancel")).toMatchObject({ job_id: unknown, attempt: 2 });
    expect(await young.assigned()).toMatchObject({ job_id: waiting });
  });

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

  test("[JB4] a lease outlives its socket by 15 s, then the job waits again", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const old = await hub.worker();
    const id = await hub.commit();
    await old.assigned({ acks: false });
    old.close();
    await hub.online(0);
    const other = await hub.worker();
    await hub.pass(14_999);
    await other.quiet();
    expect((await hub.job(id)).status).toBe("assigned");
    await hub.pass(1);
    expect(await other.assigned()).toMatchObject({ job_id: id, attempt: 2 });
  });

  test("[JB5] [JB4] after three attempts the job fails with the last cause: worker_lost", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit();
    for (let attempt = 1; attempt <= 3; attempt++) {
      const worker = await hub.worker();
      expect(await worker.assigned()).toMatchObject({ attempt });
      worker.close();
      await hub.online(0);
      await hub.pass(15_000);
    }
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "worker_lost" } });
  });
});

describe("drain", () => {
  test("[WS11] without a job it is drained at once and closed with 1000", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    worker.send({ type: "drain" });
    expect(await worker.next("drained")).toEqual({ type: "drained" });
    expect(await worker.closed()).toBe(1000);
    expect(await hub.workersOnline()).toBe(0);
  });

  test.for([false, true])("[WS11] with a job it gets no other, finishes, and is drained; hub lost its memory meanwhile: %s", async (forget) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    worker.send({ type: "drain" });
    await worker.quiet();
    if (forget) await hub.evict();
    const waiting = await hub.commit();
    expect((await worker.complete(job)).status).toBe("accepted");
    await worker.next("drained");
    expect(await worker.closed()).toBe(1000);
    expect((await hub.job(waiting)).status).toBe("pending");
  });

  test("[WS11] a draining worker may still reject its job", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned();
    const other = await hub.worker();
    worker.send({ type: "drain" });
    worker.send({ type: "job_failed", job_id: id, attempt: 1, error: "stopping", retryable: true });
    await worker.next("drained");
    expect(await other.assigned()).toMatchObject({ job_id: id, attempt: 2 });
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
