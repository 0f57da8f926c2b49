import { deflateRawSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { type Frame, unsignedWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const ID = "11111111-2222-4333-8444-555555555555";
const BAD = { type: "error", code: "bad_message", message: expect.any(String) };

beforeAll(async () => {
  evm = await share();
});

const isError = (frame: Frame): boolean => frame.type === "error";

describe("bad frames", () => {
  const bad: [string, object | string | Uint8Array][] = [
    ["a binary frame", new TextEncoder().encode('{"type":"heartbeat"}')],
    ["an empty binary frame", new Uint8Array()],
    ["an empty text frame", ""],
    ["bad JSON", '{"type":'],
    ["an array", "[]"],
    ["an array of frames", '[{"type":"heartbeat"}]'],
    ["null", "null"],
    ["a number", "5"],
    ["a string", '"heartbeat"'],
    ["no type", "{}"],
    ["type a number", '{"type":5}'],
    ["an unknown type", '{"type":"selfdestruct"}'],
    ["type __proto__", '{"type":"__proto__"}'],
    ["a coordinator's own type", '{"type":"job_assign"}'],
    ["job_ack without job_id", { type: "job_ack", attempt: 1 }],
    ["job_ack with job_id a number", { type: "job_ack", job_id: 5, attempt: 1 }],
    ["job_ack without attempt", { type: "job_ack", job_id: ID }],
    ["job_ack with attempt a string", { type: "job_ack", job_id: ID, attempt: "1" }],
    ["job_progress without delta", { type: "job_progress", job_id: ID, attempt: 1, seq: 0 }],
    ["job_progress with seq -1", { type: "job_progress", job_id: ID, attempt: 1, seq: -1, delta: "x" }],
    ["job_progress with seq 0.5", { type: "job_progress", job_id: ID, attempt: 1, seq: 0.5, delta: "x" }],
    ["job_progress with delta a number", { type: "job_progress", job_id: ID, attempt: 1, seq: 0, delta: 1 }],
    ["job_failed without error", { type: "job_failed", job_id: ID, attempt: 1, retryable: true }],
    ["job_failed with retryable a string", { type: "job_failed", job_id: ID, attempt: 1, error: "x", retryable: "no" }],
    ["job_reject without job_id", { type: "job_reject", reason: "x" }],
    ["job_complete without job_id", { type: "job_complete", output: "x" }],
    ["job_complete with output a number", { type: "job_complete", job_id: ID, output: 5 }],
    ["job_complete with output null", { type: "job_complete", job_id: ID, output: null }],
    ["nesting of 200", `{"type":"heartbeat","x":${"[".repeat(200)}${"]".repeat(200)}}`],
  ];

  test.each(bad)("[WS1] %s gets error bad_message and the socket stays open", async (_name, frame) => {
    const worker = await unsignedWorker(evm.socketUrl);
    expect(await worker.ask(frame, isError)).toEqual(BAD);
    await worker.settled();
    expect(worker.closed).toBeUndefined();
  });

  test("[WS1] a lone surrogate in a frame is no server failure", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    worker.send('{"type":"heartbeat","x":"\\ud800"}');
    await worker.settled();
  });

  test("[WS1] ten bad frames in a row close the socket with 4400", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    for (let sent = 0; sent < 10; sent += 1) worker.send("nonsense");
    expect((await worker.ended()).code).toBe(4400);
  });

  test("[WS1] nine, a good one and nine more do not", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    for (let round = 0; round < 3; round += 1) {
      for (let sent = 0; sent < 9; sent += 1) worker.send("nonsense");
      await worker.settled();
    }
    expect(worker.frames.filter(isError)).toHaveLength(27);
    expect(worker.closed).toBeUndefined();
  });

  test("[WS1] bad UTF-8 in a text frame hurts at most its own socket", async () => {
    const raw = await RawSocket.open(evm.port);
    await raw.frame((json) => json.type === "challenge");
    raw.send(1, Buffer.from([0x7b, 0xff, 0xfe, 0x7d]));
    const code = await Promise.race([raw.closeCode(), raw.frame((json) => json.type === "error").then(() => 0)]);
    expect([0, 1007, 1006, 1002]).toContain(code);
    raw.end();
    expect((await evm.api.get("/v1/health")).status).toBe(200);
  });

  test("[WS1] fragments make one message, and a ping is answered", async () => {
    const raw = await RawSocket.open(evm.port);
    await raw.frame((json) => json.type === "challenge");
    const text = JSON.stringify({ type: "register", provider_pubkey: newIdentity().pubkey, provider_type: "MOBILE", capabilities: ["TASK"] });
    raw.send(1, text.slice(0, 20), false);
    raw.send(9, "ping");
    raw.send(0, text.slice(20));
    await raw.frame((json) => json.type === "register_ack" && json.status === "ok");
    await raw.frame((_json, frame) => frame.opcode === 10 && frame.data.toString() === "ping");
    raw.end();
  });

  test("[LM1] a frame of 1.25 MiB is read; a larger one closes with 1009", async () => {
    const MOST = 1.25 * 1024 * 1024;
    const head = '{"type":"heartbeat","pad":"';
    const frame = (size: number): string => `${head}${"x".repeat(size - head.length - 2)}"}`;
    const worker = await unsignedWorker(evm.socketUrl);
    expect(await worker.ask(frame(MOST), "heartbeat_ack")).toEqual({ type: "heartbeat_ack", status: "ok" });
    worker.send(frame(MOST + 1));
    expect((await worker.ended()).code).toBe(1009);
  });
});

describe("before register", () => {
  const early: object[] = [
    { type: "job_complete", job_id: ID, output: "x", receipt: {}, receipt_signature: "" },
    { type: "job_ack", job_id: ID, attempt: 1 },
    { type: "job_progress", job_id: ID, attempt: 1, seq: 0, delta: "" },
    { type: "job_failed", job_id: ID, attempt: 1, error: "x", retryable: true },
    { type: "job_reject", job_id: ID, reason: "x" },
    { type: "drain" },
    { type: "heartbeat", mark: 1 },
  ];

  test.each(early)("[WS1] $type gets error not_registered and the socket stays open", async (frame) => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    expect(await worker.ask(frame, isError)).toMatchObject({ type: "error", code: "not_registered", message: expect.any(String) });
    expect((await worker.registerPlain()).status).toBe("ok");
  });

  test("[WS1] a frame of no known kind gets an error too", async () => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    expect(["bad_message", "not_registered"]).toContain((await worker.ask("nonsense", isError)).code);
    expect((await worker.registerPlain()).status).toBe("ok");
  });
});

describe("heartbeat", () => {
  test("[WS6] the exact text is answered by the exact heartbeat_ack", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    worker.stopBeat();
    expect(await worker.ask('{"type":"heartbeat"}', "heartbeat_ack")).toEqual({ type: "heartbeat_ack" });
  });

  test.each(['{"type":"heartbeat","provider_pubkey":"x"}', '{ "type": "heartbeat" }', '{"timestamp":1,"type":"heartbeat","load":{"cpu":0.5}}'])(
    "[WS6] any other heartbeat object is acknowledged: %s",
    async (text) => {
      const worker = await unsignedWorker(evm.socketUrl);
      worker.stopBeat();
      expect(await worker.ask(text, "heartbeat_ack")).toEqual({ type: "heartbeat_ack", status: "ok" });
    },
  );
});

describe("frames that the worker has no right to send", () => {
  test("[WS12, WS10] complete a job it never held: not_assigned; one that nobody knows: unknown_job", async () => {
    const holder = await unsignedWorker(evm.socketUrl);
    const thief = await unsignedWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, holder);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await holder.assigned(id);
    await evm.api.until(id, "running");
    expect(await thief.complete(id, OUTPUT)).toMatchObject({ type: "job_complete_ack", job_id: id, status: "rejected", error: "not_assigned" });
    expect(await thief.complete(ID, OUTPUT)).toMatchObject({ job_id: ID, status: "rejected", error: "unknown_job" });
    expect(await evm.api.job(id)).toMatchObject({ status: "running", result: null, receipt: null });
    for (const frame of [
      { type: "job_ack", job_id: id, attempt: 1 },
      { type: "job_progress", job_id: id, attempt: 1, seq: 0, delta: "stolen" },
      { type: "job_failed", job_id: id, attempt: 1, error: "stolen", retryable: false },
      { type: "job_reject", job_id: id, reason: "stolen" },
    ])
      thief.send(frame);
    await thief.settled();
    expect(await evm.api.job(id)).toMatchObject({ status: "running" });
    expect((await holder.complete(id, OUTPUT)).status).toBe("accepted");
    expect((await evm.api.ended(id)).receipt).toMatchObject({ provider_pubkey: holder.pubkey });
  });
});

describe("compression", () => {
  const OFFER = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits";
  /** The first byte of a text frame that claims to be compressed (RFC 7692: the bit RSV1). */
  const COMPRESSED_TEXT = 0x41;

  test("[LM1] an upgrade that offers permessage-deflate gets a socket without it", async () => {
    const raw = await RawSocket.open(evm.port, "/", [`Host: ${evm.host}`, OFFER]);
    expect(raw.head).toMatch(/^HTTP\/1\.1 101/);
    expect(raw.head.toLowerCase()).not.toContain("sec-websocket-extensions");
    raw.end();
  });

  test("[LM1] a compressed frame ends its socket unread: nothing is inflated", async () => {
    const raw = await RawSocket.open(evm.port, "/", [`Host: ${evm.host}`, OFFER]);
    await raw.frame(({ type }) => type === "challenge");
    // If it were inflated, it would be a frame of 32 MiB, which is closed with 1009.
    raw.send(COMPRESSED_TEXT, deflateRawSync(Buffer.alloc(32 * 1024 * 1024, " ")));
    expect([1002, 1006]).toContain(await raw.closeCode());
    raw.end();
  });
});
