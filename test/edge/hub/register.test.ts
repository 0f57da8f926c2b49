import { describe, expect, test } from "vitest";
import { toHex } from "../../../src/receipt/bytes.ts";
import { TestHub } from "../support/worker-hub.ts";
import type { Frame } from "../support/worker-socket.ts";
import { newKey, type TestWorker } from "../support/worker.ts";

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

  test("[WS3] a signature over the challenge authenticates, in base64 and in hex", async () => {
    const hub = new TestHub();
    const [base64, hex] = [await hub.connect(), await hub.connect()];
    expect((await base64.register({ signed: true })).authenticated).toBe(true);
    const { signature } = hex.registration({ signed: true });
    const bytes = Uint8Array.from(atob(String(signature)), (char) => char.charCodeAt(0));
    expect((await hex.register({ signature: toHex(bytes).toUpperCase() })).authenticated).toBe(true);
  });

  test("[WS3] an upper-case key is converted: it is the same worker, and the signature is over the lower-case key", async () => {
    const hub = new TestHub();
    const first = await hub.worker();
    const second = await hub.connect(first.key);
    const ack = await second.register({ signed: true, provider_pubkey: first.key.publicKey.toUpperCase() });
    expect(ack.authenticated).toBe(true);
    expect(await first.closed()).toBe(4001);
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

  test("[WS3] a DESKTOP worker gets only jobs of the types that it announced", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ capabilities: ["LLM_INFER"] });
    await hub.commit();
    await worker.quiet();
    const llm = await hub.commit("cheap", LLM);
    expect((await worker.assigned()).job_id).toBe(llm);
  });

  test("[WS3] a second register of the same key needs no signature and replaces the capabilities", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ capabilities: ["LLM_INFER"], signed: true });
    await hub.commit();
    const again = await worker.register({ capabilities: ["TASK"] });
    expect(again.authenticated).toBe(true);
    expect((await worker.assigned()).job_type).toBe("TASK");
    expect(await hub.workersOnline()).toBe(1);
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

  test("[WS3] a second register of another key is already_registered, and the first stays", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    worker.send(worker.registration({ provider_pubkey: newKey().publicKey }));
    expect(await worker.next("error")).toMatchObject({ code: "already_registered" });
    const id = await hub.commit();
    const job = await worker.assigned();
    expect((await worker.complete(job)).status).toBe("accepted");
    expect((await hub.job(id)).receipt?.provider_pubkey).toBe(worker.key.publicKey);
  });
});

describe("a refused register", () => {
  const smallOrder = `01${"00".repeat(31)}`;
  const order8 = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a";
  const notCanonical = `ee${"ff".repeat(30)}7f`;
  // No point of the curve has y = 2.
  const noPoint = `02${"00".repeat(31)}`;

  test.for([
    ["63 digits", "a".repeat(63)],
    ["66 digits", "a".repeat(66)],
    ["no hex", "g".repeat(64)],
    ["0x in front", `0x${"a".repeat(62)}`],
    ["empty", ""],
    ["a number", 5],
    ["null", null],
    ["left out", undefined],
    ["all zero", "0".repeat(64)],
    ["the identity", smallOrder],
    ["of order 8", order8],
    ["not canonical", notCanonical],
    ["no point of the curve", noPoint],
  ] as const)("[WS4] a key that is %s is invalid_key and closes with 4400", async ([, key]) => {
    const hub = new TestHub();
    const worker = await hub.connect();
    worker.send(worker.registration({ provider_pubkey: key }));
    expect(await worker.next("register_ack")).toEqual({ type: "register_ack", status: "error", error: "invalid_key" });
    expect(await worker.closed()).toBe(4400);
    expect(await hub.workersOnline()).toBe(0);
  });

  test.for([
    ["no provider_type", { provider_type: undefined }],
    ["another provider_type", { provider_type: "LAPTOP" }],
    ["no capabilities", { capabilities: undefined }],
    ["capabilities that are no list", { capabilities: "TASK" }],
    ["a capability that is no string", { capabilities: [1] }],
    ["a signature that is no string", { signature: 1 }],
    ["models that are no list", { models: "m" }],
    ["features that are no list", { features: { ack: true } }],
    ["resume that is no list", { resume: {} }],
    ["a resume entry without attempt", { resume: [{ job_id: "x" }] }],
  ] as const)("[WS4] %s is invalid_register and closes with 4400", async ([, fields]) => {
    const hub = new TestHub();
    const worker = await hub.connect();
    worker.send(worker.registration(fields));
    expect(await worker.next("register_ack")).toEqual({ type: "register_ack", status: "error", error: "invalid_register" });
    expect(await worker.closed()).toBe(4400);
  });

  test("[WS4] a signature that does not verify is invalid_signature and closes with 4401, in testnet mode too", async () => {
    const hub = new TestHub();
    const other = await hub.connect();
    for (const spoil of [
      () => "",
      () => "no base64!",
      () => btoa("x".repeat(63)),
      (good: string) => good.repeat(100),
      // Another socket's challenge.
      () => other.registration({ signed: true }).signature,
      (good: string) => `${good.startsWith("A") ? "B" : "A"}${good.slice(1)}`,
    ]) {
      const worker = await hub.connect(other.key);
      worker.send(worker.registration({ signature: spoil(String(worker.registration({ signed: true }).signature)) }));
      expect(await worker.next("register_ack")).toEqual({ type: "register_ack", status: "error", error: "invalid_signature" });
      expect(await worker.closed()).toBe(4401);
    }
  });

  test("[WS5] a key that has authenticated once must do so from then on, the hub's memory lost or not", async () => {
    const hub = new TestHub();
    const first = await hub.worker({ signed: true });
    for (const forget of [false, true]) {
      if (forget) await hub.evict();
      const thief = await hub.connect(first.key);
      thief.send(thief.registration());
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

  test("[WS7] an authenticated one beats one that is not; not the other way round", async () => {
    const hub = new TestHub();
    const plain = await hub.worker();
    const signed = await hub.worker({ key: plain.key, signed: true });
    expect(await plain.closed()).toBe(4001);
    const again = await hub.connect(plain.key);
    again.send(again.registration());
    expect(await again.next("register_ack")).toMatchObject({ error: "auth_required" });
    const newer = await hub.worker({ key: plain.key, signed: true });
    expect(await signed.closed()).toBe(4001);
    await newer.quiet();
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
