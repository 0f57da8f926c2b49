import { expect, test } from "vitest";
import { tierOf, tierOfAtoms } from "../../../src/protocol/worker-messages.ts";

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

const E18 = 10n ** 18n;

test.each([
  [0n, 18, "Open"],
  [100n * E18 - 1n, 18, "Open"],
  [100n * E18, 18, "Verified"],
  [1_000n * E18 - 1n, 18, "Verified"],
  [1_000n * E18, 18, "Sentinel"],
  [2n ** 256n - 1n, 18, "Sentinel"],
  [2n ** 256n - 1n, 77, "Open"],
  [99n, 0, "Open"],
  [100n, 0, "Verified"],
  [2n ** 64n - 1n, 255, "Open"],
] as const)("[SPEC] %d smallest units of a token with %d decimals are %s, to the last of them", (atoms, decimals, tier) => {
  expect(tierOfAtoms(atoms, decimals)).toBe(tier);
});
