import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { LIMITS, RATES } from "../../../src/protocol/limits.ts";
import { Paired, PairingCode, TrustList } from "../../../src/protocol/rest.ts";
import { pairText } from "../../../src/protocol/worker-messages.ts";
import { keyPair, signText } from "../../../src/receipt/index.ts";
import { claimCode, storeCode } from "../../../src/coordinator/store/trust.ts";
import { type Overrides, TASK, failingAnswer, failingDb, failingHub, freshInstance, post, read, refusal, rest } from "./rest.ts";
import { FakeWorker } from "./worker.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);
beforeEach(freshInstance);

const CREATE = "/v1/trust/create";
const CLAIM = "/v1/trust/claim";
const HOUR = 3_600_000;
/** Rate limits are on. The rate of the endpoints themselves is high, because this file would use it up. */
const LIMITED = { RATE_LIMITS: "on", TRUST_PER_MINUTE: "1000" };
const network = env.INSTANCE === "evm" ? "eip155:10143" : "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
const keyOf = (seed: number) => keyPair(new Uint8Array(32).fill(seed));
const [A, B] = [keyOf(1).publicKey, keyOf(2).publicKey];

async function create(user_id: string): Promise<string> {
  const response = await post(CREATE, { user_id });
  expect(response.status).toBe(201);
  return (await read(response, PairingCode)).pairing_code;
}

async function pair(user_id: string, provider_pubkey: string): Promise<void> {
  expect((await post(CLAIM, { pairing_code: await create(user_id), provider_pubkey })).status).toBe(200);
}

async function list(user: string): Promise<TrustList["providers"]> {
  return (await read(await rest(`/v1/trust/list?${new URLSearchParams({ user_id: user })}`), z.strictObject(TrustList.shape))).providers;
}

const expire = (code: string, at: number) => env.DB.prepare("UPDATE pairings SET expires_at = ? WHERE pairing_code = ?").bind(at, code).run();

describe("POST /v1/trust/create", () => {
  test("[SPEC] answers a code of 6 upper-case hex digits that expires in an hour", async () => {
    const response = await post(CREATE, { user_id: "u" });
    expect(response.status).toBe(201);
    const body = await read(response, z.strictObject(PairingCode.shape));
    expect(body.pairing_code).toMatch(/^[0-9A-F]{6}$/);
    expect(Math.abs(Date.parse(body.expires_at) - Date.now() - HOUR)).toBeLessThan(5_000);
    expect(await env.DB.prepare("SELECT user_id, provider_pubkey, claimed, expires_at - created_at AS validity FROM pairings").first()).toEqual({
      user_id: "u",
      provider_pubkey: null,
      claimed: 0,
      validity: HOUR,
    });
  });

  test.each([
    ["", "user_id"],
    ["[]", "user_id"],
    ["{}", "Missing required fields: user_id"],
    ['{"user_id":null}', "Missing required fields: user_id"],
    ['{"user_id":""}', "user_id"],
    ['{"user_id":7}', "user_id"],
    [`{"user_id":"${"x".repeat(LIMITS.userIdChars + 1)}"}`, "user_id"],
    ['{"user_id":"a\\u0007"}', "user_id"],
  ])("[API4] %s is 400 naming the field", async (body, names) => {
    expect(await refusal(await post(CREATE, body), 400)).toContain(names);
  });

  test("[LM1] a large body is 413", async () => {
    expect(await refusal(await post(CREATE, `{"user_id":"${"x".repeat(LIMITS.bodyBytes)}"}`), 413)).toBe("payload_too_large");
  });

  test("[TR3] a sixth open code of a user is 429 with Retry-After until the first expires; other users are not affected", async () => {
    const codes = [];
    for (let i = 0; i < LIMITS.openPairingCodes; i++) codes.push(await create("u"));
    await expire(codes[0] ?? "", Date.now() + 90_000);
    const response = await post(CREATE, { user_id: "u" }, {}, LIMITED);
    expect(await refusal(response, 429)).toBe("rate_limited");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(80);
    expect(Number(response.headers.get("retry-after"))).toBeLessThanOrEqual(90);
    expect((await post(CREATE, { user_id: "v" }, {}, LIMITED)).status).toBe(201);
    // A code that was claimed or has expired is not open.
    await post(CLAIM, { pairing_code: codes[1], provider_pubkey: A });
    expect((await post(CREATE, { user_id: "u" }, {}, LIMITED)).status).toBe(201);
    await expire(codes[0] ?? "", Date.now() - 1);
    expect((await post(CREATE, { user_id: "u" }, {}, LIMITED)).status).toBe(201);
    expect((await post(CREATE, { user_id: "u" }, {}, LIMITED)).status).toBe(429);
  });

  test("[TR3] of many requests at once five get a code", async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => post(CREATE, { user_id: "u" }, {}, LIMITED)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(7);
  });

  test("[LM2] without rate limits a user may have any number", async () => {
    for (let i = 0; i < 8; i++) await create("u");
  });

  test("[TR3] a code is unique among open ones, and can be used again when it is not open", async () => {
    const now = Date.now();
    const fresh = { code: "ABCDEF", userId: "u", now, openLimit: 5 };
    expect(await storeCode(env.DB, fresh)).toEqual({ ok: true, value: now + HOUR });
    expect(await storeCode(env.DB, { ...fresh, userId: "v" })).toEqual({ ok: false, reason: { kind: "taken" } });
    expect(await storeCode(env.DB, { ...fresh, userId: "v", openLimit: null })).toEqual({ ok: false, reason: { kind: "taken" } });
    expect(await storeCode(env.DB, { ...fresh, userId: "v", now: now + HOUR })).toMatchObject({ ok: true });
  });

  test("[API1] the store out of reach is 503", async () => {
    expect(await refusal(await post(CREATE, { user_id: "u" }, {}, { DB: failingDb() }), 503)).toBe("overloaded");
  });
});

describe("POST /v1/trust/claim", () => {
  test("[SPEC] pairs the worker with the user, once", async () => {
    const pairing_code = await create("u");
    const response = await post(CLAIM, { pairing_code, provider_pubkey: A });
    expect(response.status).toBe(200);
    const body = await read(response, z.strictObject(Paired.shape));
    expect(body.user_id).toBe("u");
    expect(await list("u")).toEqual([{ provider_pubkey: A, paired_at: body.paired_at }]);
    for (const key of [A, B]) expect(await refusal(await post(CLAIM, { pairing_code, provider_pubkey: key }), 400)).toBe("already_claimed");
    expect(await list("u")).toHaveLength(1);
  });

  test("[API4] codes and keys are read in upper and lower case", async () => {
    const code = await create("u");
    expect((await post(CLAIM, { pairing_code: code.toLowerCase(), provider_pubkey: A.toUpperCase() })).status).toBe(200);
    expect(await list("u")).toMatchObject([{ provider_pubkey: A }]);
  });

  test.each(["000000", "", "12345", "1234567", "GGGGGG", " A1B2C", "A1B2C3\n", "١٢٣٤٥٦", "' OR 1"])("[SPEC, API4] code %o is invalid_code", async (code) => {
    expect(await refusal(await post(CLAIM, { pairing_code: code, provider_pubkey: A }), 400)).toBe("invalid_code");
  });

  test("[SPEC] an hour after it was made a code is expired, to the millisecond", async () => {
    const now = Date.now();
    await storeCode(env.DB, { code: "ABCDEF", userId: "u", now, openLimit: null });
    expect(await claimCode(env.DB, "ABCDEF", A, now + HOUR)).toEqual({ ok: false, reason: "expired" });
    expect(await claimCode(env.DB, "ABCDEF", A, now + HOUR - 1)).toEqual({ ok: true, value: "u" });
    expect(await claimCode(env.DB, "ABCDEF", A, now + 2 * HOUR)).toEqual({ ok: false, reason: "already_claimed" });
    const code = await create("u");
    await expire(code, Date.now() - 1);
    expect(await refusal(await post(CLAIM, { pairing_code: code, provider_pubkey: A }), 400)).toBe("expired");
  });

  test("[API4] of two rows with one code the newest counts", async () => {
    const now = Date.now();
    await storeCode(env.DB, { code: "ABCDEF", userId: "old", now: now - 2 * HOUR, openLimit: null });
    await storeCode(env.DB, { code: "ABCDEF", userId: "new", now, openLimit: null });
    expect(await claimCode(env.DB, "ABCDEF", A, now)).toEqual({ ok: true, value: "new" });
    expect(await claimCode(env.DB, "ABCDEF", A, now)).toEqual({ ok: false, reason: "already_claimed" });
  });

  test.each([
    ["[]", "pairing_code"],
    ["{}", "Missing required fields: pairing_code, provider_pubkey"],
    ['{"pairing_code":"ABCDEF"}', "Missing required fields: pairing_code, provider_pubkey"],
    [`{"pairing_code":123456,"provider_pubkey":"${A}"}`, "pairing_code"],
    ['{"pairing_code":"ABCDEF","provider_pubkey":"zz"}', "provider_pubkey"],
    [`{"pairing_code":"ABCDEF","provider_pubkey":"0x${A}"}`, "provider_pubkey"],
    [`{"pairing_code":"ABCDEF","provider_pubkey":"${"0".repeat(64)}"}`, "provider_pubkey"],
    [`{"pairing_code":"ABCDEF","provider_pubkey":"01${"0".repeat(62)}"}`, "provider_pubkey"],
    [`{"pairing_code":"ABCDEF","provider_pubkey":"${"f".repeat(64)}"}`, "provider_pubkey"],
    [`{"pairing_code":"ABCDEF","provider_pubkey":"${A}","signature":5}`, "signature"],
  ])("[API4] %s is 400 naming the field", async (body, names) => {
    expect(await refusal(await post(CLAIM, body), 400)).toContain(names);
  });

  test("[TR4] a signature is optional, but must verify if there is one", async () => {
    const key = keyOf(3);
    const pairing_code = await create("u");
    const fields = { network, code: pairing_code, pubkey: key.publicKey };
    const good = signText(pairText(fields), key.secret);
    const wrong = {
      "another network": signText(pairText({ ...fields, network: "eip155:1" }), key.secret),
      "another code": signText(pairText({ ...fields, code: "000000" }), key.secret),
      "another key's": signText(pairText(fields), keyOf(4).secret),
      "no signature": "AAAA",
      empty: "",
    };
    for (const [name, signature] of Object.entries(wrong)) {
      expect(await refusal(await post(CLAIM, { pairing_code, provider_pubkey: key.publicKey, signature }), 400), name).toBe("invalid_signature");
    }
    expect(await list("u")).toEqual([]);
    expect((await post(CLAIM, { pairing_code, provider_pubkey: key.publicKey, signature: good })).status).toBe(200);
  });

  test("[TR3] an eleventh claim in a minute is 429 with Retry-After", async () => {
    const claim = () => post(CLAIM, { pairing_code: "000000", provider_pubkey: A }, {}, LIMITED);
    for (let i = 0; i < RATES.pairingClaimsPerMinute; i++) expect((await claim()).status).toBe(400);
    const answer = await claim();
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refusal(answer, 429)).toBe("rate_limited");
  });

  /** Claims a code as a new client in a network of its own. */
  let clients = 0;
  const strangerClaims = (pairing_code: string) =>
    post(CLAIM, { pairing_code, provider_pubkey: A }, { "x-real-ip": `192.0.${++clients}.2` }, { ...LIMITED, TRUSTED_IP_HEADER: "x-real-ip" });

  test("[TR3] after thirty failed claims in a minute all are 429, whoever asks; claims that win are no failures", async () => {
    const codes = [];
    for (let i = 0; i < 5; i++) codes.push(await create("u"));
    for (const code of codes) expect((await strangerClaims(code)).status).toBe(200);
    for (let i = 0; i < RATES.failedPairingClaimsPerMinute; i++) expect((await strangerClaims("000000")).status).toBe(400);
    expect(await refusal(await strangerClaims("000000"), 429)).toBe("rate_limited");
  });

  test("[TR3] a burst gets no further, though none of it is known to have failed yet", async () => {
    const answers = await Promise.all(Array.from({ length: 45 }, () => strangerClaims("000000")));
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(RATES.failedPairingClaimsPerMinute);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(45 - RATES.failedPairingClaimsPerMinute);
  });

  test("[TR3] a hub that loses its memory has not forgotten them", async () => {
    for (let i = 0; i < RATES.failedPairingClaimsPerMinute; i++) expect((await strangerClaims("000000")).status).toBe(400);
    await evictDurableObject(env.HUB.getByName("hub"));
    expect(await refusal(await strangerClaims("000000"), 429)).toBe("rate_limited");
  });

  test("[TR3] a claim that is delivered again after its answer was lost counts once", async () => {
    for (let i = 0; i < RATES.failedPairingClaimsPerMinute; i++) {
      const hub = failingAnswer();
      expect(
        (
          await post(
            CLAIM,
            { pairing_code: "000000", provider_pubkey: A },
            { "x-real-ip": `198.51.${i}.100` },
            { ...LIMITED, TRUSTED_IP_HEADER: "x-real-ip", ...hub },
          )
        ).status,
      ).toBe(400);
    }
    expect(await refusal(await strangerClaims("000000"), 429)).toBe("rate_limited");
  });

  test("[LM2] without rate limits claims are not counted", async () => {
    for (let i = 0; i < 12; i++) await refusal(await post(CLAIM, { pairing_code: "000000", provider_pubkey: A }), 400);
  });

  test("[SPEC] a claim is valid even if the hub cannot be told", async () => {
    const pairing_code = await create("u");
    expect((await post(CLAIM, { pairing_code, provider_pubkey: A }, {}, failingHub({ remote: true }))).status).toBe(200);
    expect(await list("u")).toHaveLength(1);
  });

  test("[SPEC] a PRIVATE job that waits goes to a worker that is paired meanwhile", async () => {
    const [busy, late] = [await FakeWorker.connect(), await FakeWorker.connect()];
    await pair("u", busy.key.publicKey);
    const secret = { ...TASK, user_id: "u", privacy_class: "PRIVATE" };
    expect((await post("/v1/jobs/commit/cheap", secret)).status).toBe(201);
    await busy.next("job_assign");
    expect((await post("/v1/jobs/commit/cheap", secret)).status).toBe(201);
    await pair("u", late.key.publicKey);
    expect(await late.next("job_assign")).toMatchObject({ privacy_class: "PRIVATE" });
    for (const worker of [busy, late]) await worker.close();
  });

  test("[API1] the store out of reach is 503", async () => {
    expect(await refusal(await post(CLAIM, { pairing_code: "ABCDEF", provider_pubkey: A }, {}, { DB: failingDb() }), 503)).toBe("overloaded");
  });
});

describe("X-User-Token", () => {
  const MINE = { "x-user-token": "correct horse, battery staple" };
  const PRIVATE = { ...TASK, user_id: "u", privacy_class: "PRIVATE" };
  const createAs = (headers: Record<string, string>, overrides: Overrides = {}) => post(CREATE, { user_id: "u" }, headers, overrides);
  const listAs = (headers: Record<string, string>) => rest("/v1/trust/list?user_id=u", { headers });
  const commitAs = (headers: Record<string, string>, overrides: Overrides = {}) => post("/v1/jobs/commit/cheap", PRIVATE, headers, overrides);
  const stored = () =>
    env.DB.prepare("SELECT user_id, token_hash FROM users")
      .all()
      .then(({ results }) => results);

  test("[TR2] sent with the first code ever, it is needed for codes, lists and PRIVATE jobs of that user, and for nothing else", async () => {
    const { pairing_code } = await read(await createAs(MINE), PairingCode);
    const wrongs = [{}, { "x-user-token": "another" }, { "x-user-token": `${MINE["x-user-token"]} x` }];
    for (const headers of wrongs) {
      for (const answer of [await createAs(headers), await listAs(headers), await commitAs(headers)]) {
        expect(await refusal(answer, 401)).toBe("user_token_required");
      }
    }
    expect((await createAs(MINE)).status).toBe(201);
    expect((await listAs(MINE)).status).toBe(200);
    expect((await commitAs(MINE)).status, "422 comes after").toBe(422);
    expect((await post("/v1/jobs/commit/cheap", { ...TASK, user_id: "u" })).status, "PUBLIC needs none").toBe(201);
    expect((await post(CLAIM, { pairing_code, provider_pubkey: A })).status, "nor does the worker").toBe(200);
    expect((await post(CREATE, { user_id: "v" })).status, "nor another user").toBe(201);
  });

  test("[TR2] only a hash of it is stored, and it differs from user to user", async () => {
    await createAs(MINE);
    await post(CREATE, { user_id: "v" }, MINE);
    const rows = await stored();
    expect(rows.map(({ token_hash }) => token_hash)).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), expect.stringMatching(/^[0-9a-f]{64}$/)]);
    expect(rows[0]?.token_hash).not.toBe(rows[1]?.token_hash);
    expect(JSON.stringify(await env.DB.prepare("SELECT * FROM users").all())).not.toContain("horse");
  });

  test("[TR2] only the first code ever may set it: a user who began without a token stays without one, even if old codes were deleted", async () => {
    await create("u");
    await env.DB.prepare("DELETE FROM pairings").run();
    expect((await createAs(MINE)).status).toBe(201);
    expect((await createAs({})).status).toBe(201);
    expect(await stored()).toEqual([{ user_id: "u", token_hash: null }]);
  });

  test("[TR2] a user whose codes were made by a version without tokens stays without one", async () => {
    await create("u");
    await env.DB.prepare("DELETE FROM users").run();
    expect((await createAs(MINE)).status).toBe(201);
    expect((await createAs({})).status).toBe(201);
  });

  test("[TR2] of many first codes with different tokens at once one token wins", async () => {
    const tokens = Array.from({ length: 12 }, (_, i) => ({ "x-user-token": `token ${i}` }));
    const statuses = await Promise.all(tokens.map(async (token) => (await createAs(token)).status));
    expect(statuses.filter((status) => status === 201)).toHaveLength(1);
    expect(statuses.filter((status) => status === 401)).toHaveLength(11);
    const winner = tokens[statuses.indexOf(201)] ?? {};
    expect((await listAs(winner)).status).toBe(200);
  });

  test("[TR2, API2] one that cannot be a token is 400, and 400 comes first", async () => {
    for (const token of ["", "é", "x".repeat(LIMITS.userTokenChars + 1)]) {
      const headers = { "x-user-token": token };
      for (const answer of [await createAs(headers), await listAs(headers), await commitAs(headers)]) {
        expect(await refusal(answer, 400)).toContain("X-User-Token");
      }
    }
    expect(await stored()).toEqual([]);
    expect((await createAs({ "x-user-token": "x".repeat(LIMITS.userTokenChars) })).status).toBe(201);
    expect(await refusal(await post(CREATE, {}), 400)).toContain("user_id");
    expect(await refusal(await post("/v1/jobs/commit/cheap", { ...PRIVATE, payload: {} }), 400)).toContain("task_type");
  });

  test("[TR2, PY5] after 402 without a payment, before idempotency, payment and the hub", async () => {
    await createAs(MINE);
    const gated = { TESTNET_MODE: "false" };
    expect((await commitAs({}, gated)).status).toBe(402);
    const hub = failingHub({});
    expect(await refusal(await commitAs({ "x-payment": "x", "idempotency-key": "k" }, { ...gated, ...hub }), 401)).toBe("user_token_required");
    expect(hub.calls()).toBe(0);
  });

  test("[TR2] a PRIVATE commit reads D1 once", async () => {
    await createAs(MINE);
    let batches = 0;
    const DB = new Proxy(env.DB, {
      get(target, member) {
        if (member === "batch") batches++;
        else if (member !== "prepare") throw new Error(`D1 was asked by ${String(member)}`);
        const method: unknown = Reflect.get(target, member);
        return typeof method === "function" ? method.bind(target) : method;
      },
    });
    expect((await commitAs(MINE, { DB })).status).toBe(422);
    expect(batches).toBe(1);
  });

  test("[API1] if D1 cannot be reached it is 503, never access without the token", async () => {
    await createAs(MINE);
    expect(await refusal(await commitAs({}, { DB: failingDb() }), 503)).toBe("overloaded");
  });
});

test("[TR1] a user_id, which is a secret, is in no log line, whatever fails", async () => {
  const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const user = "a-secret-user-id";
  await env.DB.prepare("DROP TABLE pairings").run();
  const body = { ...TASK, user_id: user, privacy_class: "PRIVATE" };
  for (const answer of [await rest(`/v1/trust/list?user_id=${user}`), await post(CREATE, { user_id: user }), await post("/v1/jobs/commit/cheap", body)]) {
    expect(await refusal(answer, 503)).toBe("overloaded");
  }
  const lines = JSON.stringify(logged.mock.calls);
  expect(lines.match(/no such table: pairings/g)).toHaveLength(3);
  expect(lines).not.toContain(user);
});

describe("GET /v1/trust/list", () => {
  test("[SPEC] is empty for a user without pairings, also if there are open codes", async () => {
    await create("u");
    expect(await list("u")).toEqual([]);
  });

  test("[API4] newest first, each worker once with its latest pairing", async () => {
    const insert = env.DB.prepare(
      "INSERT INTO pairings (pairing_code, user_id, provider_pubkey, claimed, created_at, expires_at, paired_at) VALUES ('X', ?, ?, 1, 0, 0, ?)",
    );
    await env.DB.batch([insert.bind("u", A, 1_000), insert.bind("u", B, 2_000), insert.bind("u", A, 3_000), insert.bind("w", B, 4_000)]);
    expect(await list("u")).toEqual([
      { provider_pubkey: A, paired_at: "1970-01-01T00:00:03.000Z" },
      { provider_pubkey: B, paired_at: "1970-01-01T00:00:02.000Z" },
    ]);
  });

  test("[TR1] a user_id is compared as it is: case, accents and quotes matter", async () => {
    await pair("é'; DROP TABLE pairings; --", A);
    expect(await list("é'; DROP TABLE pairings; --")).toHaveLength(1);
    expect(await list("e\u0301'; DROP TABLE pairings; --")).toEqual([]);
  });

  test.each(["", "?user_id=", "?user=u", `?user_id=${"x".repeat(LIMITS.userIdChars + 1)}`, "?user_id=a%00"])(
    "[API4] /v1/trust/list%s is 400 naming user_id",
    async (query) => {
      expect(await refusal(await rest(`/v1/trust/list${query}`), 400)).toContain("user_id");
    },
  );
});
