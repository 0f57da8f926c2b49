import { beforeAll, describe, expect, test } from "vitest";
import { newUser } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" });
});

let last = 0;
/** Headers of a client that nobody has seen. */
const from = (): Record<string, string> => ({ "x-test-ip": `10.0.${Math.floor(++last / 250)}.${(last % 250) + 1}` });

describe("RATE_LIMITS=on", () => {
  test("[TR3, API1] at most 5 open codes per user: the sixth is 429 rate_limited with Retry-After", async () => {
    const user = newUser();
    const codes: unknown[] = [];
    for (let each = 0; each < 5; each += 1) {
      const answer = await evm.api.post("/v1/trust/create", { user_id: user }, from());
      expect(answer.status).toBe(201);
      codes.push(answer.body.pairing_code);
    }
    const sixth = await evm.api.post("/v1/trust/create", { user_id: user }, from());
    expect(sixth.status).toBe(429);
    expect(sixth.body).toEqual({ error: "rate_limited" });
    expect(Number(sixth.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await evm.api.post("/v1/trust/create", { user_id: newUser() }, from())).status, "another user").toBe(201);
    expect((await evm.api.post("/v1/trust/claim", { pairing_code: codes[0], provider_pubkey: newIdentity().pubkey }, from())).status).toBe(200);
    expect((await evm.api.post("/v1/trust/create", { user_id: user }, from())).status, "after one is claimed").toBe(201);
  });

  test("[TR3] 10 claims a minute per IP: the eleventh is 429, from another IP it is not", async () => {
    const headers = from();
    const claim = (h: Record<string, string>) => evm.api.post("/v1/trust/claim", { pairing_code: "000000", provider_pubkey: newIdentity().pubkey }, h);
    for (let each = 0; each < 10; each += 1) expect((await claim(headers)).status).toBe(400);
    const eleventh = await claim(headers);
    expect(eleventh.status).toBe(429);
    expect(eleventh.body).toEqual({ error: "rate_limited" });
    expect(Number(eleventh.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await claim(from())).status).toBe(400);
  });

  test("[TR3] at most 30 failed claims a minute in all", async () => {
    const statuses: number[] = [];
    for (let each = 0; each < 31; each += 1) {
      const answer = await evm.api.post("/v1/trust/claim", { pairing_code: "000001", provider_pubkey: newIdentity().pubkey }, from());
      statuses.push(answer.status);
    }
    expect(statuses).toContain(429);
  });
});
