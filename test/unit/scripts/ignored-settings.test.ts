import { expect, test } from "vitest";
import { unclearTestnetMode, unknownSetting } from "../../../scripts/ignored-settings.ts";
import { variables, wranglerFile } from "../../../scripts/variables.ts";

test("a mistyped setting is named with its place and with the one that was meant", () => {
  expect(unknownSetting(".dev.vars: TESTNET_MOD", "TESTNET_MOD")).toBe(
    ".dev.vars: TESTNET_MOD: the coordinator does not know this setting; did you mean TESTNET_MODE?",
  );
  expect(unknownSetting("--var COLOUR", "COLOUR")).toBe("--var COLOUR: the coordinator does not know this setting; docs/operations.md lists the settings");
  expect(unknownSetting("--var QUEUED_JOBS", "QUEUED_JOBS")).toBeNull();
});

test("a TESTNET_MODE that looks as if it were on is named, because jobs must be paid", () => {
  for (const mode of ["yes", "1", "TRUE", " true"])
    expect(unclearTestnetMode(mode)).toBe(`TESTNET_MODE is "${mode}": only true makes jobs free, so they must be paid`);
  for (const mode of ["true", "false", ""]) expect(unclearTestnetMode(mode)).toBeNull();
});

test.each(["evm", "svm"] as const)("the coordinator knows every setting of the wrangler file of %s", (instance) => {
  const names = Object.keys(wranglerFile(instance).vars);
  expect(names).toContain("INSTANCE");
  expect(names.filter((name) => unknownSetting(name, name) !== null)).toEqual([]);
  expect(Object.keys(variables({ instance, settings: {} }))).toEqual(expect.arrayContaining(names));
});
