import { describe, expect, test } from "vitest";
import { atomicAmount, paymentRequired, resourceUrl } from "../../../src/coordinator/payment/requirement.ts";
import { readSettings } from "../../../src/coordinator/config.ts";
import { PaymentRequired } from "../../../src/protocol/payment.ts";

describe("atomicAmount", () => {
  test.each([
    ["$0.010", 6, "10000"],
    ["$0.001", 6, "1000"],
    ["$0.003", 6, "3000"],
    ["$1", 6, "1000000"],
    ["$0.29", 6, "290000"],
    ["$1.005", 18, "1005000000000000000"],
    ["$0.000", 6, "0"],
    ["$12.3456789", 6, "12345678"],
  ])("[PY4] %s with %i decimals is %s", (price, decimals, amount) => {
    expect(atomicAmount(price, decimals)).toBe(amount);
  });
});

describe("paymentRequired", () => {
  const terms = (instance: string) => {
    const { payment, network } = readSettings({ INSTANCE: instance });
    return { payment, network, policy: "FAST", resource: "https://r.example/v1/jobs/commit/fast" } as const;
  };

  test("[PY4] EVM names the token contract and its domain", () => {
    const body = PaymentRequired.parse(paymentRequired(terms("evm"), "e"));
    expect(body.accepts).toMatchObject([{ asset: "0x534b2f3A21130d7a60830c2Df862319e593943A3", amount: "10000", extra: { name: "USDC", version: "2" } }]);
  });

  test("[PY4, PY11] SVM names none", () => {
    const [accepts] = paymentRequired(terms("svm"), "e").accepts;
    expect(accepts).not.toHaveProperty("asset");
    expect(accepts?.extra).toEqual({});
  });

  test("[PY4] SPEC.md's fields come first", () => {
    const [accepts] = paymentRequired(terms("evm"), "e").accepts;
    expect(Object.keys(accepts ?? {}).slice(0, 5)).toEqual(["scheme", "price", "network", "payTo", "asset"]);
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
  ])("[PY4] asked as %s with PUBLIC_HOST %o it is %s", (request, publicHost, url) => {
    expect(resourceUrl(endpoint, request, publicHost)).toBe(url);
  });
});
