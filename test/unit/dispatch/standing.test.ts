import { describe, expect, test } from "vitest";
import { afterCompletion, afterFailure, backOffTime, mayDiffer, NEW_KEY, standingOf } from "../../../src/coordinator/dispatch/standing.ts";
import type { KeyRecord } from "../../../src/coordinator/dispatch/state.ts";

const JOB = { privacyClass: "PUBLIC", userId: "ann", network: "203.0.113.1" } as const;
const OWN = "198.51.100.7";

/** The record after completions of jobs of these users. */
function completed(users: readonly string[], record: KeyRecord = NEW_KEY): KeyRecord {
  return users.reduce((one, userId) => afterCompletion(one, { ...JOB, userId }, OWN), record);
}

describe("standingOf, the standing of a key", () => {
  test("[JB11] proven after three completions of three users", () => {
    expect(standingOf(NEW_KEY, true)).toBe("probation");
    expect(standingOf(completed(["ann", "bob"]), true)).toBe("probation");
    expect(standingOf(completed(["ann", "bob", "cyd"]), true)).toBe("proven");
  });

  test("[JB11] a user counts once", () => {
    expect(completed(["ann", "ann", "ann", "bob"]).completed).toBe(2);
  });

  test("[JB11] a key that did not sign stays on probation", () => {
    expect(standingOf(completed(["ann", "bob", "cyd"]), false)).toBe("probation");
  });

  test("[JB11] two failures in a row end it, one does not", () => {
    const once = afterFailure(completed(["ann", "bob", "cyd"]), 5);
    expect(standingOf(once, true)).toBe("proven");
    expect(once).toMatchObject({ failed: 1, failedAt: 5 });
    expect(standingOf(afterFailure(afterCompletion(once, JOB, OWN), 6), true)).toBe("proven");
    const twice = afterFailure(once, 7);
    expect(standingOf(twice, true)).toBe("probation");
    expect(twice).toMatchObject({ completed: 0, users: [] });
  });

  test("[JB11] a key that lost it gets it again in the same way", () => {
    const lost = afterFailure(afterFailure(completed(["ann", "bob", "cyd"]), 1), 2);
    expect(standingOf(completed(["ann", "bob", "cyd"], lost), true)).toBe("proven");
  });
});

describe("afterCompletion, what counts", () => {
  test.each([
    ["a PRIVATE job", { ...JOB, privacyClass: "PRIVATE" as const }, OWN],
    ["a job from the worker's own network", { ...JOB, network: OWN }, OWN],
    ["a job from a network that nobody named", { ...JOB, network: "" }, OWN],
  ])("[JB11] %s does not", (_title, job, own) => {
    const once = afterCompletion(NEW_KEY, job, own);
    expect(once).toEqual({ ...NEW_KEY, hasCompleted: true });
    expect(afterCompletion(once, job, own)).toBe(once);
  });

  test.each(["127.0.0.1", "127.0.0.9", "0:0:0::/48", "local"])("[JB11] on loopback (%s) every job does", (own) => {
    expect(afterCompletion(NEW_KEY, { ...JOB, network: own }, own).completed).toBe(1);
  });

  test("[JB11] a proven key without failures costs no write", () => {
    const proven = completed(["ann", "bob", "cyd"]);
    expect(afterCompletion(proven, { ...JOB, userId: "dan" }, OWN)).toBe(proven);
    expect(proven.users).toEqual([]);
  });

  test("[JB11] a completion that does not count ends a row of failures too", () => {
    expect(afterCompletion(afterFailure(NEW_KEY, 1), { ...JOB, privacyClass: "PRIVATE" }, OWN).failed).toBe(0);
  });

  test("[JB11] the stored text of a user is a number, not the user", () => {
    expect(completed(["ann"]).users).toEqual([expect.any(Number)]);
    expect(completed(["ann"]).users).not.toEqual(completed(["bob"]).users);
  });
});

describe("backOffTime", () => {
  test("[JB11] 2 s, twice as long each time, 5 minutes at most", () => {
    expect([0, 1, 2, 3, 7, 8, 9, 1_000].map(backOffTime)).toEqual([0, 2_000, 4_000, 8_000, 128_000, 256_000, 300_000, 300_000]);
  });
});

test("[JB11] networks that are not known may differ; known ones differ by name", () => {
  expect([mayDiffer("a", "b"), mayDiffer("a", "a"), mayDiffer("local", "local")]).toEqual([true, false, true]);
});
