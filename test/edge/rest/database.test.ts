import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { PairingCode } from "../../../src/protocol/rest.ts";
import { writeD1 } from "../../../src/coordinator/store/database.ts";
import { keyPair } from "../../../src/receipt/index.ts";
import type { DatabaseFault } from "../../chaos/database-fault.ts";
import { faultyDatabase } from "../../chaos/workerd/faulty-database.ts";
import { TASK, freshInstance, post, read, refusal, rest } from "./rest.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);
// Started once: most of these tests only wait, so they run concurrently.
beforeAll(freshInstance);

const KEY = keyPair(new Uint8Array(32).fill(7)).publicKey;
const UNKNOWN = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";

/** A D1 whose calls of one kind fail, in an isolate that has already checked the schema (schema.test.ts tests the others). */
async function broken(kind: string, fault: DatabaseFault): Promise<{ DB: D1Database }> {
  let isBroken = false;
  const DB = faultyDatabase(env.DB, async (what) => (isBroken && what === kind ? fault : { kind: "none" }));
  await writeD1(DB, () => DB.prepare("SELECT 1").first());
  isBroken = true;
  return { DB };
}

const code = async (): Promise<string> => (await read(await post("/v1/trust/create", { user_id: "u" }), PairingCode)).pairing_code;
const rows = (where: string) => env.DB.prepare(`SELECT count(*) AS n FROM ${where}`).first<number>("n");

/** Every statement of the router, with a request that makes it. `prepare` runs before, on a working D1. */
const STATEMENTS: { name: string; kind: string; ask: (overrides: object, code: string) => Promise<Response> }[] = [
  {
    name: "who is paired, for a PRIVATE commit",
    kind: "SELECT",
    ask: (db) => post("/v1/jobs/commit/cheap", { ...TASK, privacy_class: "PRIVATE" }, {}, { ...db }),
  },
  { name: "a job", kind: "SELECT", ask: (db) => rest(`/v1/jobs/${UNKNOWN}`, {}, { ...db }) },
  { name: "the list of pairings", kind: "SELECT", ask: (db) => rest("/v1/trust/list?user_id=u", {}, { ...db }) },
  { name: "a new code", kind: "INSERT", ask: (db) => post("/v1/trust/create", { user_id: "v" }, {}, { ...db }) },
  { name: "how many codes are open", kind: "SELECT", ask: (db) => full(db) },
  { name: "a claim", kind: "UPDATE", ask: (db, pairing_code) => post("/v1/trust/claim", { pairing_code, provider_pubkey: KEY }, {}, { ...db }) },
  { name: "why a claim failed", kind: "SELECT", ask: (db) => post("/v1/trust/claim", { pairing_code: "ABCDEF", provider_pubkey: KEY }, {}, { ...db }) },
];

/** Asks for a sixth code of a user who may have five. */
async function full(db: object): Promise<Response> {
  const limits = { RATE_LIMITS: "on", TRUST_PER_MINUTE: "1000" };
  for (let n = 0; n < 5; n++) await post("/v1/trust/create", { user_id: "w" }, {}, limits);
  return post("/v1/trust/create", { user_id: "w" }, {}, { ...db, ...limits });
}

describe.concurrent.each([
  ["fails", { kind: "fails" }],
  ["loses its answer", { kind: "loses" }],
  ["does not answer in 5 s", { kind: "slow", ms: 7_000 }],
] as const)("D1 %s", (_, fault) => {
  test.each(STATEMENTS)("[API1] at $name: 503 with Retry-After, and the next request works", async ({ kind, ask }) => {
    const fresh = await code();
    const response = await ask(await broken(kind, fault), fresh);
    expect(await refusal(response, 503)).toBe("overloaded");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await ask({}, await code())).status).toBeLessThan(500);
  });
});

test("[API4] a claim whose answer was lost is valid and belongs to the worker", async () => {
  const pairing_code = await code();
  const claim = (overrides: { DB?: D1Database } = {}) => post("/v1/trust/claim", { pairing_code, provider_pubkey: KEY }, {}, overrides);
  expect(await refusal(await claim(await broken("UPDATE", { kind: "loses" })), 503)).toBe("overloaded");
  expect(await rows(`pairings WHERE claimed = 1 AND pairing_code = '${pairing_code}' AND provider_pubkey = '${KEY}'`)).toBe(1);
  expect(await refusal(await claim(), 400)).toBe("already_claimed");
});

test("[API4] a claim that failed can be tried again", async () => {
  const pairing_code = await code();
  const claim = (overrides: { DB?: D1Database } = {}) => post("/v1/trust/claim", { pairing_code, provider_pubkey: KEY }, {}, overrides);
  await refusal(await claim(await broken("UPDATE", { kind: "fails" })), 503);
  expect((await claim()).status).toBe(200);
});
