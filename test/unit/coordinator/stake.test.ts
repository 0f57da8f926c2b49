import { expect, test } from "vitest";
import { tierOf } from "../../../src/coordinator/stake/tier.ts";

test.each([
  [0, "Open"],
  [-5, "Open"],
  [99.999, "Open"],
  [100, "Verified"],
  [999.999, "Verified"],
  [1_000, "Sentinel"],
  [Number.POSITIVE_INFINITY, "Sentinel"],
  [Number.NaN, "Open"],
])("[SPEC] a stake of %d is %s", (amount, tier) => {
  expect(tierOf(amount)).toBe(tier);
});
