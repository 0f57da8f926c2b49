import * as fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalText, fingerprint, readUserToken } from "../../../src/coordinator/http/request.ts";
import type { CommitRequest } from "../../../src/protocol/job.ts";
import { canonicalize } from "../../../src/receipt/index.ts";

const task: CommitRequest = { job_type: "TASK", user_id: "u", privacy_class: "PUBLIC", payload: { task_type: "classify", input: "x" } };

test("[API5] is lowercase hex of SHA-256 and does not depend on the order of members", async () => {
  const one = await fingerprint("CHEAP", task, { job_type: "TASK", input: "x", more: { a: 1, b: [2, 3] } });
  expect(one).toMatch(/^[0-9a-f]{64}$/);
  expect(await fingerprint("CHEAP", task, { more: { b: [2, 3], a: 1 }, input: "x", job_type: "TASK" })).toBe(one);
});

test("[API5] the text that it covers is the canonical JSON of RFC 8785, but for names that are array indexes, which come first", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const parsed: unknown = JSON.parse(JSON.stringify(value));
      expect(canonicalText(parsed)).toBe(JSON.stringify(canonicalize(parsed)));
    }),
  );
  const odd: unknown = JSON.parse('{"b":1,"10":[],"9":{},"a":null,"__proto__":{"y":1,"x":2},"4294967295":1,"4294967294":2,"01":3,"-1":4,"1.5":5}');
  expect(canonicalText(odd)).toBe(JSON.stringify(canonicalize(odd)));
});

test("[TR2] what is stored of a token does not show that two users have the same one", () => {
  const stored = ["alice", "bob"].map((user) => readUserToken("the same token", user));
  for (const hash of stored) expect(hash).toEqual({ ok: true, value: expect.stringMatching(/^[0-9a-f]{64}$/) });
  expect(stored[0]).not.toEqual(stored[1]);
  expect(readUserToken("the same token", "alice")).toEqual(stored[0]);
});

test("[API5] differs with every field, a member called __proto__ included", async () => {
  const payload = { job_type: "TASK", input: "x" };
  const all = await Promise.all([
    fingerprint("CHEAP", task, payload),
    fingerprint("FAST", task, payload),
    fingerprint("CHEAP", { ...task, user_id: "v" }, payload),
    fingerprint("CHEAP", { ...task, privacy_class: "PRIVATE" }, payload),
    fingerprint("CHEAP", task, { ...payload, input: "y" }),
    fingerprint("CHEAP", task, { ...payload, list: [1, 2] }),
    fingerprint("CHEAP", task, { ...payload, list: [2, 1] }),
    fingerprint("CHEAP", task, JSON.parse('{"job_type":"TASK","input":"x","__proto__":{"a":1}}')),
  ]);
  expect(new Set(all).size).toBe(all.length);
});
