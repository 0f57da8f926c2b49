// Every spelling of a frame. That a bad one is answered, and what closes the socket, is in test/conformance/socket.
import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { parseWorkerFrame } from "../../../src/protocol/worker-messages.ts";

const REGISTER = { type: "register", provider_pubkey: "ab".repeat(32), provider_type: "DESKTOP", capabilities: ["TASK"] };
const register = (fields: object) => parseWorkerFrame(JSON.stringify({ ...REGISTER, ...fields }));
const nested = (depth: number): string => `{"type":"heartbeat","x":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;

test.each([
  ["63 digits", "a".repeat(63)],
  ["66 digits", "a".repeat(66)],
  ["no hex", "g".repeat(64)],
  ["0x in front", `0x${"a".repeat(62)}`],
  ["empty", ""],
  ["a number", 5],
  ["null", null],
  ["left out", undefined],
])("[WS4] a key that is %s is invalid_key", (_name, key) => {
  expect(register({ provider_pubkey: key })).toMatchObject({ ok: false, reason: "invalid_key" });
});

test.each([
  ["no provider_type", { provider_type: undefined }],
  ["another provider_type", { provider_type: "LAPTOP" }],
  ["no capabilities", { capabilities: undefined }],
  ["capabilities that are no list", { capabilities: "TASK" }],
  ["a capability that is no string", { capabilities: [1] }],
  ["a signature that is no string", { signature: 1 }],
  ["models that are no list", { models: "m" }],
  ["features that are no list", { features: { ack: true } }],
  ["resume that is no list", { resume: {} }],
  ["a resume entry without attempt", { resume: [{ job_id: "x" }] }],
  ["a negative context", { context: -1 }],
  ["a context that is no whole number", { context: 1.5 }],
  ["a context that is text", { context: "4096" }],
  ["a context of a model that is text", { context: { tiny: "many" } }],
  ["a context that is a list", { context: [] }],
])("[WS4] %s is invalid_register", (_name, fields) => {
  expect(register(fields)).toMatchObject({ ok: false, reason: "invalid_register" });
});

test("[WS3] nulls count as absent, unknown fields and capabilities are read, and SEEKER is MOBILE", () => {
  const nothing = { signature: null, models: null, context: null, engine: null, name: null, version: null, features: null, resume: null };
  expect(register({ ...nothing, owner: "x", stake: 1_000, tier: "Sentinel" })).toEqual({ ok: true, frame: { ...REGISTER, ...nothing } });
  expect(register({ capabilities: ["RENDER", "TASK"], provider_type: "SEEKER" })).toMatchObject({
    ok: true,
    frame: { capabilities: ["RENDER", "TASK"], provider_type: "MOBILE" },
  });
});

test.each([
  ["no JSON", "{", "not_json"],
  ["empty", "", "not_json"],
  ["an array", "[]", "bad_message"],
  ["null", "null", "bad_message"],
  ["a number", "1", "bad_message"],
  ["a string", '"register"', "bad_message"],
  ["no type", "{}", "bad_message"],
  ["a type that is no string", '{"type":1}', "bad_message"],
  ["an unknown type", '{"type":"job_asign"}', "bad_message"],
  ["__proto__ instead of a type", '{"__proto__":{"type":"drain"}}', "bad_message"],
  ["missing fields", '{"type":"job_ack"}', "bad_message"],
  ["wrong fields", '{"type":"job_ack","job_id":1,"attempt":1}', "bad_message"],
  ["an attempt of 0", '{"type":"job_ack","job_id":"x","attempt":0}', "bad_message"],
  ["an output that is an array", '{"type":"job_complete","job_id":"x","output":[]}', "bad_message"],
  ["depth 33", nested(LIMITS.jsonDepth + 1), "bad_message"],
  ["depth 200 000", nested(200_000), "bad_message"],
])("[WS1] %s is no frame", (_name, text, reason) => {
  expect(parseWorkerFrame(text)).toEqual({ ok: false, reason, message: expect.stringMatching(/./) });
});

test("[LM1] depth 32 is read", () => {
  expect(LIMITS.jsonDepth).toBe(32);
  expect(parseWorkerFrame(nested(32))).toEqual({ ok: true, frame: { type: "heartbeat" } });
});
