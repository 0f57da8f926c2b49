import { expect, it } from "vitest";
import { REASONS, reasonsIn } from "../support/settle-reasons.ts";
import { FACILITATOR_VERSIONS } from "./facilitator/schemes.ts";

/** The packages with the schemes of each version; the newest ones have their own names. */
const PACKAGES = FACILITATOR_VERSIONS.flatMap((version, index) =>
  ["evm", "svm"].map((chain) => [index === 0 ? `@x402/${chain}` : `x402-${chain}-${version}`, version] as const),
);

it.each(PACKAGES)("[PY8] %s %s gives no reason that test/support/settle-reasons.ts does not name", (name) => {
  const named = new Set<string>(Object.values(REASONS).flat());
  const read = reasonsIn(name, import.meta.filename);
  expect(read.length).toBeGreaterThan(10);
  expect(read.filter((reason) => !named.has(reason))).toEqual([]);
});

it("[PY8] settle-reasons.ts names no reason that none of these packages gives", () => {
  const given = new Set(PACKAGES.flatMap(([name]) => reasonsIn(name, import.meta.filename)));
  expect(
    Object.values(REASONS)
      .flat()
      .filter((reason) => !given.has(reason)),
  ).toEqual([]);
});
