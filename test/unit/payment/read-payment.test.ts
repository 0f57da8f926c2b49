import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { bringsPayment, chargedTerms, type PaymentHeaders, payloadText, readPayment } from "../../../src/coordinator/payment/read-payment.ts";
import { type Offer, requirements, resourceInfo } from "../../../src/coordinator/payment/terms.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { authorization, encode, evmOffer, SVM_KEY, svmOffer, TRANSACTION } from "../../support/payments.ts";

const NOW = 1_790_000_000_000;
const EVM = evmOffer();
const SVM = svmOffer();
const KEY = "eip155:10143:0x0b0860c158e97d04af1196b192f57a9767d04017:0xc38e3bbc4575c1f5f28908dd5d8e347c7b055890:0x" + "0f".repeat(32);

const inner = (offer: Offer): Record<string, unknown> => (offer.instance === "evm" ? authorization(NOW) : { transaction: TRANSACTION });
const v2 = (offer: Offer, accepted: Record<string, unknown> = {}, payload: unknown = inner(offer)) => ({
  x402Version: 2,
  accepted: { ...requirements(offer), ...accepted },
  payload,
});
const v1 = (offer: Offer, more: Record<string, unknown> = {}) => ({ x402Version: 1, scheme: "exact", network: offer.network, payload: inner(offer), ...more });
const headers = (signature: unknown, x?: unknown): PaymentHeaders => ({
  "PAYMENT-SIGNATURE": signature === undefined ? undefined : encode(signature),
  "X-PAYMENT": x === undefined ? undefined : encode(x),
});
const read = (sent: PaymentHeaders, offer: Offer = EVM) => readPayment(sent, offer, NOW);
const errorOf = (sent: PaymentHeaders, offer: Offer = EVM): string => {
  const reading = read(sent, offer);
  return reading.ok ? "" : reading.reason;
};

describe("what is read", () => {
  test.each([
    ["PAYMENT-SIGNATURE", "version 2", headers(v2(EVM))],
    ["PAYMENT-SIGNATURE", "version 1", headers(v1(EVM))],
    ["X-PAYMENT", "version 2", headers(undefined, v2(EVM))],
    ["X-PAYMENT", "version 1", headers(undefined, v1(EVM))],
  ])("[PY3, PY6] %s of %s is the same one payment", (_, __, sent) => {
    const expected = read(headers(v2(EVM)));
    expect(expected).toMatchObject({ ok: true, value: { key: KEY, untimely: null } });
    expect(read(sent)).toEqual(expected);
  });

  test.each([v2(SVM), v1(SVM), v1(SVM, { network: "solana-devnet" })])("[PY3, PY6] on SVM too, under its old name as well: %#", (envelope) => {
    expect(read(headers(undefined, envelope), SVM)).toMatchObject({ ok: true, value: { key: SVM_KEY, payload: { transaction: TRANSACTION } } });
  });

  test.each([
    ["solana", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"],
    ["solana-testnet", "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z"],
  ])("[PY3] the old name %s means %s, and no other network", (network, id) => {
    const sent = headers(v1(SVM, { network }));
    expect(read(sent, { ...SVM, network: id }).ok).toBe(true);
    expect(errorOf(sent, SVM)).toContain("network must be");
  });

  test("[PY6] a name that every object has is not a network", () => {
    expect(errorOf(headers(v1(SVM, { network: "constructor" })), SVM)).toContain("network must be");
  });

  test("[PY3] base64 without padding, with spaces around it, and terms in another case of hex", () => {
    const text = encode(v2(EVM, { payTo: EVM.payTo.toLowerCase(), asset: `0x${EVM.token.address.slice(2).toUpperCase()}` }));
    expect(read({ "PAYMENT-SIGNATURE": ` ${text.replaceAll("=", "")} `, "X-PAYMENT": undefined }).ok).toBe(true);
  });

  test("[PY3] the facilitator gets our terms and what was signed, and nothing of the client's terms", () => {
    const bait = { extra: { name: "Evil" }, maxTimeoutSeconds: 9e9, price: "$0" };
    const reading = read(headers({ ...v2(EVM, bait), resource: { url: "https://evil.example" }, extensions: { evil: 1 } }));
    if (!reading.ok) throw new Error(reading.reason);
    const sent = z.record(z.string(), z.unknown()).parse(JSON.parse(payloadText(reading.value, EVM)));
    expect(sent).toEqual({
      x402Version: 2,
      resource: resourceInfo(EVM),
      accepted: requirements(EVM),
      payload: reading.value.payload,
    });
  });

  test("[PY11] the terms that a payment is charged under name the fee payer that it names", () => {
    const reading = read(headers(v2(SVM)), svmOffer());
    if (!reading.ok) throw new Error(reading.reason);
    const other = { ...SVM, token: { address: SVM.token.address, extra: { feePayer: "someone else" } } };
    expect(chargedTerms(reading.value, other).extra).toEqual({ feePayer: reading.value.feePayer });
  });
});

describe("both headers", () => {
  test("[PY3] the same payment in both headers is one payment, whatever the envelope", () => {
    expect(read(headers(v2(EVM), v2(EVM)))).toMatchObject({ ok: true, value: { key: KEY } });
    expect(read(headers(v2(EVM), v1(EVM)))).toMatchObject({ ok: true, value: { key: KEY } });
  });

  test("[PY3] two different payments are refused", () => {
    const other = { ...authorization(NOW), signature: `0x${"cd".repeat(65)}` };
    expect(errorOf(headers(v2(EVM), v2(EVM, {}, other)))).toBe("PAYMENT-SIGNATURE and X-PAYMENT bring different payments");
  });

  test("[PY3] if one of them cannot be read both are refused", () => {
    expect(errorOf(headers(v2(EVM), "junk"))).toMatch(/^X-PAYMENT: /);
    expect(errorOf(headers("junk", v2(EVM)))).toMatch(/^PAYMENT-SIGNATURE: /);
  });

  test.each([
    [{ "PAYMENT-SIGNATURE": undefined, "X-PAYMENT": undefined }, false],
    [{ "PAYMENT-SIGNATURE": "", "X-PAYMENT": "" }, false],
    [{ "PAYMENT-SIGNATURE": "", "X-PAYMENT": "x" }, true],
    [{ "PAYMENT-SIGNATURE": "x", "X-PAYMENT": undefined }, true],
  ])("[PY5] %o brings a payment: %o", (sent, brings) => {
    expect(bringsPayment(sent)).toBe(brings);
  });
});

describe("terms that are not ours", () => {
  test.each([
    ["scheme", "upto"],
    ["network", "eip155:1"],
    ["amount", "1000"],
    ["amount", 10000],
    ["amount", "010000"],
    ["asset", "0x534b2f3A21130d7a60830c2Df862319e593943A3"],
    ["payTo", "0x0000000000000000000000000000000000000000"],
    ["payTo", undefined],
    ["payTo", null],
    ["payTo", { toLowerCase: 1 }],
    ["asset", ["0x0b0860C158E97D04aF1196B192F57A9767D04017"]],
  ])("[PY3] version 2 with %s %o is refused", (term, value) => {
    expect(errorOf(headers(v2(EVM, { [term]: value })))).toContain(`accepted.${term} must be `);
  });

  test("[PY3] on SVM upper and lower case differ", () => {
    expect(errorOf(headers(v2(SVM, { payTo: SVM.payTo.toLowerCase() })), SVM)).toContain("accepted.payTo");
  });

  test.each([
    [{ scheme: "upto" }, "scheme"],
    [{ scheme: undefined }, "scheme"],
    [{ network: "eip155:1" }, "network"],
    [{ network: 10143 }, "network"],
    [{ network: undefined }, "network"],
  ])("[PY3] version 1 with %o is refused", (more, term) => {
    expect(errorOf(headers(v1(EVM, more)))).toContain(`${term} must be `);
  });

  test("[PY3] a payment for the cheap endpoint is refused on the fast one", () => {
    const cheap: Offer = { ...EVM, policy: "CHEAP" };
    const payload = { ...authorization(NOW), authorization: { ...authorization(NOW).authorization, value: "1000" } };
    expect(read(headers(v2(cheap, {}, payload)), cheap).ok).toBe(true);
    expect(errorOf(headers(v2(cheap, {}, payload)))).toContain("accepted.amount must be 10000");
    // The honest look of it is not looked at alone.
    expect(errorOf(headers(v2(EVM, {}, payload)))).toContain("value must be 10000");
  });
});

describe("hostile headers", () => {
  const deep = `${"[".repeat(100)}${"]".repeat(100)}`;
  const raw: [string, string][] = [
    ["no base64", "%%%"],
    ["no base64, comma", `${encode(v2(EVM))}, ${encode(v2(EVM))}`],
    ["bits after the last byte", "e31="],
    ["not UTF-8", Buffer.from([0xff, 0xfe, 0x7b, 0x7d]).toString("base64")],
    ["a lone surrogate", Buffer.from([0xed, 0xa0, 0x80]).toString("base64")],
    ["no JSON", encode("{x402Version:2}")],
    ["a byte order mark", encode(`\uFEFF${JSON.stringify(v2(EVM))}`)],
    ["null", encode("null")],
    ["an array", encode("[]")],
    ["an array of one", encode([v2(EVM)])],
    ["a string", encode('"x"')],
    ["a number", encode("1e999")],
    ["an empty object", encode({})],
    ["deep", encode(`{"x402Version":2,"accepted":${deep}}`)],
    ["very deep", encode("[".repeat(10_000))],
    ["version 3", encode({ ...v2(EVM), x402Version: 3 })],
    ["version as text", encode({ ...v2(EVM), x402Version: "2" })],
    ["accepted null", encode({ ...v2(EVM), accepted: null })],
    ["accepted an array", encode({ ...v2(EVM), accepted: [requirements(EVM)] })],
    ["payload missing", encode({ ...v2(EVM), payload: undefined })],
    ["payload null", encode({ ...v2(EVM), payload: null })],
    ["payload an array", encode({ ...v2(EVM), payload: [] })],
    ["payload a string", encode({ ...v2(EVM), payload: "0x" })],
    ["terms by prototype", encode(`{"x402Version":2,"__proto__":{"accepted":{}},"payload":{}}`)],
  ];

  test.each(raw)("[PY3, PY5] %s is refused", (_, value) => {
    for (const offer of [EVM, SVM]) {
      expect(errorOf({ "PAYMENT-SIGNATURE": value, "X-PAYMENT": undefined }, offer)).toMatch(/^PAYMENT-SIGNATURE: /);
      expect(errorOf({ "PAYMENT-SIGNATURE": undefined, "X-PAYMENT": value }, offer)).toMatch(/^X-PAYMENT: /);
    }
  });

  test("[LM1] more than 16 KiB is refused, and nothing of it is decoded", () => {
    const header = "A".repeat(LIMITS.paymentHeaderBytes + 1);
    expect(errorOf({ "PAYMENT-SIGNATURE": header, "X-PAYMENT": undefined })).toContain(`larger than ${LIMITS.paymentHeaderBytes} bytes`);
    expect(errorOf({ "PAYMENT-SIGNATURE": header.slice(1), "X-PAYMENT": undefined })).toContain("must be base64");
  });

  test("[PY3] any input gives an answer and no exception, and a refusal has a printable reason of our own", () => {
    const junk = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.json({ maxDepth: 6 }).map(encode),
      fc.base64String({ maxLength: 400 }),
      fc.jsonValue().map((payload) => encode({ ...v2(EVM), payload })),
      fc.record({ signature: fc.jsonValue(), authorization: fc.jsonValue() }).map((payload) => encode({ ...v2(EVM), payload })),
      fc.uint8Array({ maxLength: 1_300 }).map((bytes) => encode({ ...v2(SVM), payload: { transaction: Buffer.from(bytes).toString("base64") } })),
    );
    fc.assert(
      fc.property(fc.option(junk, { nil: undefined }), fc.option(junk, { nil: undefined }), fc.constantFrom(EVM, SVM), (signature, x, offer) => {
        const reading = read({ "PAYMENT-SIGNATURE": signature, "X-PAYMENT": x }, offer);
        if (!reading.ok) expect(reading.reason).toMatch(/^[\x20-\x7e]{1,300}$/);
      }),
      { numRuns: 600 },
    );
  });

  test("[PY6] any changed byte of what was signed makes another payment, or an invalid one", () => {
    const good = read(headers(v2(SVM)), SVM);
    if (!good.ok) throw new Error(good.reason);
    const bytes = Buffer.from(TRANSACTION, "base64");
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ flip;
        const reading = read(headers(v2(SVM, {}, { transaction: changed.toString("base64") })), SVM);
        if (!reading.ok) return;
        expect(reading.value.digest).not.toBe(good.value.digest);
        // The signatures are the first 129 bytes; they are no part of which payment it is.
        expect(reading.value.key === good.value.key).toBe(at < 129);
      }),
      { numRuns: 1_000 },
    );
  });
});
