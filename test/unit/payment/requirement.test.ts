import { SOLANA_DEVNET_CAIP2, SOLANA_MAINNET_CAIP2, SOLANA_TESTNET_CAIP2 } from "@x402/svm";
import { ExactSvmScheme } from "@x402/svm/exact/server";
import { describe, expect, test } from "vitest";
import { mintOf, readSettings, SettingsError } from "../../../src/coordinator/config.ts";
import { atomicAmount, evmToken, offerOf, paymentRequired, requiredHeader, resourceUrl, svmToken } from "../../../src/coordinator/payment/terms.ts";
import { PaymentRequired } from "../../../src/protocol/rest.ts";
import { readPaymentRequired, SOLANA_DEVNET_USDC } from "../../../src/sdk/pay/x402.ts";
import { evmOffer, FEE_PAYER, svmOffer } from "../../support/payments.ts";

describe("atomicAmount", () => {
  test.each([
    ["$0.010", "10000"],
    ["$0.001", "1000"],
    ["$0.003", "3000"],
    ["$1", "1000000"],
    ["$0.29", "290000"],
    ["$0.000", "0"],
    ["$12.3456789", "12345678"],
  ])("[PY4] %s is %s millionths of a dollar", (price, amount) => {
    expect(atomicAmount(price)).toBe(amount);
  });
});

describe("402 body", () => {
  test("[PY4] EVM names the token contract and its domain", () => {
    const body = PaymentRequired.parse(paymentRequired(evmOffer(), "e"));
    expect(body.accepts).toMatchObject([{ asset: evmOffer().token.address, amount: "10000", price: "$0.010", extra: { name: "USDC", version: "2" } }]);
  });

  test("[PY4, PY11] SVM names no asset, but the fee payer", () => {
    const [accepts] = PaymentRequired.parse(paymentRequired(svmOffer(), "e")).accepts;
    expect(accepts).not.toHaveProperty("asset");
    expect(accepts?.extra).toEqual({ feePayer: FEE_PAYER });
  });

  test("[PY4] the fields of the specification come first, and clients do not read it as version 1", () => {
    const body = paymentRequired(evmOffer(), "e");
    expect(Object.keys(body).slice(0, 2)).toEqual(["error", "accepts"]);
    expect(Object.keys(body.accepts[0] ?? {}).slice(0, 5)).toEqual(["scheme", "price", "network", "payTo", "asset"]);
    expect(body.x402Version).toBe(2);
  });
});

describe("402 header", () => {
  test.each([
    ["EVM", evmOffer()],
    ["SVM", svmOffer()],
  ])("[PY4] %s: pure version 2, the asset there, nothing added", (_, offer) => {
    const header = requiredHeader(offer, "payment_required");
    expect(Object.keys(header)).toEqual(["x402Version", "error", "resource", "accepts", "extensions"]);
    expect(header.accepts.map((accepts) => Object.keys(accepts).toSorted())).toEqual([
      ["amount", "asset", "extra", "maxTimeoutSeconds", "network", "payTo", "scheme"],
    ]);
    expect(header.accepts[0]?.asset).toBe(offer.token.address);
  });

  test("[PY12] without an answer of the facilitator there is still a 402 on SVM", () => {
    expect(svmToken("mint", null)).toEqual({ address: "mint", extra: {} });
  });

  test("[PY11] on SVM it is the token in which @x402/svm asks for dollars on the network, and none on a network that it does not know", async () => {
    const scheme = new ExactSvmScheme();
    for (const network of [SOLANA_MAINNET_CAIP2, SOLANA_DEVNET_CAIP2, SOLANA_TESTNET_CAIP2] as const) {
      const { asset } = await scheme.parsePrice("$0.010", network);
      expect(mintOf(network)).toBe(asset);
      // The body of a 402 names no token on SVM, so the SDK has to know it too.
      const offer = { scheme: "exact", network, amount: "10000", payTo: "11111111111111111111111111111111" };
      expect(readPaymentRequired({}, { accepts: [offer] }).accepts).toMatchObject([{ network, asset }]);
    }
    await expect(scheme.parsePrice("$0.010", "solana:unknown")).rejects.toThrow("Unsupported");
    for (const network of ["solana:unknown", "constructor"]) expect(() => mintOf(network)).toThrow(SettingsError);
    expect(SOLANA_DEVNET_USDC).toEqual({ network: SOLANA_DEVNET_CAIP2, asset: mintOf(SOLANA_DEVNET_CAIP2) });
  });
});

describe("offerOf", () => {
  test("[PY12] on EVM the facilitator is not asked", async () => {
    // A port of the discard protocol: to ask would fail.
    const settings = readSettings({ INSTANCE: "evm", EVM_FACILITATOR: "http://127.0.0.1:9" });
    const offer = await offerOf(settings, "CHEAP", "http://r.example/x");
    expect(offer).toMatchObject({ policy: "CHEAP", resource: "http://r.example/v1/jobs/commit/cheap" });
    expect(offer.token).toEqual(evmToken({ address: "0x534b2f3A21130d7a60830c2Df862319e593943A3", name: "USDC", version: "2" }));
  });

  test.each([
    ["solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"],
    ["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"],
  ])("[PY11, PY12] on %s the scheme resolves the mint, with the facilitator down", async (network, mint) => {
    const settings = readSettings({ INSTANCE: "svm", SVM_NETWORK: network, SVM_FACILITATOR: "http://127.0.0.1:9" });
    expect((await offerOf(settings, "FAST", "http://r.example/x")).token).toEqual({ address: mint, extra: {} });
  });
});

describe("resourceUrl", () => {
  const endpoint = "/v1/jobs/commit/fast";
  test.each([
    ["http://localhost:4010/v1/jobs/commit/fast?x=1", null, "http://localhost:4010/v1/jobs/commit/fast"],
    ["http://forged.example/", "Router.example", "https://router.example/v1/jobs/commit/fast"],
    ["http://forged.example/", "router.example:8443", "https://router.example:8443/v1/jobs/commit/fast"],
    ["http://forged.example/", "localhost:4010", "http://localhost:4010/v1/jobs/commit/fast"],
    ["http://forged.example/", "127.0.0.1:4010", "http://127.0.0.1:4010/v1/jobs/commit/fast"],
    ["http://forged.example/", "[::1]:4010", "http://[::1]:4010/v1/jobs/commit/fast"],
    ["http://forged.example/", "127.evil.example", "https://127.evil.example/v1/jobs/commit/fast"],
  ])("[PY4] for a request to %s with PUBLIC_HOST %o it is %s", (request, publicHost, url) => {
    expect(resourceUrl(endpoint, request, publicHost)).toBe(url);
  });
});
