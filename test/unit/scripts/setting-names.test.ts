import { expect, test } from "vitest";
import { unknownSetting } from "../../../scripts/setting-names.ts";
import { variables, wranglerFile } from "../../../scripts/workerd-config.ts";

test("a mistyped setting is named with its place and with the one that was meant", () => {
  expect(unknownSetting(".dev.vars: TESTNET_MOD", "TESTNET_MOD")).toBe(
    ".dev.vars: TESTNET_MOD: the coordinator does not know this setting; did you mean TESTNET_MODE?",
  );
  expect(unknownSetting("--var COLOUR", "COLOUR")).toBe("--var COLOUR: the coordinator does not know this setting; docs/operations.md lists the settings");
  expect(unknownSetting("--var QUEUED_JOBS", "QUEUED_JOBS")).toBeNull();
});

test.each(["evm", "svm"] as const)("the coordinator knows every setting of the wrangler file of %s", (instance) => {
  const names = Object.keys(wranglerFile(instance).vars);
  expect(names).toContain("INSTANCE");
  expect(names.filter((name) => unknownSetting(name, name) !== null)).toEqual([]);
  expect(Object.keys(variables({ instance, settings: {} }))).toEqual(expect.arrayContaining(names));
});
