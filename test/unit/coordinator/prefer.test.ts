import { describe, expect, test } from "vitest";
import { preferredWait, waitLeft, waitParameter } from "../../../src/coordinator/http/request.ts";
import { cpuTimeOf } from "../../support/cpu-time.ts";

describe("preferredWait", () => {
  test.each([
    [undefined, 0],
    ["", 0],
    ["wait=10", 10],
    ["WAIT=10", 10],
    ['wait="10"', 10],
    [" wait = 7 ", 7],
    ["wait=7;strict;a=b", 7],
    ["wait=26", 25],
    ["wait=99999999999999999999999", 25],
    ["respond-async, wait=3", 3],
    ['x="a,b;c=\\"d", wait=4, wait=9', 4],
    ['x="wait=5, wait=6"', 0],
    ["wait=bad, wait=9", 0],
    ["wait=1 0", 0],
    ["wait", 0],
    ["wait=", 0],
    ["wait=-1", 0],
    ["wait=1.5", 0],
    ["wait=0", 0],
    ["waiting=5", 0],
    ["=5", 0],
    [",,;,=", 0],
    ['x="never closed, wait=5', 0],
  ])("[API6] %o is %i", (header, seconds) => {
    expect(preferredWait(header)).toBe(seconds);
  });

  const long = 100_000;
  const blanks = " ".repeat(long);
  test.each([
    ...['"'.repeat(long), "\\".repeat(long), `x="${"\\a".repeat(long)}`, blanks, ",".repeat(long), "wait=1,".repeat(long / 10)],
    ...[`wait${blanks}=`, `wait=${blanks}"`, `wait=${blanks}x${blanks}y`, `wait${blanks}=${blanks}=`, `wait=""${blanks}"`, `wait=${"x".repeat(long)}"`],
  ])("[API6] a long header is read in time linear in its length (%#)", (header) => {
    expect(cpuTimeOf(() => preferredWait(header))).toBeLessThan(250);
  });
});

describe("waitParameter", () => {
  test.each([
    [undefined, 0],
    ["0", 0],
    ["007", 7],
    ["25", 25],
    ["26", 25],
    ["9".repeat(400), 25],
    ["", null],
    ["-1", null],
    ["1.0", null],
    ["1e1", null],
    [" 1", null],
    ["١", null],
  ])("[API6] %o is %o", (value, seconds) => {
    expect(waitParameter(value)).toBe(seconds);
  });
});

test("[API6] the rest of a wait becomes shorter with time and is never negative", () => {
  let now = 1_000;
  const left = waitLeft(10, () => now);
  const seen = [0, 1, 999, 1_000, 9_999, 10_000, 60_000].map((after) => {
    now = 1_000 + after;
    return left();
  });
  expect(seen).toEqual([10, 10, 10, 9, 1, 0, 0]);
  expect(waitLeft(0)()).toBe(0);
  // The clock was set back by an hour.
  now = 1_000 - 3_600_000;
  expect(left()).toBe(10);
});
