import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { proofs, ROWS } from "../../../scripts/supported.ts";
import { has } from "./support/named-test.ts";

describe("docs/supported.md", () => {
  test("names for each cell a test that is there, in a file that runs this client on this chain", () => {
    const missing = proofs().filter(({ proof }) => !has(proof) || !proof.marks.every((mark) => readFileSync(`test/${proof.file}`, "utf8").includes(mark)));
    expect(missing).toEqual([]);
    expect(proofs().length).toBeGreaterThan(40);
  });

  test("says of no client that it pays if no test shows it", () => {
    for (const { client, pays, evm, svm } of ROWS) expect(pays !== "no", client).toBe(evm.whole !== undefined || svm.whole !== undefined);
  });
});
