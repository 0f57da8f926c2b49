import { expect, test } from "vitest";
import { StartFailure } from "../../../scripts/coordinator-process.ts";
import type { FileVariables } from "../../../scripts/variables.ts";
import { wrongVariables } from "../../../scripts/wrong-variables.ts";

const wrong = (files: FileVariables, settings: Record<string, string> = {}) => wrongVariables({ instance: "evm", settings }, () => files);

test("a wrong setting is named with its file, and not if a later place replaces it", () => {
  const files = { "wrangler.evm.toml": { INSTANCE: "evm", COMMITS_PER_MINUTE: "x" }, ".dev.vars": { RATE_LIMITS: "on" } };
  expect(wrong(files)).toBe('wrangler.evm.toml: COMMITS_PER_MINUTE must be a whole number, 0 or more, got "x"');
  expect(wrong(files, { COMMITS_PER_MINUTE: "7" })).toBeNull();
  expect(wrong({ ...files, ".dev.vars": { COMMITS_PER_MINUTE: "" } })).toBeNull();
  expect(wrong({ ...files, ".dev.vars": { COMMITS_PER_MINUTE: "y" } })).toBe('.dev.vars: COMMITS_PER_MINUTE must be a whole number, 0 or more, got "y"');
});

test("one that the start was given needs no file", () => {
  expect(wrong({}, { COMMITS_PER_MINUTE: "x" })).toBe('COMMITS_PER_MINUTE must be a whole number, 0 or more, got "x"');
});

test("settings that are wrong only together are named, and so is a file that cannot be read", () => {
  const together = { "wrangler.evm.toml": { INSTANCE: "evm", STAKE_SOURCE: "evm" }, ".dev.vars": { EVM_RPC_URL: "https://rpc.example" } };
  expect(wrong(together)).toBe("Invalid setting EVM_STAKE_CONTRACT: is needed by STAKE_SOURCE=evm");
  const broken = () => {
    throw new StartFailure("wrangler.evm.toml: vars is missing");
  };
  expect(wrongVariables({ instance: "evm", settings: {} }, broken)).toBe("wrangler.evm.toml: vars is missing");
});
