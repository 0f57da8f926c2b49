import { afterEach, describe, expect, test, vi } from "vitest";
import { TestHub, commitInput, until } from "../support/worker-hub.ts";

afterEach(() => vi.restoreAllMocks());

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Rings the alarm until a condition is met, as the platform does. The hub restores its state in a separate turn, so one ring may not be enough. */
async function tickUntil(hub: TestHub, ms: number, met: () => Promise<boolean>, ticks: number): Promise<void> {
  for (let tick = 0; tick < ticks; tick++) {
    if (await met()) return;
    await hub.pass(ms);
  }
  expect(await met()).toBe(true);
}

describe.each([
  ["in one life", async () => {}],
  ["over a loss of memory", (hub: TestHub) => hub.evict()],
])("the clock is set back by an hour, %s", (_, between) => {
  test("[JB4] a job that waits fails when its window is over, not an hour later", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const id = await hub.commit();
    hub.skip(-HOUR);
    await between(hub);
    await hub.stub.wake();
    await tickUntil(hub, 2_000, async () => (await hub.job(id)).status === "failed", 20);
  });

  test("[JB4] a worker that never answers loses its job when its time is over", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned();
    hub.skip(-HOUR);
    await between(hub);
    await hub.stub.wake();
    await tickUntil(
      hub,
      5_000,
      async () => {
        // This heartbeat wakes the hub. The exact text would not: the platform records it with its own clock, which the test cannot set back.
        worker.send({ type: "heartbeat", beat: 1 });
        return (await hub.job(id)).status !== "assigned";
      },
      10,
    );
  });

  test("[WS6] a silent worker is closed when its time is over, also if the platform has answered a heartbeat of it", async () => {
    const hub = new TestHub();
    hub.skip(0);
    await (await hub.worker()).beat();
    hub.skip(-HOUR);
    await between(hub);
    await hub.stub.wake();
    await tickUntil(hub, 10_000, async () => (await hub.stub.workersOnline()) === 0, 10);
  });

  test("[WS2] an unregistered socket is closed when its time is over", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const stranger = await hub.connect();
    hub.skip(-HOUR);
    await between(hub);
    await hub.stub.wake();
    let code: number | null = null;
    void stranger.closed().then((closed) => (code = closed));
    await tickUntil(hub, 5_000, async () => code !== null, 10);
    expect(code).toBe(4008);
  });

  test("[JB9] a running job ends as usual", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    hub.skip(-HOUR);
    await between(hub);
    expect((await worker.complete(job)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
    await hub.commit();
    await worker.assigned();
  });

  test("[API5] an idempotency key still gives its job", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const input = commitInput({ idempotency: { key: "k", fingerprint: "f" } });
    await hub.stub.commit(input);
    hub.skip(-HOUR);
    await between(hub);
    await hub.stub.wake();
    expect(await hub.stub.commit({ ...input, id: crypto.randomUUID() })).toMatchObject({ ok: true, jobId: input.id });
  });

  test("[WS4] a park of a clock that was far ahead is over; another lasts an hour at most", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker({ signed: true });
    worker.close();
    await hub.online(0);
    const registers = async (parkedFor: number): Promise<object> => {
      await hub.sql(`UPDATE keys SET parked_until = ${Date.now() + parkedFor}`);
      hub.skip(-HOUR);
      await between(hub);
      await hub.stub.wake();
      await hub.inside(() => {});
      const again = await hub.connect(worker.key);
      again.send(again.registration({ signed: true }));
      return again.next("register_ack");
    };
    expect(await registers(-MINUTE)).toMatchObject({ status: "error", error: "parked", retry_after_s: 3_540 });
    expect(await registers(MINUTE)).toMatchObject({ status: "ok" });
  });
});

test("[JB9] a D1 that was down is tried again soon after the clock was set back", async () => {
  const hub = new TestHub();
  hub.skip(0);
  let asked = 0;
  await hub.breakD1({ batch: () => Promise.reject(new Error(`down ${asked++}`)) });
  const id = await hub.commit();
  await until(async () => asked > 0, "asked");
  await hub.healD1();
  hub.skip(-HOUR);
  await hub.stub.wake();
  await tickUntil(hub, 2_000, async () => (await hub.sql("SELECT id FROM jobs WHERE synced_rev < rev")).length === 0, 40);
  expect((await hub.job(id)).id).toBe(id);
});

test("[API6] a request that waits is answered when the clock is set back, and not an hour later: no timer may fire before that", async () => {
  const hub = new TestHub();
  hub.skip(0);
  const id = await hub.commit();
  const waiting = hub.request(`/v1/jobs/${id}?wait=25`);
  await hub.stub.workersOnline();
  vi.useFakeTimers({ toFake: ["Date", "setTimeout"], now: Date.now() - HOUR });
  await hub.stub.wake();
  expect((await waiting).body).toMatchObject({ id, status: "pending" });
});

test("[WS4] a worker that registers while the clock is set back is registered", async () => {
  const hub = new TestHub();
  hub.skip(0);
  const conn = await hub.connect();
  hub.skip(-HOUR);
  conn.send(conn.registration());
  expect(await conn.next("register_ack")).toMatchObject({ status: "ok" });
});

describe("the clock goes forward", () => {
  test("[API5] an idempotency key is kept for 24 hours and then deleted", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const input = commitInput({ idempotency: { key: "k", fingerprint: "f" } });
    await hub.stub.commit(input);
    hub.skip(23.9 * HOUR);
    await hub.stub.wake();
    expect(await hub.stub.commit({ ...input, id: crypto.randomUUID() })).toMatchObject({ ok: true, jobId: input.id });
    hub.skip(0.2 * HOUR);
    const fresh = crypto.randomUUID();
    expect(await hub.stub.commit({ ...input, id: fresh })).toMatchObject({ ok: true, jobId: fresh });
    await hub.stub.wake();
    expect(await hub.stub.commit({ ...input, id: crypto.randomUUID() })).toMatchObject({ ok: true, jobId: fresh });
  });

  test("[JB9] by a day: waiting jobs end, ended jobs are still there, and workers that reconnect get jobs", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const done = await hub.commit();
    await worker.complete(await worker.assigned());
    worker.close();
    await hub.online(0);
    const waiting = await hub.commit();
    await hub.pass(24 * HOUR);
    expect(await hub.job(waiting)).toMatchObject({ status: "failed", result: { error: "deadline_exceeded" } });
    expect(await hub.job(done)).toMatchObject({ status: "completed" });
    const next = await hub.commit();
    expect((await (await hub.worker()).assigned()).job_id).toBe(next);
  });
});

test("[JB9] if old rows cannot be deleted the cron still wakes the hub", async () => {
  const hub = new TestHub();
  hub.skip(0);
  const id = await hub.commit();
  await hub.sql("INSERT INTO idempotency VALUES ('u', 'old', 'f', 'j', 0)");
  await hub.sql("CREATE TRIGGER broken BEFORE DELETE ON idempotency BEGIN SELECT RAISE(ABORT, 'disk'); END");
  hub.skip(31_000);
  await hub.inside((inside) => inside.wake().catch(() => {}));
  expect((await hub.job(id)).status).toBe("failed");
});
