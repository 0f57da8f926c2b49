import { describe, expect, it } from "vitest";
import { RATES } from "../../../src/protocol/limits.ts";
import { CLIENT } from "../../../src/protocol/times.ts";
import { type ComputeRouterError, fingerprintOf, PairingExpiredError } from "../../../src/sdk/index.ts";
import { keyPair } from "../../../src/receipt/index.ts";
import { until } from "../../support/until.ts";
import { rejection, reply } from "./support/faults.ts";
import { RouterServer, WORKER } from "./support/router-server.ts";

const HOUR = 3_600_000;
const OLDER = keyPair(new Uint8Array(32).fill(8)).publicKey;
const QUICK = { interval: 5 };

describe("trust.create", () => {
  it("returns the code, its end by the clock of this machine, and the address of the worker page", async () => {
    const router = await RouterServer.start();
    const before = Date.now();
    const offer = await router.client().trust.create();
    expect(offer.code).toBe(offer.pairing_code);
    expect(offer.workerUrl).toBe(`${router.url}/worker?code=${offer.code}`);
    expect(offer.expiresAt.getTime() - HOUR).toBeGreaterThanOrEqual(before);
    expect(offer.expiresAt.getTime() - HOUR).toBeLessThanOrEqual(Date.now());
  });

  it("counts the hour from now if the router's clock is different", async () => {
    const router = await RouterServer.start();
    router.fail("POST /v1/trust/create", reply(201, { pairing_code: "A1B2C3", expires_at: "2001-01-01T01:00:00.000Z" }));
    const { expiresAt, expires_at } = await router.client().trust.create();
    expect(expires_at).toBe("2001-01-01T01:00:00.000Z");
    expect(expiresAt.getTime()).toBeGreaterThan(Date.now() + HOUR - 60_000);
  });
});

describe("trust.waitForWorker", () => {
  it("says who claimed the code, with the same words as the worker; earlier pairings do not count", async () => {
    const router = await RouterServer.start();
    const { trust } = router.client();
    const list = "GET /v1/trust/list";
    const offer = await trust.create();
    const before = { provider_pubkey: OLDER, paired_at: new Date(Date.parse(offer.expires_at) - HOUR - 1).toISOString() };
    router.fail(list, reply(200, { providers: [before] }), reply(200, { providers: [before] }));
    const waiting = trust.waitForWorker(offer, QUICK);
    await until("two looks", () => (router.to("/v1/trust/list").length >= 2 ? true : undefined));
    const { paired_at } = await trust.claim({ pairing_code: offer.code, provider_pubkey: WORKER.publicKey });
    expect(await waiting).toEqual({ publicKey: WORKER.publicKey, fingerprint: fingerprintOf(WORKER.publicKey), pairedAt: paired_at });
  });

  it("a worker that pairs again counts: its newest pairing is the one that is listed", async () => {
    const router = await RouterServer.start();
    const { trust } = router.client();
    const offer = await trust.create();
    router.fail(
      "GET /v1/trust/list",
      reply(200, { providers: [{ provider_pubkey: OLDER, paired_at: new Date(Date.parse(offer.expires_at) - HOUR).toISOString() }] }),
    );
    expect(await trust.waitForWorker(offer, QUICK)).toMatchObject({ publicKey: OLDER });
  });

  it("an outage or a 429 only delays it, and causes no further request meanwhile", async () => {
    const router = await RouterServer.start();
    const { trust } = router.client({ maxRetries: 5 });
    const offer = await trust.create();
    await trust.claim({ pairing_code: offer.code, provider_pubkey: WORKER.publicKey });
    router.fail("GET /v1/trust/list", reply(503, { error: "overloaded" }), reply(429, { error: "rate_limited" }), (response) => response.destroy());
    expect(await trust.waitForWorker(offer, { interval: 40 })).toMatchObject({ publicKey: WORKER.publicKey });
    const looks = router.to("/v1/trust/list").map(({ at }) => at);
    expect(looks).toHaveLength(4);
    for (const [i, at] of looks.slice(1).entries()) expect(at - (looks[i] ?? 0)).toBeGreaterThanOrEqual(39);
  });

  it("tells `onPoll` of each request without a worker: the error of an outage, otherwise null; an error that it throws ends the wait", async () => {
    const router = await RouterServer.start();
    const { trust } = router.client();
    const offer = await trust.create();
    router.fail("GET /v1/trust/list", reply(200, { providers: [] }), (response) => response.destroy(), reply(503, { error: "overloaded" }));
    const polls: (string | null)[] = [];
    const onPoll = async (outage: ComputeRouterError | null) => {
      polls.push(outage?.code ?? null);
      if (polls.length === 4) await trust.claim({ pairing_code: offer.code, provider_pubkey: WORKER.publicKey });
    };
    expect(await trust.waitForWorker(offer, { ...QUICK, onPoll: (outage) => void onPoll(outage) })).toMatchObject({ publicKey: WORKER.publicKey });
    expect(polls.slice(0, 4)).toEqual([null, "connection_failed", "unavailable", null]);
    expect(polls.slice(4).filter((poll) => poll !== null)).toEqual([]);
    const other = await trust.create();
    router.fail("GET /v1/trust/list", reply(200, { providers: [] }));
    const enough = () => {
      throw new Error("enough");
    };
    expect(await rejection(trust.waitForWorker(other, { ...QUICK, onPoll: enough }))).toMatchObject({ message: "enough" });
  });

  it("[TR2] a missing token ends it", async () => {
    const router = await RouterServer.start();
    const owner = router.client({ userToken: "secret" });
    const offer = await owner.trust.create();
    expect(await rejection(router.client({ userId: owner.userId }).trust.waitForWorker(offer, QUICK))).toMatchObject({ reason: "user_token_required" });
  });

  it("[SPEC] after the hour it asks once more and then throws", async () => {
    const router = await RouterServer.start();
    const { trust } = router.client();
    const offer = await trust.create();
    const error = await rejection(trust.waitForWorker({ ...offer, expiresAt: new Date(Date.now() + 20) }, { interval: 60_000 }));
    expect(error).toBeInstanceOf(PairingExpiredError);
    expect(error).toMatchObject({ code: "pairing_expired", reason: "expired" });
    expect(router.to("/v1/trust/list")).toHaveLength(2);
    await trust.claim({ pairing_code: offer.code, provider_pubkey: WORKER.publicKey });
    expect(await trust.waitForWorker({ ...offer, expiresAt: new Date(0) })).toMatchObject({ publicKey: WORKER.publicKey });
  });

  it("its signal ends it at once", async () => {
    const router = await RouterServer.start();
    const { trust } = router.client();
    const offer = await trust.create();
    const ending = new AbortController();
    const waiting = rejection(trust.waitForWorker(offer, { signal: ending.signal }));
    await until("a look", () => (router.to("/v1/trust/list").length === 1 ? true : undefined));
    ending.abort(new Error("enough"));
    expect(await waiting).toMatchObject({ message: "enough" });
  });

  it.each([
    ["offer", {}, {}],
    ["offer", { expires_at: "soon", expiresAt: new Date() }, {}],
    ["interval", { expires_at: "2026-11-21T00:00:00.000Z", expiresAt: new Date() }, { interval: 0 }],
    ["onPoll", { expires_at: "2026-11-21T00:00:00.000Z", expiresAt: new Date() }, { onPoll: "often" }],
    ["every", { expires_at: "2026-11-21T00:00:00.000Z", expiresAt: new Date() }, { every: 5 }],
  ])("names %s when it cannot be used", async (option, offer, options) => {
    const router = await RouterServer.start();
    expect(await rejection(router.client().trust.waitForWorker(offer as never, options as never))).toMatchObject({ code: "invalid_option", option });
  });

  it("[LM2] by default it leaves room in the rate for the other pairing requests from the same address", () => {
    expect(60_000 / CLIENT.pairingInterval).toBeLessThanOrEqual(RATES.trustPerMinute - 3);
  });
});
