import { beforeAll, describe, expect, test } from "vitest";
import { ISO, newUser, task } from "../support/api.ts";
import { share, sql, type Subject } from "../support/coordinator.ts";
import { newIdentity, signText } from "../support/identity.ts";
import { unsignedWorker } from "../support/worker.ts";

let evm: Subject;
const CODE = /^[0-9A-F]{6}$/;
const HOUR = 3_600_000;

beforeAll(async () => {
  evm = await share();
});

async function newCode(user = newUser()): Promise<{ user: string; code: string }> {
  const answer = await evm.api.post("/v1/trust/create", { user_id: user });
  expect(answer.status, answer.text).toBe(201);
  return { user, code: String(answer.body.pairing_code) };
}

const claim = (pairing_code: unknown, provider_pubkey: unknown = newIdentity().pubkey, more = {}) =>
  evm.api.post("/v1/trust/claim", { pairing_code, provider_pubkey, ...more });
const providers = async (user: string): Promise<unknown> => (await evm.api.get(`/v1/trust/list?user_id=${encodeURIComponent(user)}`)).body;

describe("create", () => {
  test("[SPEC] answers a code of 6 upper-case hex characters that expires in an hour", async () => {
    const answer = await evm.api.post("/v1/trust/create", { user_id: newUser() });
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({ pairing_code: expect.stringMatching(CODE), expires_at: expect.stringMatching(ISO) });
    expect(Math.abs(Date.parse(String(answer.body.expires_at)) - Date.now() - HOUR)).toBeLessThan(5_000);
  });

  test("[SPEC, TR3, LM2] codes are unique; in testnet mode one user may open many", async () => {
    const user = newUser();
    const codes = await Promise.all(Array.from({ length: 8 }, () => newCode(user)));
    expect(new Set(codes.map(({ code }) => code)).size).toBe(8);
  });

  test.each([
    [{}],
    [{ user_id: 5 }],
    [{ user_id: null }],
    [{ user_id: "" }],
    [{ user_id: ["a"] }],
    [[]],
    ["null"],
    ["x"],
    [""],
    [{ user_id: "u".repeat(129) }],
    [{ user_id: "a\u0007" }],
  ])("[API4, LM1] a missing or wrong user_id is 400: %j", async (body) => {
    const answer = await evm.api.post("/v1/trust/create", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toEqual(expect.any(String));
    if (typeof body === "object" && !Array.isArray(body)) expect(answer.body.error).toContain("user_id");
  });
});

describe("claim", () => {
  test("[SPEC] answers the user and the time, once", async () => {
    const { user, code } = await newCode();
    const { pubkey } = newIdentity();
    const answer = await claim(code, pubkey);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({ user_id: user, paired_at: expect.stringMatching(ISO) });
    expect(Math.abs(Date.parse(String(answer.body.paired_at)) - Date.now())).toBeLessThan(5_000);
    expect(await providers(user)).toEqual({ providers: [{ provider_pubkey: pubkey, paired_at: answer.body.paired_at }] });
    for (const key of [pubkey, newIdentity().pubkey]) {
      const again = await claim(code, key);
      expect(again.status).toBe(400);
      expect(again.body).toEqual({ error: "already_claimed" });
    }
  });

  test("[API4] a code in lower case is the same code", async () => {
    const { user, code } = await newCode();
    const answer = await claim(code.toLowerCase());
    expect(answer.status).toBe(200);
    expect(answer.body.user_id).toBe(user);
  });

  test.each(["ZZZZZZ", "12345", "1234567", "ABC DE", " ABCDE", "ＡＢＣＤＥＦ", "'; --", "%00"])(
    "[API4] a string of another form is invalid_code: %j",
    async (code) => {
      const answer = await claim(code);
      expect(answer.status).toBe(400);
      expect(answer.body).toEqual({ error: "invalid_code" });
    },
  );

  test("[SPEC] an unknown code is invalid_code", async () => {
    const answer = await claim("000000");
    expect(answer.status).toBe(400);
    expect(answer.body).toEqual({ error: "invalid_code" });
  });

  test.each([
    [{}, ["pairing_code", "provider_pubkey"]],
    [{ pairing_code: "ABCDEF" }, ["provider_pubkey"]],
    [{ provider_pubkey: "00" }, ["pairing_code"]],
    [{ pairing_code: 123456, provider_pubkey: "ab".repeat(32) }, ["pairing_code"]],
    [{ pairing_code: "ABCDEF", provider_pubkey: 5 }, ["provider_pubkey"]],
    [{ pairing_code: null, provider_pubkey: null }, ["pairing_code", "provider_pubkey"]],
  ])("[API4] missing or wrong fields are 400 and named: %j", async (body, names) => {
    const answer = await evm.api.post("/v1/trust/claim", body);
    expect(answer.status).toBe(400);
    for (const name of names) expect(answer.body.error).toContain(name);
  });

  test("[SPEC, API4] the code is judged whatever 64 hex digits come with it, also those of no point of the curve", async () => {
    for (const key of ["a".repeat(64), "ab".repeat(32), "0".repeat(64)]) expect((await claim("000000", key)).body).toEqual({ error: "invalid_code" });
    const { code } = await newCode();
    expect((await claim(code, "DEADBEEF".repeat(8))).status).toBe(200);
    expect((await claim(code, "12".repeat(32))).body).toEqual({ error: "already_claimed" });
  });

  test("[API4] a provider_pubkey that is no key is 400 and leaves the code open", async () => {
    const { code } = await newCode();
    for (const key of ["", "abc", "zz".repeat(32), "ab".repeat(33)]) expect((await claim(code, key)).status).toBe(400);
    expect((await claim(code)).status).toBe(200);
  });

  test("[API4] a race for one code has one winner", async () => {
    const { user, code } = await newCode();
    const answers = await Promise.all(Array.from({ length: 20 }, () => claim(code)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status, body }) => status === 400 && body.error === "already_claimed")).toHaveLength(19);
    expect(((await providers(user)) as { providers: unknown[] }).providers).toHaveLength(1);
  });

  test("[SPEC, API4] after an hour a claim answers expired, or already_claimed if it was; check order", async () => {
    const open = await newCode();
    const used = await newCode();
    expect((await claim(used.code)).status).toBe(200);
    sql(evm, `UPDATE pairings SET expires_at = expires_at - 3601000, created_at = created_at - 3601000 WHERE pairing_code IN ('${open.code}', '${used.code}')`);
    const late = await claim(open.code);
    expect(late.status).toBe(400);
    expect(late.body).toEqual({ error: "expired" });
    expect((await claim(used.code)).body).toEqual({ error: "already_claimed" });
    expect(await providers(open.user)).toEqual({ providers: [] });
    expect(((await providers(used.user)) as { providers: unknown[] }).providers).toHaveLength(1);
  });

  test("[TR4] a signature, when present, must verify", async () => {
    const identity = newIdentity();
    const { user, code } = await newCode();
    const text = (network: string, key = identity.pubkey): string => `compute-router/pair/v1\n${network}\n${code}\n${key}`;
    const wrong = [
      signText(identity, text("eip155:1")),
      signText(newIdentity(), text("eip155:10143")),
      signText(identity, `${text("eip155:10143")}\n`),
      "AA==",
      "",
      5,
    ];
    for (const signature of wrong) {
      const answer = await claim(code, identity.pubkey, { signature });
      expect(answer.status, JSON.stringify(signature)).toBeGreaterThanOrEqual(400);
      expect(answer.status).toBeLessThan(500);
    }
    expect(await providers(user)).toEqual({ providers: [] });
    expect((await claim(code, identity.pubkey, { signature: signText(identity, text("eip155:10143")) })).status).toBe(200);
  });
});

describe("list", () => {
  test("[SPEC] is empty for a user without workers and shows each paired worker", async () => {
    const user = newUser();
    expect(await providers(user)).toEqual({ providers: [] });
    await newCode(user);
    expect(await providers(user)).toEqual({ providers: [] });
    const keys = [newIdentity().pubkey, newIdentity().pubkey];
    await evm.api.pair(user, ...keys);
    const { providers: listed } = (await providers(user)) as { providers: { provider_pubkey: string; paired_at: string }[] };
    expect(listed.map(({ provider_pubkey }) => provider_pubkey).toSorted()).toEqual(keys.toSorted());
    for (const entry of listed) expect(entry).toEqual({ provider_pubkey: expect.any(String), paired_at: expect.stringMatching(ISO) });
  });

  test.each(["", "?user_id=", "?user=x"])("[API4] without user_id is 400: %s", async (query) => {
    const answer = await evm.api.get(`/v1/trust/list${query}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toContain("user_id");
  });

  test("[SPEC] user ids are opaque: spaces, quotes and other scripts keep users apart", async () => {
    const one = `Zoë '%_" 用户 ${newUser()}`;
    const { pubkey } = newIdentity();
    await evm.api.pair(one, pubkey);
    expect(((await providers(one)) as { providers: unknown[] }).providers).toHaveLength(1);
    for (const other of [one.toUpperCase(), `${one} `, "%", "_"]) expect(await providers(other)).toEqual({ providers: [] });
  });
});

describe("the effect of a pairing", () => {
  test("[SPEC, JB8] a claim over REST makes a connected worker trusted at once, for this user only", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = newUser();
    const body = task(user, "x", { privacy_class: "PRIVATE" });
    expect((await evm.api.tryCommit(body)).status).toBe(422);
    const { code } = await newCode(user);
    expect((await evm.api.tryCommit(body)).status).toBe(422);
    expect((await claim(code, worker.pubkey)).status).toBe(200);
    const id = await evm.api.commit(body);
    await worker.assigned(id);
    await worker.complete(id, { sentiment: "positive", confidence: 1 });
    expect((await evm.api.tryCommit(task(newUser(), "x", { privacy_class: "PRIVATE" }))).status).toBe(422);
  });
});

describe("X-User-Token", () => {
  test("[TR2] given at the first create ever, it is needed from then on for create, list and PRIVATE commits", async () => {
    const user = newUser();
    const token = { "x-user-token": "a secret of the user" };
    expect((await evm.api.post("/v1/trust/create", { user_id: user }, token)).status).toBe(201);
    const body = task(user, "x", { privacy_class: "PRIVATE" });
    for (const headers of [{}, { "x-user-token": "another" }]) {
      for (const answer of [
        await evm.api.post("/v1/trust/create", { user_id: user }, headers),
        await evm.api.get(`/v1/trust/list?user_id=${user}`, headers),
        await evm.api.tryCommit(body, "cheap", headers),
      ]) {
        expect(answer.status).toBe(401);
        expect(answer.body).toEqual({ error: "user_token_required" });
      }
    }
    expect((await evm.api.tryCommit({ ...body, payload: {} }, "cheap")).status, "400 comes first").toBe(400);
    expect((await evm.api.tryCommit(body, "cheap", token)).status, "then 422").toBe(422);
    expect((await evm.api.tryCommit(task(user))).status, "PUBLIC needs none").toBe(201);
    expect((await evm.api.get(`/v1/trust/list?user_id=${user}`, token)).status).toBe(200);
  });

  test("[TR2] a token at a later create binds nothing", async () => {
    const user = newUser();
    expect((await evm.api.post("/v1/trust/create", { user_id: user })).status).toBe(201);
    expect((await evm.api.post("/v1/trust/create", { user_id: user }, { "x-user-token": "late" })).status).toBe(201);
    expect((await evm.api.post("/v1/trust/create", { user_id: user })).status).toBe(201);
  });
});
