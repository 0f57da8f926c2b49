import { describe, expect, test } from "vitest";
import { commitPrice, endpointOf, priceOf, quotePrice, resolvePolicy } from "../../../src/protocol/pricing.ts";

describe("policy", () => {
  test.each([
    ["AUTO", "LLM_INFER", "FAST"],
    ["AUTO", "TASK", "CHEAP"],
    ["FAST", "TASK", "FAST"],
    ["CHEAP", "LLM_INFER", "CHEAP"],
  ] as const)("[SPEC] %s for %s is %s", (policy, jobType, resolved) => {
    expect(resolvePolicy(policy, jobType)).toBe(resolved);
  });

  test("[SPEC] each resolved policy has its endpoint", () => {
    expect([endpointOf("FAST"), endpointOf("CHEAP")]).toEqual(["/v1/jobs/commit/fast", "/v1/jobs/commit/cheap"]);
  });
});

describe("prices", () => {
  test.each([
    ["FAST", "LLM_INFER", "$0.010"],
    ["FAST", "TASK", "$0.003"],
    ["CHEAP", "LLM_INFER", "$0.005"],
    ["CHEAP", "TASK", "$0.001"],
  ] as const)("[SPEC] %s %s is quoted at %s", (policy, jobType, price) => {
    expect(quotePrice(policy, jobType)).toBe(price);
  });

  test.each(["AUTO_TASK", "FAST_VIDEO", "", "constructor", "__proto__", "toString"])("[API3] the missing key %o costs $0.001", (key) => {
    expect(priceOf(key)).toBe("$0.001");
  });

  test("[PY1] a commit costs what its endpoint costs", () => {
    expect([commitPrice("FAST"), commitPrice("CHEAP")]).toEqual(["$0.010", "$0.001"]);
  });
});
