import { expect, test } from "vitest";
import { dated, datedJson } from "../../../scripts/log-time.ts";
import { logLine } from "../../../src/coordinator/log.ts";

const NOW = new Date(Date.UTC(2026, 10, 29, 18, 52, 41, 123));

test("an event of the coordinator gets its time as the first member, and stays JSON", () => {
  const line = logLine("error", "scheduled", { reason: "timeout" });
  const expected = '{"time":"2026-11-29T18:52:41.123Z","level":"error","event":"scheduled","reason":"timeout"}';
  expect([dated(line, NOW), datedJson(line, NOW)]).toEqual([expected, expected]);
});

test.each(["e = workerd/util/sqlite.c++:914: failed: SQLITE_FULL", '{"level":"error', "{}", "[1]", ""])("%j is no event: it gets its time in front", (line) => {
  expect(dated(line, NOW)).toBe(`2026-11-29T18:52:41.123Z ${line}`);
  expect(datedJson(line, NOW)).toBe(line);
});
