import { describe, expect, test } from "vitest";
import { commitInput, TestHub } from "../support/worker-hub.ts";
import type { Frame } from "../support/worker-socket.ts";
import type { TestWorker } from "../support/worker.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const LLM = { job_type: "LLM_INFER" };

describe("register", () => {
  test("[WS4] [WS5] without a signature it is accepted in testnet mode, and the answer has exactly its members", async () => {
    const hub = new TestHub();
    const worker = await hub.connect();
    const ack = await worker.register();
    expect(ack).toEqual({
      type: "register_ack",
      status: "ok",
      worker_id: expect.stringMatching(UUID),
      authenticated: false,
      tier: "Open",
      heartbeat_interval_ms: 10_000,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    expect(Math.abs(Date.parse(ack.time) - Date.now())).toBeLessThan(5_000);
    expect(await hub.workersOnline()).toBe(1);
  });

  test("[WS3] unknown fields and nulls count as absent", async () => {
    const hub = new TestHub();
    const worker = await hub.connect();
    const nothing = { signature: null, models: null, engine: null, name: null, version: null, features: null, resume: null };
    expect((await worker.register({ ...nothing, owner: "x", stake: 1_000, tier: "Sentinel" })).tier).toBe("Open");
    await hub.commit();
    await worker.assigned();
  });

  test("[WS3] unknown capabilities are ignored", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ capabilities: ["RENDER", "TASK", "llm_infer"] });
    await hub.commit("cheap", LLM);
    await worker.quiet();
    await hub.commit();
    expect((await worker.assigned()).job_type).toBe("TASK");
  });

  test.for(["MOBILE", "SEEKER"])("[WS3] a %s worker gets TASK only, whatever it announces", async (kind) => {
    const hub = new TestHub();
    const worker = await hub.worker({ provider_type: kind, capabilities: ["LLM_INFER"] });
    await hub.commit("fast", LLM);
    await worker.quiet();
    const task = await hub.commit();
    expect((await worker.assigned()).job_id).toBe(task);
  });

  test("[WS3] a worker that says MOBILE in a second register gets TASK only from then on, and LLM_INFER again after a third one says DESKTOP", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await worker.register({ provider_type: "MOBILE" });
    const llm = await hub.commit("fast", LLM);
    await worker.quiet();
    await worker.register();
    expect((await worker.assigned()).job_id).toBe(llm);
  });

  test("[WS3] what a second register changed is still changed after the hub lost its memory", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ capabilities: ["LLM_INFER"] });
    await worker.register({ capabilities: ["TASK"] });
    await hub.evict();
    await hub.commit("cheap", LLM);
    const task = await hub.commit();
    expect((await worker.assigned()).job_id).toBe(task);
  });

  test("[WS3] [JB12] who applies a chat is still known for it after a second register without features, and after the hub lost its memory", async () => {
    const hub = new TestHub();
    await hub.worker();
    const chats = await hub.worker({ features: ["ack", "chat"] });
    chats.send(chats.registration({ features: undefined }));
    await chats.next("register_ack");
    const chat = () => hub.stub.commit(commitInput({ jobType: "LLM_INFER", isChat: true }));
    await chat();
    await chats.complete(await chats.assigned(), "text");
    await hub.evict();
    // The other worker is the least recently used one.
    await chat();
    await chats.assigned();
  });
});

describe("a refused register", () => {
  test("[WS5] a key that has authenticated once must do so from then on, the hub's memory lost or not", async () => {
    const hub = new TestHub();
    const first = await hub.worker({ signed: true });
    for (const forget of [false, true]) {
      if (forget) await hub.evict();
      const thief = await hub.connect(first.key);
      thief.send(thief.registration(forget ? { signature: null } : {}));
      expect(await thief.next("register_ack")).toEqual({ type: "register_ack", status: "error", error: "auth_required" });
      expect(await thief.closed()).toBe(4401);
    }
    // The socket that it would have replaced is not affected.
    await hub.commit();
    await first.assigned();
    expect(await hub.workersOnline()).toBe(1);
  });

  test("[WS5] such a key is deleted 30 days after it was last seen", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const first = await hub.worker({ signed: true });
    first.close();
    await hub.online(0);
    hub.skip(30 * 24 * 3_600_000 - 1);
    await hub.stub.wake();
    const early = await hub.connect(first.key);
    early.send(early.registration());
    expect(await early.next("register_ack")).toMatchObject({ error: "auth_required" });
    hub.skip(2);
    await hub.stub.wake();
    expect((await (await hub.connect(first.key)).register()).authenticated).toBe(false);
  });

  test("[WS5] such a key is not deleted while its worker is connected", async () => {
    const hub = new TestHub();
    const first = await hub.worker({ signed: true });
    hub.skip(31 * 24 * 3_600_000);
    // It has just sent something, so the sweep keeps it.
    await first.quiet();
    await hub.stub.wake();
    const thief = await hub.connect(first.key);
    thief.send(thief.registration());
    expect(await thief.next("register_ack")).toMatchObject({ error: "auth_required" });
    await first.quiet();
    // It counts as seen now, also if the hub dies before it leaves.
    const [noted] = await hub.sql<{ last_seen: number }>("SELECT last_seen FROM keys");
    expect(Date.now() - (noted?.last_seen ?? 0)).toBeLessThan(60_000);
  });

  test("[WS4] a bad register of a registered worker disconnects it, and its job has only the grace time", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.assigned();
    worker.send({ type: "register", provider_pubkey: worker.key.publicKey });
    expect(await worker.next("register_ack")).toMatchObject({ status: "error", error: "invalid_register" });
    expect(await worker.closed()).toBe(4400);
    expect(await hub.workersOnline()).toBe(0);
    await hub.pass(15_000);
    expect((await hub.job(id)).status).toBe("pending");
  });

  test("[WS4] frames of a refused socket change nothing", async () => {
    const hub = new TestHub();
    const worker = await hub.connect();
    await hub.together({ from: worker, frame: worker.registration({ provider_pubkey: "x" }) }, { from: worker, frame: worker.registration() });
    expect(await worker.next("register_ack")).toMatchObject({ error: "invalid_key" });
    expect(await worker.closed()).toBe(4400);
    expect(await hub.workersOnline()).toBe(0);
  });
});

describe("two sockets of one key", () => {
  test("[WS7] the newest wins, the other is closed 4001 and its late frames and close change nothing", async () => {
    const hub = new TestHub();
    const old = await hub.plainWorker();
    const id = await hub.commit();
    const job = await old.assigned();
    const young = await hub.connect(old.key);
    await young.register({ signed: true });
    old.send({ type: "job_failed", job_id: job.job_id, attempt: 1, error: "e", retryable: false });
    old.send({ type: "drain" });
    expect(await old.closed()).toBe(4001);
    expect(await hub.workersOnline()).toBe(1);
    await young.quiet();
    // Without `resume` the lease moves to the new socket of the key.
    expect((await hub.job(id)).status).toBe("assigned");
    expect((await young.complete(job)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
  });

  test("[WS7] a socket that was replaced stays replaced after the hub lost its memory", async () => {
    const hub = new TestHub();
    const old = await hub.worker();
    const young = await hub.worker({ key: old.key, signed: true });
    expect(await old.closed()).toBe(4001);
    await hub.evict();
    await hub.commit();
    await young.assigned();
    expect(await hub.workersOnline()).toBe(1);
  });

  /** Registers unsigned with this worker's key, on another socket. */
  async function intrude(hub: TestHub, worker: TestWorker): Promise<{ intruder: TestWorker; ack: Frame }> {
    const intruder = await hub.connect(worker.key);
    intruder.send(intruder.registration());
    return { intruder, ack: await intruder.next("register_ack") };
  }

  test("[WS7] an unsigned one does not replace a socket that has sent something in the last 15 s; a silent one is replaced", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit("cheap", LLM);
    const job = await worker.assigned();
    for (const age of [0, 15_000]) {
      hub.skip(age);
      const { intruder, ack } = await intrude(hub, worker);
      expect(ack).toEqual({ type: "register_ack", status: "error", error: "already_connected", retry_after_s: 15 });
      expect(await intruder.closed()).toBe(4409);
    }
    expect((await worker.complete(job)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
    hub.skip(15_001);
    expect((await intrude(hub, worker)).ack).toMatchObject({ status: "ok", authenticated: false });
    expect(await worker.closed()).toBe(4001);
    expect(await hub.workersOnline()).toBe(1);
  });

  test("[WS7, WS6] a heartbeat that the platform answered is a sign of life, for a hub that has lost its memory too", async () => {
    const hub = new TestHub();
    hub.skip(-16_000);
    const worker = await hub.worker();
    hub.runClock();
    // The platform notes the time of this one with its own clock.
    await worker.beat();
    await hub.evict();
    expect((await intrude(hub, worker)).ack).toMatchObject({ error: "already_connected" });
    await worker.quiet();
  });
});
