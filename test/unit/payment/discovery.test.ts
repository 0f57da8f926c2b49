// Whether discovery services can list our endpoints, judged by x402's own packages: the 402 of its middleware, its validators and its catalog reader.
import { bazaarResourceServerExtension, extractDiscoveryInfo, validateDiscoveryExtension, validateDiscoveryExtensionSpec } from "@x402/extensions/bazaar";
import { appendPaymentIdentifierToExtensions, declarePaymentIdentifierExtension } from "@x402/extensions/payment-identifier";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { ExactSvmScheme } from "@x402/svm/exact/server";
import { Ajv2020 } from "ajv/dist/2020.js";
import { Hono } from "hono";
import { beforeAll, describe, expect, test } from "vitest";
import { paymentMiddleware, x402ResourceServer } from "x402-hono";
import * as z from "zod";
import { bazaarOf, extensionsOf } from "../../../src/coordinator/payment/discovery.ts";
import { settlePayment, verifyPayment } from "../../../src/coordinator/payment/facilitator.ts";
import { paymentIdentifier, payloadText, readPayment } from "../../../src/coordinator/payment/read-payment.ts";
import { type Offer, requiredHeader, requirements, resourceInfo } from "../../../src/coordinator/payment/terms.ts";
import { parseCommit } from "../../../src/protocol/job.ts";
import { readOpenAi } from "../../../src/coordinator/routes/openai-format.ts";
import { answering } from "./answering.ts";
import { authorization, encode, evmOffer, FEE_PAYER, svmOffer, TRANSACTION } from "../../support/payments.ts";

const Bazaar = z.object({
  info: z.looseObject({ input: z.looseObject({ body: z.record(z.string(), z.unknown()) }) }),
  schema: z.looseObject({
    properties: z.object({ input: z.looseObject({ properties: z.looseObject({ body: z.looseObject({ examples: z.array(z.unknown()).optional() }) }) }) }),
  }),
});
type Declared = Parameters<typeof validateDiscoveryExtension>[0];

/** The offers of an instance for every endpoint that is paid. */
const offersOf = (offer: Offer): Offer[] =>
  ["/v1/jobs/commit/fast", "/v1/chat/completions", "/v1/completions"].map((path) => ({ ...offer, resource: new URL(path, offer.resource).href }));
const ENDPOINTS = offersOf(evmOffer()).map(({ resource }) => resource);
const { "payment-identifier": identifier } = extensionsOf(ENDPOINTS[0] ?? "");

/** The middleware of x402-hono with our terms, in front of one endpoint. Its facilitator is never asked to verify or settle. */
function stock({ instance, network, payTo, token, resource, policy }: Offer): Hono {
  const never = () => Promise.reject(new Error("not part of a 402"));
  const kind = {
    x402Version: 2 as const,
    scheme: "exact",
    network: network as `${string}:${string}`,
    ...(instance === "svm" && { extra: { feePayer: FEE_PAYER } }),
  };
  const getSupported = () => Promise.resolve({ kinds: [kind], extensions: [], signers: {} });
  const server = new x402ResourceServer({ verify: never, settle: never, getSupported });
  server.register(kind.network, instance === "evm" ? new ExactEvmScheme() : new ExactSvmScheme());
  server.registerExtension(bazaarResourceServerExtension);
  const price = instance === "evm" ? { amount: "10000", asset: token.address, extra: token.extra } : "$0.010";
  const { url: _, ...described } = resourceInfo({ instance, network, payTo, token, resource, policy });
  const { pathname } = new URL(resource);
  const accepts = { scheme: "exact", network: kind.network, payTo, price, maxTimeoutSeconds: 300 };
  return new Hono()
    .use(paymentMiddleware({ [`POST ${pathname}`]: { accepts, resource, ...described, extensions: extensionsOf(resource) } }, server))
    .post(pathname, (c) => c.json({}, 201));
}

describe.each([evmOffer(), svmOffer()].flatMap(offersOf))("the 402 of $instance at $resource", (offer) => {
  let theirs: unknown;
  beforeAll(async () => {
    // Empty, as the services ask: the terms come before any check of a body.
    const response = await stock(offer).request(offer.resource, { method: "POST" });
    expect(response.status).toBe(402);
    theirs = JSON.parse(Buffer.from(response.headers.get("payment-required") ?? "", "base64").toString("utf8"));
  });

  test("[PY4] says what x402-hono's own middleware says of this endpoint, member for member, but for the text of `error`", () => {
    expect({ ...(theirs as object), error: "" }).toEqual({ ...requiredHeader(offer, ""), error: "" });
  });

  test("[PY4] is small enough for the proxies and clients that allow 8 KiB of headers, and for coming back inside a payment", () => {
    expect(encode(requiredHeader(offer, "payment_required")).length).toBeLessThan(6_500);
  });
});

describe("the bazaar extension", () => {
  test.each(ENDPOINTS)("[PY4] is valid for the validators of @x402/extensions: %s", (resource) => {
    expect(validateDiscoveryExtension(bazaarOf(resource) as Declared)).toEqual({ valid: true });
    expect(validateDiscoveryExtensionSpec(bazaarOf(resource) as Record<string, unknown>)).toEqual({ valid: true });
  });

  test.each(ENDPOINTS)("[PY4] names type and method of the input, without which a service does not list it, and its example is one: %s", (resource) => {
    const { info, schema } = Bazaar.parse(bazaarOf(resource));
    expect(info.input).toMatchObject({ type: "http", method: "POST", bodyType: "json" });
    const isInput = new Ajv2020({ strict: false }).compile(schema.properties.input.properties.body);
    expect(isInput(info.input.body), JSON.stringify(isInput.errors)).toBe(true);
  });

  test.each([
    ["chat", "/v1/chat/completions"],
    ["completions", "/v1/completions"],
  ] as const)("[PY4] [API9] the example of %s is a request that its route takes", (api, path) => {
    const { info } = Bazaar.parse(bazaarOf(new URL(path, ENDPOINTS[0]).href));
    expect(readOpenAi(api, info.input.body)).toMatchObject({ ok: true, value: { stream: false, user: null } });
  });

  test("[PY4] has an example for each job type that our own parser and its schema accept, and PRIVATE in none: nobody has paired workers yet", () => {
    const { info, schema } = Bazaar.parse(bazaarOf(ENDPOINTS[0] ?? ""));
    const { body } = schema.properties.input.properties;
    const isInput = new Ajv2020({ strict: false }).compile(body);
    const commits = [info.input.body, ...(body.examples ?? [])].map((example) => {
      expect(isInput(example), JSON.stringify(isInput.errors)).toBe(true);
      const parsed = parseCommit(example);
      if (!parsed.ok) throw new Error(JSON.stringify(parsed));
      return parsed.commit;
    });
    expect(commits.map(({ job_type, privacy_class }) => `${job_type} ${privacy_class}`)).toEqual(["TASK PUBLIC", "TASK PUBLIC", "LLM_INFER PUBLIC"]);
    expect(isInput({ job_type: "TASK", user_id: "u", payload: { task_type: "translate", input: "x" } })).toBe(false);
  });

  test.each([
    ["commit/fast", "Commit a compute job to the FAST tier"],
    ["chat/completions", "A chat completion, as in OpenAI's API"],
    ["/v1/completions", "A completion, as in OpenAI's API"],
  ])(
    "[PY4] goes to the facilitator with each question about a payment, which lists the endpoint with method, description, name and tags: %s",
    async (path, description) => {
      const offer = offersOf(evmOffer()).find(({ resource }) => resource.endsWith(path)) ?? evmOffer();
      const envelope = { x402Version: 2, accepted: requirements(offer), payload: authorization(Date.now()), extensions: { bazaar: "a client's own" } };
      const read = readPayment({ "PAYMENT-SIGNATURE": encode(envelope), "X-PAYMENT": undefined }, offer, Date.now());
      if (!read.ok) throw new Error(read.reason);
      await using facilitator = await answering({});
      const where = { payment: { facilitator: facilitator.url, authorization: null, rpcUrl: null } };
      for (const ask of [verifyPayment, settlePayment]) await ask(where, payloadText(read.value, offer), JSON.stringify(requirements(offer)));
      expect(facilitator.asked).toHaveLength(2);
      for (const { body } of facilitator.asked) {
        const { paymentPayload: sent } = body as { paymentPayload: Parameters<typeof extractDiscoveryInfo>[0] };
        expect(extractDiscoveryInfo(sent, sent.accepted)).toMatchObject({
          resourceUrl: offer.resource,
          method: "POST",
          description,
          serviceName: "Compute Router",
          tags: ["inference", "llm", "summarize", "classify", "extract-json"],
          discoveryInfo: Bazaar.parse(bazaarOf(offer.resource)).info,
        });
      }
    },
  );
});

describe("the payment-identifier extension", () => {
  const header = (extensions: unknown, name: "PAYMENT-SIGNATURE" | "X-PAYMENT" = "PAYMENT-SIGNATURE") => ({
    "PAYMENT-SIGNATURE": undefined,
    "X-PAYMENT": undefined,
    [name]: encode({ x402Version: 2, payload: { transaction: TRANSACTION }, extensions }),
  });

  test("[API5] is offered, and the id that x402's client puts into it is read from either header", () => {
    expect(identifier).toEqual(declarePaymentIdentifierExtension(false));
    const extensions = appendPaymentIdentifierToExtensions(structuredClone(extensionsOf(ENDPOINTS[0] ?? "")), "order_4711-0123456789");
    expect(paymentIdentifier(header(extensions))).toBe("order_4711-0123456789");
    expect(paymentIdentifier(header(extensions, "X-PAYMENT"))).toBe("order_4711-0123456789");
  });

  test.each([
    undefined,
    {},
    { "payment-identifier": identifier },
    ...["short", "x".repeat(129), "sixteen chars é!", 4711].map((id) => ({ "payment-identifier": { info: { id } } })),
  ])("[API5] no id, or one of another form, is no key: %j", (extensions) => {
    expect(paymentIdentifier(header(extensions))).toBeNull();
  });

  test("[API5] a header that is not base64 of a JSON object brings none", () => {
    for (const value of ["%%%", "bnVsbA==", "W10="]) expect(paymentIdentifier({ "PAYMENT-SIGNATURE": value, "X-PAYMENT": undefined })).toBeNull();
    expect(paymentIdentifier({ "PAYMENT-SIGNATURE": undefined, "X-PAYMENT": undefined })).toBeNull();
  });
});
