import { afterEach, describe, expect, test, vi } from "vitest";
import { readSettings } from "../../../src/coordinator/config.ts";
import { warnOfPlaceholder } from "../../../src/coordinator/config.ts";

afterEach(() => vi.restoreAllMocks());

describe("placeholder", () => {
  test.each([
    [{ INSTANCE: "evm" }, ["EVM_PAY_TO"]],
    [{ INSTANCE: "svm" }, ["SVM_PAY_TO"]],
    [{ INSTANCE: "evm", TESTNET_MODE: "true" }, []],
    [{ INSTANCE: "evm", EVM_PAY_TO: "0x99B9e5b1ED388051ce91BA3140147Ea1864564bC" }, []],
    [{ INSTANCE: "svm", SVM_PAY_TO: "3eUGXu7U5LZPevkSXfvVyejdobFp8Evo1pqobeN4LRMb" }, []],
  ])("[PY1] %o warns of %o, once", (variables, warned) => {
    const spy = vi.spyOn(console, "warn").mockImplementation(() => {});
    const settings = readSettings(variables);
    for (let i = 0; i < 3; i++) warnOfPlaceholder(settings);
    expect(spy.mock.calls.map(([line]) => /"setting":"(\w+)"/.exec(String(line))?.[1])).toEqual(warned);
  });
});
