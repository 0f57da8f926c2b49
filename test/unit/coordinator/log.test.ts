import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { safeReason, errorFacts, logLine } from "../../../src/coordinator/log.ts";
import { SettingsError } from "../../../src/coordinator/config.ts";
import { StoreUnavailable } from "../../../src/coordinator/store/database.ts";

/** What JSON.parse throws quotes what it was given. */
function syntaxError(): unknown {
  try {
    return JSON.parse("secret prompt");
  } catch (error) {
    return error;
  }
}

test("[API1] a log line has the name and the place of an exception, not its message", () => {
  const facts = errorFacts(syntaxError());
  expect(facts).toMatchObject({ error: "SyntaxError", at: expect.stringContaining("log.test.ts") });
  expect(JSON.stringify(facts)).not.toContain("secret");
});

test("[API1] a message that looks like a stack does not get in that way", () => {
  expect(JSON.stringify(errorFacts(new Error("x\n  at secret\nsecret")))).not.toContain("secret");
});

test("[API1] the message of D1 is logged, the message of the wrapper, which lists parameters, is not", () => {
  const error = new StoreUnavailable(new Error("Failed query: params: secret", { cause: new Error("D1_ERROR: disk full") }));
  expect(errorFacts(error)).toMatchObject({ error: "StoreUnavailable", reason: "D1_ERROR: disk full" });
  expect(JSON.stringify(errorFacts(error))).not.toContain("secret");
});

test("[API1] a setting is named", () => {
  expect(errorFacts(new SettingsError("Invalid setting A: no"))).toMatchObject({ reason: "Invalid setting A: no" });
});

test("[API1] of a thrown value that is not an Error the type is logged", () => {
  expect(errorFacts("secret")).toEqual({ error: "string" });
});

test("[API1] the reason of another service is logged only if it is a code", () => {
  const codes = [
    "invalid_exact_evm_payload_authorization_valid_before",
    "server_error",
    "invalid_exact_svm_payload_transaction_instructions_compute_limit_instruction",
    "E1",
  ];
  for (const code of codes) expect(safeReason(code)).toBe(code);
  const others = ["", "no funds", `0x${"ab12".repeat(33)}`, "49DvH3hJdc9kGcTrWBsVDxP54dnZvtHFcwYg42SYTCF2", "a".repeat(101), "{}", "user:secret", "1_x"];
  for (const words of others) expect(safeReason(words), words).toBe("redacted");
});

test("every event that is logged is in the operator's list, and the list has no others", () => {
  const sources = globSync("src/coordinator/**/*.ts").map((file) => readFileSync(file, "utf8"));
  // The name is the first text of the call; a choice between two names has both. Or it stands in a table of events.
  const calls = sources.flatMap((source) => [...source.matchAll(/log(?:Error|Warning)\(([^,{]*),/g)].map(([, name = ""]) => name));
  const tables = sources.flatMap((source) => [...source.matchAll(/_EVENTS = \{([^}]*)\}/g)].map(([, names = ""]) => names));
  const logged = [...calls, ...tables].flatMap((call) => [...call.matchAll(/"([a-z_]+_[a-z_]+|scheduled|overloaded)"/g)].map(([, name]) => name));
  const [, section = ""] = readFileSync("docs/operations.md", "utf8").split("\n## What to watch");
  const [list = ""] = section.split("\n## ");
  const listed = [...list.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, names = ""]) => [...names.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name));
  expect(listed.filter((name) => name !== "event").toSorted()).toEqual([...new Set(logged)].toSorted());
});

test("[API1] bidi marks and line separators are written as escapes, and the line is the same JSON", () => {
  const reason = "a\u202eb\u2028c\u2029d\u0085e\u2066f";
  const line = logLine("error", "e", { reason });
  expect(line).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u);
  expect(JSON.parse(line)).toEqual({ level: "error", event: "e", reason });
});
