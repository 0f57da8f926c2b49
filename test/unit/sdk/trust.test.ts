import { describe, expect, it } from "vitest";
import { BadRequestError, ProtocolError } from "../../../src/sdk/index.ts";
import { rejection, reply } from "./support/faults.ts";
import { RouterServer, WORKER } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

describe("trust", () => {
  it("[SPEC] a code is created, claimed once and listed", async () => {
    const router = await RouterServer.start();
    const { trust, userId } = router.client();
    const { pairing_code, expires_at } = await trust.create();
    expect(pairing_code).toMatch(/^[0-9A-F]{6}$/);
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now());
    const claim = { pairing_code: pairing_code.toLowerCase(), provider_pubkey: WORKER.publicKey, signature: "c2ln" };
    const { user_id, paired_at } = await router.client().trust.claim(claim);
    expect(user_id).toBe(userId);
    expect(JSON.parse(router.to("/v1/trust/claim")[0]?.body ?? "")).toEqual(claim);
    expect(await trust.list()).toEqual({ providers: [{ provider_pubkey: WORKER.publicKey, paired_at }] });
    expect(await router.client().trust.list()).toEqual({ providers: [] });
  });

  it.each(["a1b2c3", "A1B2C", "A1B2C3D", "$(id)", "A1B2CG"])(
    "[API4] %j instead of a new code is malformed, because a code becomes part of commands and links",
    async (code) => {
      const router = await RouterServer.start();
      router.fail("POST /v1/trust/create", reply(201, { pairing_code: code, expires_at: "2030-01-01T01:00:00.000Z" }));
      expect(await rejection(router.client().trust.create())).toBeInstanceOf(ProtocolError);
    },
  );

  it.each(["invalid_code", "already_claimed", "expired"])("[API4] %s is a BadRequestError with that reason", async (reason) => {
    const router = await RouterServer.start();
    router.fail("POST /v1/trust/claim", reply(400, { error: reason }));
    const error = await rejection(router.client().trust.claim({ pairing_code: "A00000", provider_pubkey: WORKER.publicKey }));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ status: 400, reason });
  });

  it("[TR2] the token is sent only with the requests that need it", async () => {
    const router = await RouterServer.start();
    const client = router.client({ userToken: "secret" });
    const { pairing_code } = await client.trust.create();
    await client.trust.list();
    await client.submit(CLASSIFY, { privacy: "PRIVATE" });
    await client.trust.claim({ pairing_code, provider_pubkey: WORKER.publicKey });
    await client.run(CLASSIFY);
    await client.health();
    const withToken = router.received.filter(({ headers }) => headers["x-user-token"] === "secret").map(({ path }) => path);
    expect(withToken).toEqual(["/v1/trust/create", "/v1/trust/list", "/v1/jobs/commit/cheap"]);

    const stranger = router.client({ userId: client.userId });
    for (const error of await Promise.all([stranger.trust.create(), stranger.trust.list(), stranger.run(CLASSIFY, { privacy: "PRIVATE" })].map(rejection))) {
      expect(error).toMatchObject({ code: "bad_request", status: 401, reason: "user_token_required" });
    }
  });

  it("a user id with any characters is sent correctly in the query", async () => {
    const router = await RouterServer.start();
    const userId = "a&user_id=b #ü😀+%";
    const client = router.client({ userId });
    await client.trust.list();
    expect(router.received[0]?.query.getAll("user_id")).toEqual([userId]);
  });

  it.each([
    ["pairing_code", { provider_pubkey: "x" }],
    ["provider_pubkey", { pairing_code: "x" }],
    ["code", { code: "x" }],
  ])("names %s when a claim is wrong", async (option, claim) => {
    const router = await RouterServer.start();
    expect(await rejection(router.client().trust.claim(claim as never))).toMatchObject({ code: "invalid_option", option });
  });
});
