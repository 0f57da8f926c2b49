import { LIMITS } from "../../../src/protocol/limits.ts";
import { env, exports } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { TestHub } from "../support/worker-hub.ts";
import { TestWorker } from "../support/worker.ts";

const NETWORK = { evm: "eip155:10143", svm: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1" }[env.INSTANCE];

describe("a socket before it registers", () => {
  test("[WS1] any path outside the REST table takes an upgrade, in any case, and / does", async () => {
    const hub = new TestHub();
    for (const path of ["/", "/ws", "/v1/worker", "/v1/jobs/x/y", "/x?y=z"]) {
      expect((await hub.connect(undefined, `http://hub.test${path}`)).challenge).toMatchObject({ type: "challenge" });
    }
    const upper = await hub.fetch(new Request("http://hub.test/", { headers: { Upgrade: "WebSocket" } }));
    expect(upper.status).toBe(101);
    upper.webSocket?.accept();
  });

  test("[WS2] the challenge has exactly four members, a new nonce per socket, and this instance's network", async () => {
    const hub = new TestHub();
    const [one, two] = [await hub.connect(), await hub.connect()];
    expect(Object.keys(one.challenge)).toEqual(["type", "nonce", "network", "host"]);
    expect(one.challenge).toMatchObject({ type: "challenge", network: NETWORK, host: "hub.test" });
    expect(one.challenge.nonce).toMatch(/^[0-9a-f]{64}$/);
    expect(one.challenge.nonce).not.toBe(two.challenge.nonce);
  });

  test.for([
    ["http://Hub.Test/", "hub.test"],
    ["http://hub.test:80/", "hub.test"],
    ["http://hub.test:4010/", "hub.test:4010"],
    ["https://hub.test:443/", "hub.test"],
    ["https://hub.test:80/", "hub.test:80"],
    ["http://[::1]:4020/", "[::1]:4020"],
  ])("[WS2] the host of %s is %s", async ([url, host]) => {
    const hub = new TestHub();
    expect((await hub.connect(undefined, url)).challenge.host).toBe(host);
  });

  test("[WS2] a socket that does not register is closed after 10 s, a registered one is not", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const [silent, registered] = [await hub.connect(), await hub.worker()];
    await hub.pass(9_999);
    await silent.beat();
    expect(await hub.pass(1)).toBe(true);
    expect(await silent.closed()).toBe(4008);
    await registered.quiet();
  });

  test("[WS2] a socket that does not register is closed after 10 s, even if the hub lost its memory", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const silent = await hub.connect();
    await hub.evict();
    expect(await hub.pass(10_000)).toBe(true);
    expect(await silent.closed()).toBe(4008);
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

  test("[WS1] before register every other frame is not_registered", async () => {
    const hub = new TestHub();
    const worker = await hub.connect();
    for (const frame of [{ type: "heartbeat", n: 1 }, { type: "drain" }, { type: "job_complete" }, { type: "nonsense" }, { no: "type" }]) {
      worker.send(frame);
      expect(await worker.next("error")).toMatchObject({ code: "not_registered", message: expect.any(String) });
    }
    await worker.register();
  });

  test("[WS6] a heartbeat before register is answered by the platform", async () => {
    const hub = new TestHub();
    expect(await (await hub.connect()).beat()).toEqual({ type: "heartbeat_ack" });
  });
});

describe("bad frames", () => {
  const bad: [string, string | ArrayBuffer][] = [
    ["binary", new Uint8Array([123, 125]).buffer],
    ["no JSON", "{"],
    ["empty", ""],
    ["an array", "[]"],
    ["null", "null"],
    ["a number", "1"],
    ["a string", '"register"'],
    ["no type", "{}"],
    ["a type that is no string", '{"type":1}'],
    ["an unknown type", '{"type":"job_asign"}'],
    ["__proto__ instead of a type", '{"__proto__":{"type":"drain"}}'],
    ["missing fields", '{"type":"job_ack"}'],
    ["wrong fields", '{"type":"job_ack","job_id":1,"attempt":1}'],
    ["an attempt of 0", '{"type":"job_ack","job_id":"x","attempt":0}'],
    ["an output that is an array", '{"type":"job_complete","job_id":"x","output":[]}'],
    ["depth 33", `{"type":"heartbeat","x":${"[".repeat(LIMITS.jsonDepth)}${"]".repeat(LIMITS.jsonDepth)}}`],
    ["depth 200 000", `{"type":"heartbeat","x":${"[".repeat(200_000)}${"]".repeat(200_000)}}`],
  ];

  test.for(bad)("[WS1] %s is bad_message and the socket stays open", async ([, frame]) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    worker.send(frame);
    expect(await worker.next("error")).toEqual({ type: "error", code: "bad_message", message: expect.any(String) });
    await worker.quiet();
  });

  test("[LM1] depth 32 is read", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    worker.send(`{"type":"heartbeat","x":${"[".repeat(LIMITS.jsonDepth - 1)}${"]".repeat(LIMITS.jsonDepth - 1)}}`);
    await worker.next("heartbeat_ack");
  });

  test("[WS1] ten in a row close the socket with 4400, and its worker is disconnected", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (let i = 0; i < LIMITS.badFramesInARow; i++) worker.send("[]");
    for (let i = 0; i < LIMITS.badFramesInARow; i++) await worker.next("error");
    expect(await worker.closed()).toBe(4400);
    expect(await hub.workersOnline()).toBe(0);
  });

  test.for(["quiet", "beat"] as const)("[WS1, WS6] a good frame resets the count, also a heartbeat that the platform answers: %s", async (good) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < LIMITS.badFramesInARow - 1; i++) worker.send("[]");
      for (let i = 0; i < LIMITS.badFramesInARow - 1; i++) await worker.next("error");
      await worker[good]();
    }
  });

  test("[WS1] ten before register close the socket too", async () => {
    const hub = new TestHub();
    const worker = await hub.connect();
    for (let i = 0; i < LIMITS.badFramesInARow; i++) worker.send({ type: "drain" });
    for (let i = 0; i < LIMITS.badFramesInARow; i++) await worker.next("error");
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

  test("[LM1] a frame of 1.25 MiB is read", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const frame = { type: "heartbeat", x: "" };
    worker.send({ ...frame, x: "x".repeat(LIMITS.frameBytes - JSON.stringify(frame).length) });
    await worker.next("heartbeat_ack");
  });
});

test("[SPEC] a whole job over the service's own entry", async () => {
  const url = "http://entry.test:4010/";
  const { webSocket } = await exports.default.fetch(url, { headers: { Upgrade: "websocket" } });
  if (webSocket === null) throw new Error("no socket");
  const worker = await TestWorker.greeted(webSocket);
  await worker.register({ signed: true });
  const body = JSON.stringify({ job_type: "TASK", user_id: "u", payload: { task_type: "classify", input: "good" } });
  const commit = await exports.default.fetch(`${url}v1/jobs/commit/fast`, { method: "POST", body });
  expect(commit.status).toBe(201);
  const job = await worker.assigned();
  expect(await commit.json()).toEqual({ job_id: job.job_id });
  expect(await worker.complete(job, { sentiment: "positive", confidence: 0.9 })).toEqual({ type: "job_complete_ack", job_id: job.job_id, status: "accepted" });
  const answer = await exports.default.fetch(`${url}v1/jobs/${job.job_id}`);
  expect(await answer.json()).toMatchObject({ id: job.job_id, status: "completed", result: { sentiment: "positive", confidence: 0.9 } });
  worker.close();
});
