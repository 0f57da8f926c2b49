import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isShallowJson, rawJsonMember, readJson, withFirstMember } from "../../../src/protocol/json.ts";
import { isLoopback, parseIsoTime, utf8Length } from "../../../src/protocol/text.ts";

describe("text of a stranger", () => {
  test.each([
    ["[[1]]", 2, true],
    ["[[1]]", 1, false],
    ['[{"a":[]}]', 3, true],
    ['[{"a":[]}]', 2, false],
    ['["[[[{{{"]', 1, true],
    [String.raw`["\\\"[[["]`, 1, true],
    ["[1],[2],[3]", 1, true],
  ])("[LM1] %s nests at most %i levels: %s", (json, limit, isShallow) => {
    expect(isShallowJson(json, limit)).toBe(isShallow);
  });

  test("[LM1] JSON of 32 levels is read, of 33 it is not", () => {
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
    expect(readJson(nested(32))).toMatchObject({ ok: true });
    expect(readJson(nested(33))).toEqual({ ok: false, reason: "too_deep" });
  });

  test("[LM1] the length in UTF-8 is that of the bytes", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => utf8Length(text) === Buffer.byteLength(text)));
    expect(utf8Length("aé€😀")).toBe(10);
  });

  test.each([
    ["2026-11-26T12:00:00Z", Date.UTC(2026, 10, 26, 12)],
    ["2026-11-26T12:00:00.5+01:00", Date.UTC(2026, 10, 26, 11, 0, 0, 500)],
    ["2026-11-26T12:00:00", null],
    ["2026-11-26", null],
    ["2026-13-26T12:00:00Z", null],
    ["26 Nov 2026 12:00 GMT", null],
  ])("[RC3] the time %s is %j: without a zone nobody knows it", (text, time) => {
    expect(parseIsoTime(text)).toBe(time);
  });

  test.each([
    ["localhost", true],
    ["127.0.0.1", true],
    ["127.9.9.9", true],
    ["[::1]", true],
    ["127.0.0.1.evil.example", false],
    ["127.evil.example", false],
    ["localhost.evil.example", false],
    ["0.0.0.0", false],
  ])("[API7] the host %s is this machine: %s", (host, isHere) => {
    expect(isLoopback(host)).toBe(isHere);
  });
});

describe("[WS8] the text of a member", () => {
  test.each([
    ["numbers that no double holds", '{"payload":{"a":1e400,"b":12345678901234567890,"c":1.0,"d":-0}}', '{"a":1e400,"b":12345678901234567890,"c":1.0,"d":-0}'],
    ["integer-like names in their order", '{"payload":{"b":1,"10":2,"9":3}}', '{"b":1,"10":2,"9":3}'],
    ["repeated names", '{"payload":{"a":1,"a":2}}', '{"a":1,"a":2}'],
    ["escapes and white space", '{ "payload" : {\n"a"\t: "\\u0041\\/" } }', '{\n"a"\t: "\\u0041\\/" }'],
    ["a name that is escaped", '{"p\\u0061yload":{"a":1}}', '{"a":1}'],
    ["the last of two", '{"payload":{"a":1},"x":[{"payload":2}],"payload":{"a":3}}', '{"a":3}'],
    ["quotes and brackets in strings", '{"x":"}\\"{","payload":{"a":"}]\\\\"},"y":1}', '{"a":"}]\\\\"}'],
    ["a number before the end", '{"payload":12}', "12"],
    ["a word before a space", '{"payload":null }', "null"],
    ["a byte order mark in front", '\u{feff}{"payload":"a"}', '"a"'],
  ])("is as it was written: %s", (_, json, text) => {
    expect(rawJsonMember(json, "payload")).toBe(text);
  });

  test.each(["{}", '{"a":{"payload":1}}', '{"payloads":1}', '{"a":"payload"}'])("is null without such a member: %s", (json) => {
    expect(rawJsonMember(json, "payload")).toBeNull();
  });

  test("parses to the same value as in the whole text, with any content and indentation", () => {
    const object = fc.dictionary(fc.oneof(fc.string({ unit: "binary" }), fc.constant("payload")), fc.jsonValue());
    fc.assert(
      fc.property(object, fc.constantFrom(0, 2, "\t"), (value, space) => {
        const json = JSON.stringify(value, null, space);
        const parsed: Record<string, unknown> = JSON.parse(json);
        const text = rawJsonMember(json, "payload");
        if (Object.hasOwn(parsed, "payload")) expect(JSON.parse(text ?? "")).toEqual(parsed.payload);
        else expect(text).toBeNull();
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("[WS8] an object with one member put first", () => {
  test.each([
    ["absent: all else as it was written", '{"b":1e400, "a":[ 1 ]}', '{"job_type":"TASK","b":1e400, "a":[ 1 ]}'],
    ["null: taken out where it stood", '{"b":1, "job_type" : null , "a":2}', '{"job_type":"TASK","b":1,"a":2}'],
    ["null and first", '{ "job_type":null, "a":"}" }', '{"job_type":"TASK","a":"}"}'],
    ["null and last", '{"a":"job_type","job_type":null}', '{"job_type":"TASK","a":"job_type"}'],
    ["null, repeated, and once escaped", '{"job_type":"LLM_INFER","a":{"job_type":null},"job\\u005ftype":null}', '{"job_type":"TASK","a":{"job_type":null}}'],
    ["nothing else", '{"job_type":null}', '{"job_type":"TASK"}'],
    ["an empty object", "{ }", '{"job_type":"TASK"}'],
  ])("%s", (_, json, text) => {
    expect(withFirstMember(json, "job_type", "TASK")).toBe(text);
  });

  test("has the member once, as the first one, and all others unchanged", () => {
    const object = fc.dictionary(fc.oneof(fc.string({ unit: "binary" }), fc.constant("job_type")), fc.jsonValue());
    fc.assert(
      fc.property(object, fc.constantFrom(0, 2, "\t"), (value, space) => {
        const text = withFirstMember(JSON.stringify(value, null, space), "job_type", "TASK");
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify({ ...value, job_type: "TASK" })));
        expect(rawJsonMember(text, "job_type")).toBe('"TASK"');
        expect(text.startsWith('{"job_type":"TASK"')).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
