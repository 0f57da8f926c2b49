import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { PaymentRequired } from "../../../src/protocol/rest.ts";
import { authorization, encode, evmOffer, svmOffer, TRANSACTION } from "../../support/payments.ts";
import { freshInstance, post, read, refusal, rest, TASK } from "./rest.ts";

const FAST = "/v1/jobs/commit/fast";
const CHEAP = "/v1/jobs/commit/cheap";

const Header = z.strictObject({
  x402Version: z.literal(2),
  error: z.string(),
  resource: z.strictObject(PaymentRequired.shape.resource.shape),
  accepts: z
    .array(
      z.strictObject({
        scheme: z.literal("exact"),
        network: z.string(),
        amount: z.string(),
        asset: z.string(),
        payTo: z.string(),
        maxTimeoutSeconds: z.number(),
        extra: z.record(z.string(), z.string()),
      }),
    )
    .length(1),
  extensions: z.strictObject({ bazaar: z.looseObject({}), "payment-identifier": z.looseObject({}) }),
});

describe.each(["evm", "svm"] as const)("%s", (instance) => {
  const evm = instance === "evm";
  const offer = evm ? evmOffer() : svmOffer();
  const INSTANCE = { INSTANCE: instance };

  /** An instance with the terms of the payment fixtures, whose facilitator cannot be reached. */
  const GATED = {
    ...INSTANCE,
    TESTNET_MODE: "false",
    ...(evm ? { EVM_PAY_TO: offer.payTo, EVM_USDC: offer.token.address } : { SVM_PAY_TO: offer.payTo }),
  };

  const gated = (path: string, body: unknown, headers: Record<string, string> = {}) => post(path, body, headers, GATED);

  /** Checks that an answer is a 402 with the same terms in header and body; returns its `error`. */
  async function unpaid(response: Response): Promise<string> {
    expect(response.status).toBe(402);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.has("payment-response")).toBe(false);
    const header = Header.parse(JSON.parse(atob(response.headers.get("payment-required") ?? "")));
    const body = await read(response, z.strictObject(PaymentRequired.shape));
    expect({ error: body.error, resource: body.resource }).toEqual({ error: header.error, resource: header.resource });
    const [inHeader] = header.accepts;
    const [inBody] = body.accepts;
    const { asset, ...terms } = inHeader ?? { asset: "", amount: "" };
    expect(inBody).toMatchObject({ ...terms, maxAmountRequired: terms.amount });
    expect(inBody?.asset).toBe(evm ? asset : undefined);
    return body.error;
  }

  /** A payment with the right shape and terms. Only a facilitator could say whether it is good. */
  function payment(change: { authorization?: Record<string, string>; version?: 1 | 2; identifier?: string } = {}): string {
    const signed = authorization(Date.now());
    const nonce = `0x${crypto.randomUUID().replaceAll("-", "").repeat(2)}`;
    const payload = evm ? { ...signed, authorization: { ...signed.authorization, nonce, ...change.authorization } } : { transaction: TRANSACTION };
    const { network, payTo, token } = offer;
    if (change.version === 1) return encode({ x402Version: 1, scheme: "exact", network, payload });
    return encode({
      x402Version: 2,
      accepted: { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} },
      payload,
      ...(change.identifier !== undefined && { extensions: { "payment-identifier": { info: { required: false, id: change.identifier } } } }),
    });
  }

  const jobs = async () => await env.DB.prepare("SELECT count(*) AS n FROM jobs").first("n");

  beforeAll(freshInstance);

  describe("order", () => {
    test("[PY4, PY5] without a payment it is 402 before the body is read", async () => {
      expect(await unpaid(await gated(FAST, "{broken"))).toBe("payment_required");
      expect(await unpaid(await gated(CHEAP, "x".repeat(600 * 1024), { "x-payment": "", "payment-signature": "" }))).toBe("payment_required");
    });

    test("[PY5] with a payment the body is checked first", async () => {
      for (const header of ["x-payment", "payment-signature"]) {
        expect(await refusal(await gated(FAST, "{broken", { [header]: "junk" }), 400)).toContain("Required fields");
        expect(await refusal(await gated(FAST, { ...TASK, job_type: "x" }, { [header]: payment() }), 400)).toContain("job_type");
        expect(await refusal(await gated(FAST, TASK, { [header]: payment(), "idempotency-key": "é" }), 400)).toContain("Idempotency-Key");
      }
    });

    test.each(["junk", "%%%", "bnVsbA==", "W10=", "e30=", "A".repeat(17_000)])(
      "[PY3, PY4, PY5] an invalid payment, %s, gets a 402 that says what is wrong",
      async (value) => {
        expect(await unpaid(await gated(FAST, TASK, { "x-payment": value }))).toMatch(/^invalid_payment: X-PAYMENT: /);
        expect(await unpaid(await gated(FAST, TASK, { "payment-signature": value }))).toMatch(/^invalid_payment: PAYMENT-SIGNATURE: /);
        expect(await unpaid(await gated(FAST, TASK, { "payment-signature": payment(), "x-payment": value }))).toMatch(/^invalid_payment: X-PAYMENT: /);
      },
    );

    test("[PY3] a payment for the fast endpoint is refused on the cheap one", async () => {
      expect(await unpaid(await gated(CHEAP, TASK, { "x-payment": payment() }))).toBe("invalid_payment: X-PAYMENT: accepted.amount must be 1000");
      const error = await unpaid(await gated(CHEAP, TASK, { "x-payment": payment({ version: 1 }) }));
      expect(error).toContain(evm ? "authorization.value must be 1000" : "must transfer 1000 of ");
    });

    test("[API5, PY5] a payment-identifier inside a payment is an idempotency key: the job of that key is the answer, and no facilitator is asked", async () => {
      const id = `order_${crypto.randomUUID()}`;
      const other = { ...TASK, payload: { task_type: "classify", input: "Other." } };
      const first = await (await post(FAST, TASK, { "idempotency-key": id }, INSTANCE)).json<{ job_id: string }>();
      const headers = { "payment-signature": payment({ identifier: id }) };
      const again = await gated(FAST, TASK, headers);
      expect(again.status).toBe(201);
      expect(await again.json()).toEqual(first);
      expect(await refusal(await gated(FAST, other, headers), 409)).toBe("idempotency_key_reused");
      // The header has precedence.
      expect((await gated(FAST, TASK, { ...headers, "idempotency-key": `${id}-2` })).status).toBe(503);
      // It comes before what is wrong with a payment.
      const broken = { "x-payment": "x", "idempotency-key": id };
      expect(await (await gated(FAST, TASK, broken)).json()).toEqual(first);
      expect(await refusal(await gated(FAST, other, broken), 409)).toBe("idempotency_key_reused");
    });

    test("[PY5, JB8] PRIVATE without a worker is 422 before the facilitator is asked", async () => {
      const response = await gated(FAST, { ...TASK, privacy_class: "PRIVATE" }, { "x-payment": payment() });
      expect(response.status).toBe(422);
      expect(await response.json()).toMatchObject({ error: "no_trusted_worker", job_id: expect.any(String) });
    });
  });

  describe("a facilitator that cannot be reached", () => {
    test.each(["x-payment", "payment-signature"])("[PY5, PY8] %s: 503, no job, and the same payment may come again at once", async (header) => {
      await freshInstance();
      const headers = { [header]: payment() };
      for (let i = 0; i < 3; i++) {
        const response = await gated(FAST, TASK, headers);
        expect(response.headers.get("retry-after")).toBe("5");
        expect(response.headers.has("payment-required")).toBe(false);
        expect(await refusal(response, 503)).toBe("facilitator_unavailable");
      }
      expect(await jobs()).toBe(0);
    });

    test.runIf(evm).each([
      ["validBefore", "1"],
      ["validBefore", String(Math.floor(Date.now() / 1_000) + 30)],
      ["validAfter", String(Math.floor(Date.now() / 1_000) + 3_600)],
    ])("[PY3] %s %s is refused without asking the facilitator", async (field, value) => {
      const error = await unpaid(await gated(FAST, TASK, { "x-payment": payment({ authorization: { [field]: value } }) }));
      expect(error).toContain(`invalid_payment: payload.authorization.${field}`);
    });
  });

  describe("jobs", () => {
    test("[PY7] a job without a payment has no settlement", async () => {
      const { job_id } = await (await post(CHEAP, TASK, {}, INSTANCE)).json<{ job_id: string }>();
      const response = await rest(`/v1/jobs/${job_id}`, {}, GATED);
      expect(response.status).toBe(200);
      expect(response.headers.has("payment-response")).toBe(false);
    });
  });

  test.each([
    [FAST, "$0.010", "10000"],
    [CHEAP, "$0.001", "1000"],
  ])("[PY1, PY4] with the settings of its wrangler file, %s asks for %s before it looks at the body", async (path, price, amount) => {
    const response = await post(path, "{broken", {}, { ...INSTANCE, TESTNET_MODE: "false" });
    expect(response.status).toBe(402);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const body: Record<string, unknown> = await response.json();
    const url = `http://router.test${path}`;
    const [accepts] = z.array(z.record(z.string(), z.unknown())).parse(body.accepts);
    expect(accepts).toEqual({
      scheme: "exact",
      price,
      network: evm ? "eip155:10143" : "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
      payTo: evm ? "0x0000000000000000000000000000000000000000" : "11111111111111111111111111111111",
      ...(evm && { asset: "0x534b2f3A21130d7a60830c2Df862319e593943A3" }),
      amount,
      maxTimeoutSeconds: 300,
      extra: evm ? { name: "USDC", version: "2" } : {},
      maxAmountRequired: amount,
      resource: url,
      description: expect.any(String),
      mimeType: "application/json",
    });
    expect(body).toEqual({
      error: expect.any(String),
      accepts: [accepts],
      x402Version: 2,
      resource: { url, description: accepts?.description, mimeType: "application/json", serviceName: "Compute Router", tags: expect.any(Array) },
    });
  });
});
