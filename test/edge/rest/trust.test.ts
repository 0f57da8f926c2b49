import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { LIMITS, RATES } from "../../../src/protocol/limits.ts";
import { RETRY_AFTER } from "../../../src/protocol/times.ts";
import { PairingCode, TrustList } from "../../../src/protocol/rest.ts";
import { keyPair, signText } from "../../../src/receipt/index.ts";
import { pairText } from "../../../src/protocol/worker-messages.ts";
import { claimCode, storeCode } from "../../../src/coordinator/store/trust.ts";
import { type Overrides, TASK, failingAnswer, failingDb, failingHub, freshInstance, post, read, refusal, rest } from "./rest.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);
beforeEach(freshInstance);

const CREATE = "/v1/trust/create";
const CLAIM = "/v1/trust/claim";
const HOUR = 3_600_000;
/** Rate limits are on. The rate of the endpoints themselves is high, because this file would use it up. */
const LIMITED = { RATE_LIMITS: "on", TRUST_PER_MINUTE: "1000" };
const keyOf = (seed: number) => keyPair(new Uint8Array(32).fill(seed));
const [A, B] = [keyOf(1).publicKey, keyOf(2).publicKey];

async function create(user_id: string): Promise<string> {
  const response = await post(CREATE, { user_id });
  expect(response.status).toBe(201);
  return (await read(response, PairingCode)).pairing_code;
}

async function list(user: string): Promise<TrustList["providers"]> {
  return (await read(await rest(`/v1/trust/list?${new URLSearchParams({ user_id: user })}`), z.strictObject(TrustList.shape))).providers;
}

const expire = (code: string, at: number) => env.DB.prepare("UPDATE pairings SET expires_at = ? WHERE pairing_code = ?").bind(at, code).run();

describe("POST /v1/trust/create", () => {
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

  test("[TR3] a code is unique among open ones, and can be used again when it is not open", async () => {
    const now = Date.now();
    const fresh = { code: "ABCDEF", userId: "u", now, openLimit: 5 };
    expect(await storeCode(env.DB, fresh)).toEqual({ ok: true, value: now + HOUR });
    expect(await storeCode(env.DB, { ...fresh, userId: "v" })).toEqual({ ok: false, reason: { kind: "taken" } });
    expect(await storeCode(env.DB, { ...fresh, userId: "v", openLimit: null })).toEqual({ ok: false, reason: { kind: "taken" } });
    expect(await storeCode(env.DB, { ...fresh, userId: "v", now: now + HOUR })).toMatchObject({ ok: true });
  });

  test("[LM3] a D1 that has reached STORAGE_BYTES gets no more users and codes, only claims, until it has room", async () => {
    const { meta } = await env.DB.prepare("CREATE TABLE filling AS SELECT 1").run();
    const full = { STORAGE_BYTES: String(meta.size_after + 1_000_000) };
    const code = await create("u");
    await env.DB.prepare("INSERT INTO filling VALUES (zeroblob(1_500_000))").run();
    // An isolate learns the size with the next code.
    expect((await post(CREATE, { user_id: "u" }, {}, full)).status).toBe(201);
    for (const user_id of ["v", "u"]) {
      const refused = await post(CREATE, { user_id }, {}, full);
      expect(await refusal(refused, 503)).toBe("storage_full");
      expect(refused.headers.get("retry-after")).toBe(String(RETRY_AFTER.storage_full));
    }
    expect((await env.DB.prepare("SELECT user_id FROM users").all()).results).toEqual([{ user_id: "u" }]);
    expect((await post(CLAIM, { pairing_code: code, provider_pubkey: A }, {}, full)).status).toBe(200);
    await env.DB.prepare("DROP TABLE filling").run();
    expect((await post(CREATE, { user_id: "v" }, {}, full)).status).toBe(201);
  });

  test("[API1] the store out of reach is 503", async () => {
    expect(await refusal(await post(CREATE, { user_id: "u" }, {}, { DB: failingDb() }), 503)).toBe("overloaded");
  });
});

describe("POST /v1/trust/claim", () => {
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

  // From outside this limit cannot be told from the rate of all trust requests, which is the same number.
  test("[TR3] an eleventh claim in a minute is 429 with Retry-After", async () => {
    const claim = () => post(CLAIM, { pairing_code: "000000", provider_pubkey: A }, {}, LIMITED);
    for (let i = 0; i < RATES.pairingClaimsPerMinute; i++) expect((await claim()).status).toBe(400);
    const answer = await claim();
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refusal(answer, 429)).toBe("rate_limited");
  });

  test("[TR4] a signature that is there must be the key's, over the code and the network of this instance", async () => {
    const code = await create("u");
    const sign = (network: string, of = code) => signText(pairText({ network, code: of, pubkey: A }), keyOf(1).secret);
    for (const signature of ["", "AAAA", sign("eip155:1"), sign("eip155:10143", "000000")])
      expect(await refusal(await post(CLAIM, { pairing_code: code, provider_pubkey: A, signature }), 400)).toBe("invalid_signature");
    expect((await post(CLAIM, { pairing_code: code, provider_pubkey: A, signature: sign("eip155:10143") })).status).toBe(200);
  });

  /** Claims a code as a new client in a network of its own. */
  let clients = 0;
  const strangerClaims = (pairing_code: string) =>
    post(CLAIM, { pairing_code, provider_pubkey: A }, { "x-real-ip": `192.0.${++clients}.2` }, { ...LIMITED, TRUSTED_IP_HEADER: "x-real-ip" });

  test("[TR3] a claim that pairs a worker is no guess: it takes nothing of the budget of failed ones", async () => {
    for (let i = 0; i < RATES.failedPairingClaimsPerMinute; i++) expect((await strangerClaims(await create(`u${i}`))).status).toBe(200);
    expect(await refusal(await strangerClaims("000000"), 400)).toBe("invalid_code");
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

  test("[SPEC] a claim is valid even if the hub cannot be told", async () => {
    const pairing_code = await create("u");
    expect((await post(CLAIM, { pairing_code, provider_pubkey: A }, {}, failingHub({ remote: true }))).status).toBe(200);
    expect(await list("u")).toHaveLength(1);
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
    let statements = 0;
    const DB = new Proxy(env.DB, {
      get(target, member) {
        if (member !== "prepare") throw new Error(`D1 was asked by ${String(member)}`);
        statements++;
        const method: unknown = Reflect.get(target, member);
        return typeof method === "function" ? method.bind(target) : method;
      },
    });
    expect((await commitAs(MINE, { DB })).status).toBe(422);
    expect(statements).toBe(1);
  });

  test("[JB14] it lists what was committed since it was bound, never what a stranger who binds one to the id would like to see", async () => {
    const own = { ...TASK, user_id: "u" };
    await post("/v1/jobs/commit/cheap", own);
    const before = Date.now();
    await vi.waitUntil(() => Date.now() > before);
    await createAs(MINE);
    const { job_id } = await (await post("/v1/jobs/commit/cheap", own)).json<{ job_id: string }>();
    const listed = async () => (await (await rest("/v1/jobs?user_id=u", { headers: MINE })).json<{ jobs: { id: string }[] }>()).jobs.map(({ id }) => id);
    expect(await listed()).toEqual([job_id]);
    // D1 has both of them a moment later.
    await vi.waitUntil(async () => (await env.DB.prepare("SELECT count(*) AS n FROM jobs").first("n")) === 2, 10_000);
    expect(await listed()).toEqual([job_id]);
  });

  test("[JB14] the next page begins after the last job of this one, also among jobs of one millisecond", async () => {
    await createAs(MINE);
    const insert = env.DB.prepare(
      "INSERT INTO jobs (id, job_type, policy, privacy_class, user_id, payload, status, rev, attempt, created_at) VALUES (?, 'TASK', 'CHEAP', 'PUBLIC', 'u', '{}', 'failed', 1, 1, ?)",
    );
    const at = Date.now() + 1_000;
    const [a, b, c] = ["a", "b", "c"].map((first) => `${first}0000000-0000-4000-8000-000000000000`);
    await env.DB.batch([c, a, b].map((id) => insert.bind(id, at)));
    const pages: string[][] = [];
    for (let next: string | null = ""; next !== null;) {
      const page = await rest(`/v1/jobs?${new URLSearchParams({ user_id: "u", limit: "1", ...(next !== "" && { before: next }) })}`, { headers: MINE });
      const { jobs, next: last } = await page.json<{ jobs: { id: string }[]; next: string | null }>();
      pages.push(jobs.map(({ id }) => id));
      next = last;
    }
    expect(pages).toEqual([[c], [b], [a]]);
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
});
