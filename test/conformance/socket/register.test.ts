import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task, llm, UUID } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { type Identity, newIdentity, receiptFor, registerText, signText } from "../support/identity.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { fullWorker, specWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", PUBLIC_HOST: "" });
});

const open = (identity?: Identity): Promise<WorkerSocket> => WorkerSocket.open(evm.socketUrl, identity);
const registerError = (code: string) => ({ type: "register_ack", status: "error", error: code });

describe("challenge", () => {
  test("[WS2] is sent on open: a fresh nonce of 32 bytes, the chain and the host", async () => {
    const [one, two] = [await (await open()).challenge(), await (await open()).challenge()];
    expect(one).toEqual({ type: "challenge", nonce: expect.stringMatching(/^[0-9a-f]{64}$/), network: "eip155:10143", host: evm.host });
    expect(two.nonce).not.toBe(one.nonce);
  });

  test.each(["/", "/ws", "/v1/ws", "/any/thing?x=1"])("[WS1] a WebSocket on %s is a worker socket", async (path) => {
    const worker = await WorkerSocket.open(`ws://${evm.host}${path}`);
    await worker.challenge();
    expect((await worker.registerPlain()).status).toBe("ok");
  });

  test.each(["/v1/health", "/v1/jobs/commit/fast"])("[WS1] an upgrade on REST path %s is no worker socket", async (path) => {
    const raw = await RawSocket.open(evm.port, path);
    expect(raw.head).not.toMatch(/^HTTP\/1\.1 101/);
    raw.end();
  });

  test.each([
    ["Example.COM:80", "example.com"],
    ["Example.COM:4601", "example.com:4601"],
    ["[::1]:9", "[::1]:9"],
  ])("[WS2] the host of Host: %s is %s", async (sent, host) => {
    const raw = await RawSocket.open(evm.port, "/", [`Host: ${sent}`]);
    const frame = await raw.frame((json) => json.type === "challenge");
    expect(JSON.parse(frame.data.toString())).toMatchObject({ host });
    raw.end();
  });
});

describe("register", () => {
  test("[WS4, SPEC] unsigned, as the specification's reader sends it: ok, not authenticated", async () => {
    expect(await (await open()).registerPlain()).toEqual({
      type: "register_ack",
      status: "ok",
      worker_id: expect.stringMatching(UUID),
      authenticated: false,
      tier: expect.stringMatching(/^(Open|Verified|Sentinel)$/),
      heartbeat_interval_ms: 10_000,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
  });

  test("[WS3, WS4] signed, in base64 and in hex: authenticated", async () => {
    expect(await (await open()).registerSigned()).toMatchObject({ status: "ok", authenticated: true });
    const worker = await open();
    const hex = Buffer.from(signText(worker.identity, registerText(await worker.challenge(), worker.pubkey)), "base64").toString("hex");
    expect(await worker.registerPlain({ signature: hex })).toMatchObject({ status: "ok", authenticated: true });
  });

  test("[WS3] optional and unknown fields are taken", async () => {
    const more = { models: ["a", "b"], engine: "llama", name: "my worker", version: "2.0.0", features: ["ack", "unheard-of"], resume: [], whatever: { x: 1 } };
    expect(await (await open()).registerSigned(more)).toMatchObject({ status: "ok", authenticated: true });
  });

  test("[WS3, WS4] a signature over anything else is invalid_signature, close 4401", async () => {
    const wrong = [
      (c: Record<string, unknown>, key: string) => registerText({ ...c, nonce: "00".repeat(32) }, key),
      (c: Record<string, unknown>, key: string) => registerText({ ...c, network: "eip155:1" }, key),
      (c: Record<string, unknown>, key: string) => registerText({ ...c, host: "other.example" }, key),
      (c: Record<string, unknown>, key: string) => `${registerText(c, key)}\n`,
      (c: Record<string, unknown>) => registerText(c, newIdentity().pubkey),
    ];
    for (const text of wrong) {
      const worker = await open();
      const signature = signText(worker.identity, text(await worker.challenge(), worker.pubkey));
      expect(await worker.registerPlain({ signature })).toMatchObject(registerError("invalid_signature"));
      expect((await worker.ended()).code).toBe(4401);
    }
    for (const signature of ["", "AAAA", "!".repeat(88), Buffer.alloc(64).toString("base64")]) {
      const worker = await open();
      const ack = await worker.registerPlain({ signature });
      // The rule leaves open whether a text that is not a signature is a wrong field, so both answers are allowed.
      expect(["invalid_signature", "invalid_register"]).toContain(ack.error);
      expect([4401, 4400]).toContain((await worker.ended()).code);
    }
  });

  test("[WS2] a nonce serves one socket only", async () => {
    const first = await open();
    const challenge = await first.challenge();
    const second = await open(first.identity);
    expect(await second.registerPlain({ signature: signText(first.identity, registerText(challenge, first.pubkey)) })).toMatchObject(
      registerError("invalid_signature"),
    );
    expect((await second.ended()).code).toBe(4401);
  });

  test.each([
    ["missing", undefined],
    ["a number", 5],
    ["short", "ab".repeat(31)],
    ["long", "ab".repeat(33)],
    ["not hex", "zz".repeat(32)],
    ["not canonical: y = p + 1", `ee${"ff".repeat(30)}7f`],
    ["not canonical: y = 2^255 - 1", `${"ff".repeat(31)}7f`],
    ["the identity point", `01${"00".repeat(31)}`],
    ["the identity point with a sign", `01${"00".repeat(30)}80`],
    ["y = 0, order 4", "00".repeat(32)],
    ["y = -1, order 2", `ec${"ff".repeat(30)}7f`],
    ["order 8", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"],
    ["order 8 too", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"],
    ["order 8, signed", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"],
    ["not on the curve: y = 2", `02${"00".repeat(31)}`],
  ])("[WS4] a provider_pubkey that is %s: invalid_key, close 4400", async (_name, key) => {
    const worker = await open();
    expect(await worker.registerPlain({ provider_pubkey: key })).toMatchObject(registerError("invalid_key"));
    expect((await worker.ended()).code).toBe(4400);
  });

  test.each([
    ["no provider_type", { provider_type: undefined }],
    ["an unknown provider_type", { provider_type: "TOASTER" }],
    ["a lower-case provider_type", { provider_type: "desktop" }],
    ["no capabilities", { capabilities: undefined }],
    ["capabilities as a string", { capabilities: "TASK" }],
    ["capabilities of numbers", { capabilities: [1] }],
    ["models as a string", { models: "a" }],
    ["features of objects", { features: [{}] }],
    ["resume as an object", { resume: {} }],
    ["resume without job_id", { resume: [{ attempt: 1 }] }],
    ["engine as a number", { engine: 5 }],
  ])("[WS4] %s: invalid_register, close 4400", async (_name, changes) => {
    const worker = await open();
    expect(await worker.registerPlain(changes)).toMatchObject(registerError("invalid_register"));
    expect((await worker.ended()).code).toBe(4400);
  });

  test("[WS3] an upper-case key is folded: receipts name it in lower case", async () => {
    const worker = await open();
    expect((await worker.registerPlain({ provider_pubkey: worker.pubkey.toUpperCase() })).status).toBe("ok");
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    expect(await worker.complete(id, OUTPUT)).toMatchObject({ status: "accepted" });
    expect((await evm.api.ended(id)).receipt).toMatchObject({ provider_pubkey: worker.pubkey });
  });

  test.each(["MOBILE", "SEEKER"])("[WS3, SPEC] a %s worker is given TASK only, whatever it announces", async (provider_type) => {
    const worker = await specWorker(evm.socketUrl, { provider_type });
    const user = newUser();
    await evm.api.pair(user, worker);
    expect((await evm.api.tryCommit(llm(user, "x", { privacy_class: "PRIVATE" }))).status).toBe(422);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS3] a second register of the same key needs no signature and replaces capabilities", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    expect(await worker.registerPlain({ capabilities: ["TASK"] })).toMatchObject({ status: "ok", authenticated: true });
    expect((await evm.api.tryCommit(llm(user, "x", { privacy_class: "PRIVATE" }))).status).toBe(422);
    expect(await worker.registerPlain({ capabilities: ["LLM_INFER"] })).toMatchObject({ status: "ok" });
    expect((await evm.api.tryCommit(task(user, "x", { privacy_class: "PRIVATE" }))).status).toBe(422);
    const id = await evm.api.commit(llm(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    await worker.complete(id, "hi");
  });

  test("[WS3] a second register with another key is already_registered and changes nothing", async () => {
    const worker = await specWorker(evm.socketUrl);
    const other = newIdentity();
    const answer = await worker.ask(
      { type: "register", ...worker.registration(), provider_pubkey: other.pubkey },
      (frame) => frame.type === "error" || frame.type === "register_ack",
    );
    expect(JSON.stringify(answer)).toContain("already_registered");
    expect(answer.type).toBe("error");
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });
});

describe("two sockets of one key", () => {
  test("[WS7, WS4] the newest registration of equal standing wins; the loser is closed 4001", async () => {
    const signed = newIdentity();
    const one = await fullWorker(evm.socketUrl, {}, signed);
    const two = await fullWorker(evm.socketUrl, {}, signed);
    expect((await one.ended()).code).toBe(4001);
    await two.settled();
  });

  test("[WS7, WS4] an unsigned stranger with the key of a live worker is already_connected, 4409; the worker keeps socket and job", async () => {
    const worker = await specWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    for (let round = 0; round < 5; round += 1) {
      const stranger = await open(worker.identity);
      expect(await stranger.registerPlain()).toMatchObject({ ...registerError("already_connected"), retry_after_s: 15 });
      expect((await stranger.ended()).code).toBe(4409);
    }
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS7] an authenticated registration beats an unauthenticated one", async () => {
    const identity = newIdentity();
    const plain = await specWorker(evm.socketUrl, {}, identity);
    const signed = await fullWorker(evm.socketUrl, {}, identity);
    expect((await plain.ended()).code).toBe(4001);
    await signed.settled();
  });

  test("[WS5, WS4] a key that has authenticated once must do so from then on: auth_required, 4401", async () => {
    const identity = newIdentity();
    const signed = await fullWorker(evm.socketUrl, {}, identity);
    const plain = await open(identity);
    expect(await plain.registerPlain()).toMatchObject(registerError("auth_required"));
    expect((await plain.ended()).code).toBe(4401);
    await signed.settled();
    signed.close();
    await signed.ended();
    const later = await open(identity);
    expect(await later.registerPlain()).toMatchObject(registerError("auth_required"));
  });

  test("[WS7] the late completion of a replaced socket changes nothing", async () => {
    const identity = newIdentity();
    const user = newUser();
    const one = await specWorker(evm.socketUrl, {}, identity);
    await evm.api.pair(user, one);
    const two = await fullWorker(evm.socketUrl, { features: [] }, identity);
    await one.ended();
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await two.assigned(id);
    one.send({ type: "job_complete", job_id: id, output: OUTPUT, ...receiptFor(identity, id, OUTPUT) });
    await two.settled();
    expect((await evm.api.job(id)).status).toBe("assigned");
    expect((await two.complete(id, OUTPUT)).status).toBe("accepted");
  });
});
