import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { type Identity, malleable, receiptFor, registerText, signText } from "../support/identity.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { within } from "../support/wait.ts";
import { fullWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
let svm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };
const refused = (error: string) => ({ type: "register_ack", status: "error", error });

beforeAll(async () => {
  [evm, svm] = await Promise.all([
    start("evm", { TESTNET_MODE: "true", WORKER_AUTH: "required", PUBLIC_HOST: "" }),
    start("svm", { TESTNET_MODE: "true", WORKER_AUTH: "required", STAKE_SOURCE: "table", PUBLIC_HOST: "svm.example:8443" }),
  ]);
});

/** Runs a PRIVATE job on a worker, which proves that it is connected and trusted. */
async function works(subject: Subject, worker: WorkerSocket): Promise<void> {
  const user = newUser();
  await subject.api.pair(user, worker);
  const id = await subject.api.commit(task(user, "x", PRIVATE));
  await worker.assigned(id);
  expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
}

/** Opens a raw socket with these header lines and returns its challenge. */
async function challengeOf(subject: Subject, ...headers: string[]): Promise<Record<string, unknown>> {
  const raw = await RawSocket.open(subject.port, "/", headers);
  try {
    return JSON.parse((await raw.frame((json) => json.type === "challenge")).data.toString()) as Record<string, unknown>;
  } finally {
    raw.end();
  }
}

describe("another worker's key", () => {
  test("[WS3, WS5, WS7] without its signature gives no access, and the real worker is not disturbed", async () => {
    const victim = await fullWorker(evm.socketUrl);
    const unsigned = await WorkerSocket.open(evm.socketUrl);
    expect(await unsigned.registerPlain({ provider_pubkey: victim.pubkey })).toMatchObject(refused("auth_required"));
    expect((await unsigned.ended()).code).toBe(4401);
    const forger = await WorkerSocket.open(evm.socketUrl);
    const signature = signText(forger.identity, registerText(await forger.challenge(), victim.pubkey));
    expect(await forger.registerPlain({ provider_pubkey: victim.pubkey, signature })).toMatchObject(refused("invalid_signature"));
    expect((await forger.ended()).code).toBe(4401);
    expect(victim.closed).toBeUndefined();
    await works(evm, victim);
  });

  test("[WS2] an intercepted signature is invalid on a second socket and on a reconnected one", async () => {
    const victim = await WorkerSocket.open(evm.socketUrl);
    const signature = signText(victim.identity, registerText(await victim.challenge(), victim.pubkey));
    expect((await victim.registerPlain({ signature })).status).toBe("ok");
    for (let each = 0; each < 3; each += 1) {
      const thief = await WorkerSocket.open(evm.socketUrl, victim.identity);
      expect(await thief.registerPlain({ signature })).toMatchObject(refused("invalid_signature"));
    }
    expect(victim.closed).toBeUndefined();
  });

  test("[WS2] the signed challenge of one instance gives no access to the other", async () => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    const elsewhere = await WorkerSocket.open(svm.socketUrl, worker.identity);
    const [mine, theirs] = [await worker.challenge(), await elsewhere.challenge()];
    expect(mine.network).not.toBe(theirs.network);
    // The signature that the worker would give if someone passed it the nonce of the other instance.
    const relayed = signText(worker.identity, registerText({ ...mine, nonce: theirs.nonce }, worker.pubkey));
    expect(await elsewhere.registerPlain({ signature: relayed })).toMatchObject(refused("invalid_signature"));
  });

  test("[WS2] a signature for the host of a man in the middle is invalid at the real host", async () => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    const challenge = await worker.challenge();
    const signature = signText(worker.identity, registerText({ ...challenge, host: "middleman.example" }, worker.pubkey));
    expect(await worker.registerPlain({ signature })).toMatchObject(refused("invalid_signature"));
    const dialled = await WorkerSocket.open(svm.socketUrl);
    const other = signText(dialled.identity, registerText({ ...(await dialled.challenge()), host: svm.host }, dialled.pubkey));
    expect(await dialled.registerPlain({ signature: other }), "the host that it dialled, where PUBLIC_HOST is set").toMatchObject(refused("invalid_signature"));
    expect((await dialled.ended()).code).toBe(4401);
  });

  test("[WS2] PUBLIC_HOST stands in the challenge whatever host a middleman says in Host or beside it", async () => {
    for (const headers of [["Host: middleman.example"], [`Host: ${svm.host}`, "X-Forwarded-Host: middleman.example", "Forwarded: host=middleman.example"]])
      expect((await challengeOf(svm, ...headers)).host).toBe("svm.example:8443");
    expect((await challengeOf(evm, `Host: ${evm.host}`, "X-Forwarded-Host: middleman.example")).host).toBe(evm.host);
  });

  test("[WS3, TR4, RC1] a signature for one purpose is invalid for every other", async () => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    const challenge = await worker.challenge();
    const code = (await evm.api.post("/v1/trust/create", { user_id: newUser() })).body.pairing_code;
    const pair = `compute-router/pair/v1\n${String(challenge.network)}\n${String(code)}\n${worker.pubkey}`;
    const registration = signText(worker.identity, registerText(challenge, worker.pubkey));
    const claim = { pairing_code: code, provider_pubkey: worker.pubkey, signature: registration };
    expect((await evm.api.post("/v1/trust/claim", claim)).body).toEqual({ error: "invalid_signature" });
    const receipt = receiptFor(worker.identity, "11111111-2222-4333-8444-555555555555", OUTPUT).receipt_signature;
    for (const signature of [signText(worker.identity, pair), receipt]) {
      const other = await WorkerSocket.open(evm.socketUrl, worker.identity);
      await other.challenge();
      expect(await other.registerPlain({ signature })).toMatchObject(refused("invalid_signature"));
    }
    expect((await evm.api.post("/v1/trust/claim", { ...claim, signature: signText(worker.identity, pair) })).status).toBe(200);
  });
});

describe("one key in many spellings", () => {
  const spellings: [string, (key: string) => string][] = [
    ["0x before it", (key) => `0x${key}`],
    ["base64", (key) => Buffer.from(key, "hex").toString("base64")],
    ["base64url", (key) => Buffer.from(key, "hex").toString("base64url")],
    ["31 bytes", (key) => key.slice(2)],
    ["33 bytes", (key) => `${key}00`],
    ["a line end", (key) => `${key}\n`],
    ["blanks around it", (key) => ` ${key} `],
    ["a NUL", (key) => `${key.slice(0, 63)}\0`],
    ["full-width digits", (key) => key.replace(/[0-9]/, "\uff11")],
    ["colons", (key) => key.replaceAll(/(..)(?=.)/g, "$1:")],
  ];

  test.each(spellings)("[WS4, API4] %s: invalid_key at register, 400 at a claim", async (_name, spell) => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    const wrong = spell(worker.pubkey);
    const signature = signText(worker.identity, registerText(await worker.challenge(), wrong));
    expect(await worker.registerPlain({ provider_pubkey: wrong, signature })).toMatchObject(refused("invalid_key"));
    expect((await worker.ended()).code).toBe(4400);
    const code = (await evm.api.post("/v1/trust/create", { user_id: newUser() })).body.pairing_code;
    const claim = await evm.api.post("/v1/trust/claim", { pairing_code: code, provider_pubkey: wrong });
    expect(claim.status).toBe(400);
    expect(claim.body.error).toContain("provider_pubkey");
  });

  test("[WS3, WS7] upper and lower case are one worker, and one entry in a user's list", async () => {
    const lower = await fullWorker(evm.socketUrl);
    const upper = await WorkerSocket.open(evm.socketUrl, lower.identity);
    const signature = signText(upper.identity, registerText(await upper.challenge(), upper.pubkey));
    expect(await upper.registerPlain({ provider_pubkey: upper.pubkey.toUpperCase(), signature })).toMatchObject({ status: "ok", authenticated: true });
    expect((await lower.ended()).code).toBe(4001);
    const user = newUser();
    await evm.api.pair(user, upper.pubkey.toUpperCase());
    await evm.api.pair(user, upper.pubkey);
    const { providers } = (await evm.api.get(`/v1/trust/list?user_id=${user}`)).body;
    expect(providers).toEqual([{ provider_pubkey: upper.pubkey, paired_at: expect.any(String) }]);
    await works(evm, upper);
  });
});

describe("one signature in many spellings", () => {
  const wrong: [string, (signature: string, identity: Identity) => string][] = [
    ["63 bytes", (s) => Buffer.from(s, "base64").subarray(0, 63).toString("base64")],
    ["65 bytes", (s) => Buffer.concat([Buffer.from(s, "base64"), Buffer.alloc(1)]).toString("base64")],
    ["S + L", malleable],
    ["R negated", (s) => flip(s, 31, 0x80)],
    ["one bit of S", (s) => flip(s, 40, 1)],
    ["the identity as R and S = 0", () => Buffer.from(`01${"00".repeat(63)}`, "hex").toString("base64")],
    ["0x and hex", (s) => `0x${Buffer.from(s, "base64").toString("hex")}`],
    ["base64 in lines", (s) => `${s.slice(0, 44)}\n${s.slice(44)}`],
    ["other bits after its last byte", (s) => `${s.slice(0, 85)}${s[85] === "A" ? "B" : "A"}==`],
    ["itself twice", (s) => s + s],
    ["nothing", () => ""],
  ];

  test.each(wrong)("[WS3, RC1] %s: invalid_signature, close 4401", async (_name, spell) => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    const good = signText(worker.identity, registerText(await worker.challenge(), worker.pubkey));
    expect(await worker.registerPlain({ signature: spell(good, worker.identity) })).toMatchObject(refused("invalid_signature"));
    expect((await worker.ended()).code).toBe(4401);
  });
});

describe("false claims of a worker about itself", () => {
  test("[ST1, WS4] a stake, a tier and a standing that it claims change nothing", async () => {
    const boaster = await WorkerSocket.open(svm.socketUrl);
    const claims = { stake: 1_000_000, tier: "Sentinel", authenticated: true, worker_id: "mine", privacy: "PRIVATE", trusted: [newUser()], __proto__: null };
    const ack = await boaster.registerSigned({ ...claims, capabilities: ["TASK", "ROOT", "__proto__", "constructor"] });
    expect(ack).toMatchObject({ status: "ok", tier: "Open" });
    expect(ack.worker_id).not.toBe("mine");
    boaster.beat();
    const fast = await svm.api.commit(task(newUser()), "fast");
    const cheap = await svm.api.commit(task(newUser()), "cheap");
    await boaster.assigned(cheap);
    expect((await boaster.complete(cheap, OUTPUT)).status).toBe("accepted");
    await boaster.settled();
    expect(boaster.had(fast)).toBe(false);
  });

  test("[WS3] names of terminal escapes and megabytes are refused or forgotten: no answer has them", async () => {
    const name = "\u001b]0;owned\u0007\u202e";
    const worker = await WorkerSocket.open(evm.socketUrl);
    const many = { name, engine: name, version: name, models: Array.from({ length: 256 }, (_, index) => `${name}${index}`.padEnd(256, "m")) };
    expect(await worker.registerSigned(many)).toMatchObject({ status: "ok" });
    for (const path of ["/v1/health", "/v1/models", `/v1/trust/list?user_id=${newUser()}`]) expect((await evm.api.get(path)).text).not.toContain("owned");
    await works(evm, worker);
    // Of models the rule says that those which do not fit are left out [JB10].
    const greedy = await WorkerSocket.open(evm.socketUrl);
    const models = ["m".repeat(100_000), ...Array.from({ length: 5_000 }, (_, index) => `m${index}`)];
    expect(await greedy.registerSigned({ models })).toMatchObject({ status: "ok" });
    // The list may be a second old.
    const list = async (): Promise<string> => (await evm.api.get("/v1/models")).text;
    const listed = await within(
      5_000,
      async () => [await list()].find((text) => text.includes('"m99"')),
      () => "the models of this worker",
    );
    expect(listed).not.toContain('"m100"');
    expect(listed).not.toContain("mm");
    greedy.close();
    const boaster = await WorkerSocket.open(evm.socketUrl);
    expect(await boaster.registerSigned({ name: "n".repeat(500_000) })).toMatchObject(refused("invalid_register"));
    expect((await boaster.ended()).code).toBe(4400);
  });
});

describe("a page in another person's browser", () => {
  test("[WS3, WS5] an Origin and cookies give no access: a socket of a foreign page is unregistered, because it has no key to sign with", async () => {
    const victim = await fullWorker(evm.socketUrl);
    const raw = await RawSocket.open(evm.port, "/", [
      `Host: ${evm.host}`,
      "Origin: https://evil.example",
      "Cookie: session=victim",
      "Authorization: Bearer victim",
    ]);
    const challenge = JSON.parse((await raw.frame((json) => json.type === "challenge")).data.toString()) as Record<string, unknown>;
    expect(challenge).toEqual({ type: "challenge", nonce: expect.stringMatching(/^[0-9a-f]{64}$/), network: "eip155:10143", host: evm.host });
    raw.send(1, JSON.stringify({ type: "register", ...victim.registration() }));
    const ack = await raw.frame((json) => json.type === "register_ack");
    expect(JSON.parse(ack.data.toString())).toMatchObject(refused("auth_required"));
    expect(await raw.closeCode()).toBe(4401);
    raw.end();
    expect(victim.closed).toBeUndefined();
  });
});

function flip(signature: string, at: number, bits: number): string {
  const bytes = Buffer.from(signature, "base64");
  bytes[at] = (bytes[at] ?? 0) ^ bits;
  return bytes.toString("base64");
}
