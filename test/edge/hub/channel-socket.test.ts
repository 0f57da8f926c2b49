// Workers whose sockets end at the front: their frames come to the hub on its channel. Everything else is tested with sockets of the platform.
import { describe, expect, test } from "vitest";
import { CHANNEL_KEY, LONG } from "../../../src/coordinator/http/channel-messages.ts";
import { LIMITS, RATES } from "../../../src/protocol/limits.ts";
import { HEARTBEAT } from "../../../src/protocol/worker-messages.ts";
import { KEY, TestChannel } from "../support/channel.ts";
import { newKey } from "../support/worker.ts";
import { TestHub, until, withSettings } from "../support/worker-hub.ts";

withSettings({ [CHANNEL_KEY]: KEY, RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip", CONNECTS_PER_MINUTE: "200" });
const CONNECTS = 200;

/** A hub whose clock stands still, and a channel to it. */
async function start(): Promise<{ hub: TestHub; channel: TestChannel }> {
  const hub = new TestHub();
  hub.skip(0);
  return { hub, channel: await TestChannel.open(hub) };
}

describe("a worker's socket that ends at the front", () => {
  test("[WS3, WS8, RC1] registers, gets a job and stores its result, beside a socket of the platform", async () => {
    const { hub, channel } = await start();
    const { worker } = await channel.worker();
    const other = await hub.worker();
    const ids = [await hub.commit(), await hub.commit()];
    for (const one of [worker, other]) {
      const job = await one.assigned();
      expect(await one.complete(job)).toMatchObject({ status: "accepted" });
      expect(await hub.job(job.job_id)).toMatchObject({ status: "completed", receipt: { provider_pubkey: one.key.publicKey } });
    }
    expect(new Set(ids).size).toBe(2);
    worker.send({ type: "heartbeat", beat: 1 });
    expect(await worker.next("heartbeat_ack")).toEqual({ type: "heartbeat_ack", status: "ok" });
  });

  test("[WS8] long jobs and a long result keep their places among other frames, also among those of the same turn", async () => {
    const { hub, channel } = await start();
    const { worker } = await channel.worker();
    const input = "é".repeat(LONG);
    const payload = { task_type: "summarize", input };
    await hub.commit("cheap", { payload });
    const job = await worker.assigned();
    expect(job.payload).toMatchObject({ input });
    await hub.commit("cheap", { payload });
    worker.send({ type: "heartbeat", beat: 1 });
    worker.send(worker.completion(job, { summary: input, word_count: 1 }));
    worker.send({ type: "heartbeat", beat: 2 });
    await worker.next("heartbeat_ack");
    expect(await worker.next("job_complete_ack")).toMatchObject({ status: "accepted" });
    expect((await worker.assigned()).payload).toMatchObject({ input });
    await worker.next("heartbeat_ack");
    expect(await hub.job(job.job_id)).toMatchObject({ status: "completed", result: { summary: input } });
  });

  test("[LM2] of a client over its rate is 429, and counts for its network", async () => {
    const { hub, channel } = await start();
    const ip: [string, string][] = [["x-test-ip", "198.51.100.1"]];
    for (let n = 0; n < CONNECTS; n++) {
      const [id, status] = await channel.upgrade(ip);
      expect(status).toBe(101);
      channel.send([id, { closed: 1006 }]);
    }
    const [id, status] = await channel.upgrade(ip);
    expect(status).toBe(429);
    expect((await channel.answers(CONNECTS + 1)).get(id)?.headers.get("retry-after")).toMatch(/^\d+$/);
    expect((await hub.dial("http://hub.test/", { "x-test-ip": "198.51.100.1" })).status).toBe(429);
    expect((await channel.upgrade([["x-test-ip", "198.51.100.2"]]))[1]).toBe(101);
  });

  test("[WS7] is replaced by a newer one of its key, on whichever way", async () => {
    const { hub, channel } = await start();
    const key = newKey();
    const { worker } = await channel.connect(key);
    await worker.register({ signed: true });
    const newer = await hub.connect(key);
    await newer.register({ signed: true });
    expect(await worker.closed()).toBe(4001);
    const { worker: newest } = await channel.connect(key);
    await newest.register({ signed: true });
    expect(await newer.closed()).toBe(4001);
    expect(await hub.workersOnline()).toBe(1);
  });

  test("[WS5] that breaks is disconnected: its job goes to another one after the grace; all of them are when the channel ends", async () => {
    const { hub, channel } = await start();
    const [{ worker, note }, { worker: idle }] = [await channel.worker(), await channel.connect()];
    await hub.commit();
    const job = await worker.assigned();
    note({ closed: 1006 });
    await hub.online(0);
    await idle.register();
    await hub.pass(15_001);
    expect(await idle.assigned()).toMatchObject({ job_id: job.job_id, attempt: 2 });
    channel.close();
    await hub.online(0);
  });

  test("[WS1] bad frames in a row close it with 4400, with a heartbeat between them they do not; a binary one is bad too", async () => {
    const { channel } = await start();
    const { worker, note } = await channel.worker();
    for (const frame of ["{", new ArrayBuffer(1)]) {
      worker.send(frame);
      expect(await worker.next("error")).toMatchObject({ code: "bad_message" });
    }
    note({ quiet: 0 });
    for (let n = 1; n < LIMITS.badFramesInARow; n++) {
      worker.send("{");
      await worker.next("error");
    }
    worker.send("{");
    expect(await worker.ended()).toBe(4400);
  });

  test("frames that still come when the hub has closed it change nothing, and its place is free when it has ended", async () => {
    const { hub, channel } = await start();
    const { worker, note } = await channel.worker();
    await hub.commit();
    const job = await worker.assigned();
    for (let n = 0; n < LIMITS.badFramesInARow; n++) worker.send("{");
    await worker.ended();
    worker.send(worker.completion(job, { summary: "s", word_count: 1 }));
    note({ closed: 4400 });
    expect((await hub.job(job.job_id)).status).not.toBe("completed");
    await channel.worker();
  });
});

describe("[WS6] what the front says of heartbeats", () => {
  test("without a word it hears from the worker, so that it gets jobs after any time", async () => {
    const { hub, channel } = await start();
    const { worker } = await channel.worker();
    await hub.pass(10 * 60_000);
    const id = await hub.commit();
    expect((await worker.assigned()).job_id).toBe(id);
  });

  test("a quiet worker gets no job after 25 s, until it is heard again, by a heartbeat or a frame", async () => {
    const { hub, channel } = await start();
    const { worker, note } = await channel.worker();
    hub.skip(60_000);
    note({ quiet: 13_000 });
    await channel.upgrade();
    hub.skip(12_001);
    const id = await hub.commit();
    expect((await hub.job(id)).status).toBe("pending");
    note({ quiet: 0 });
    await hub.pass(2_000);
    const job = await worker.assigned();
    expect(job.job_id).toBe(id);
    await worker.complete(job);
    hub.skip(13_000);
    note({ quiet: 13_000 });
    await channel.upgrade();
    hub.skip(12_001);
    const next = await hub.commit();
    expect((await hub.job(next)).status).toBe("pending");
    worker.send({ type: "heartbeat", beat: 1 });
    expect((await worker.assigned()).job_id).toBe(next);
    await worker.next("heartbeat_ack");
  });

  test("a quiet worker is closed with 4008 after 30 s, and the others are kept", async () => {
    const { hub, channel } = await start();
    const [{ worker, note }, { worker: lively }] = [await channel.worker(), await channel.worker()];
    hub.skip(20_000);
    note({ quiet: 13_000 });
    await hub.pass(16_000);
    await lively.quiet();
    expect(await hub.workersOnline()).toBe(2);
    await hub.pass(30_000);
    expect(await worker.closed()).toBe(4008);
    expect(await hub.workersOnline()).toBe(1);
  });

  test("a heartbeat that comes to the hub all the same is answered as one in another form", async () => {
    const { channel } = await start();
    const { worker } = await channel.worker();
    worker.send(HEARTBEAT);
    expect(await worker.next("heartbeat_ack")).toEqual({ type: "heartbeat_ack", status: "ok" });
  });
});

test("a clock that is set back loses no socket, and a quiet one is still closed in time", async () => {
  const { hub, channel } = await start();
  const [{ worker, note }, { worker: lively }] = [await channel.worker(), await channel.worker()];
  note({ quiet: 13_000 });
  hub.skip(-3_600_000);
  await hub.stub.wake();
  expect(await hub.workersOnline()).toBe(2);
  await until(async () => {
    await hub.pass(10_000);
    return (await hub.workersOnline()) === 1;
  }, "the end of the quiet one");
  expect(await worker.closed()).toBe(4008);
  await lively.quiet();
});

test("[LM2] a frame over the rate is not read, and makes the hub pause for nobody", async () => {
  const { hub, channel } = await start();
  const { worker } = await channel.worker();
  let pauses = 0;
  await hub.inside((_, state) => {
    const pause = state.blockConcurrencyWhile.bind(state);
    Object.defineProperty(state, "blockConcurrencyWhile", { value: (callback: () => Promise<unknown>) => (pauses++, pause(callback)) });
  });
  for (let n = 0; n <= RATES.messageBurst; n++) worker.send({ type: "heartbeat", beat: n });
  await until(async () => worker.texts.at(-1)?.includes('"rate_limited"') === true, "a refusal");
  expect(pauses).toBe(0);
});
