import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseLeniently } from "../../../src/tasks/extract/lenient-json.ts";

describe("parseLeniently", () => {
  test.each<[string, string, unknown]>([
    ["trailing and doubled commas", "[1,,2,]", [1, 2]],
    ["doubled commas after a string", '{"a": "x",, , "b": "y"}', { a: "x", b: "y" }],
    ["missing commas between lines", '{"a": 1\n"b": "x"\n"c": true}', { a: 1, b: "x", c: true }],
    ["Python", "{'a': None, 'b': (1, True)}", { a: null, b: [1, true] }],
    ["an apostrophe within single quotes", "{'a': 'it's ours', 'b': 1}", { a: "it's ours", b: 1 }],
    ["quotes within quotes", '{"a": "the "best" one", "b": 1}', { a: 'the "best" one', b: 1 }],
    ["a quote that was never closed", '{"a": "one, "b": 2}', { a: "one", b: 2 }],
    ["a text that stops within a string", '{"a": ["x", "y', { a: ["x", "y"] }],
    ["a text that stops behind a colon", '[{"a":1},{"a":', [{ a: 1 }, { a: null }]],
    ["a forgotten closer", '{"a":[1,2}', { a: [1, 2] }],
    ["a forgotten closer between records", '[{"a":1,{"a":2}]', [{ a: 1 }, { a: 2 }]],
    ["a name without its first quote", '{"id": 7, name": "Ana", tag": 1,\n the end": 2}', { id: 7, name: "Ana", tag: 1, "the end": 2 }],
    ["a name without its last quote", '{"id: 7, "name: "Ana", "tags: ["x"], "ok": true}', { id: 7, name: "Ana", tags: ["x"], ok: true }],
    ["a name without its colon", '{"id" 7, "name" "Ana", "tags"["x"], "ok": true}', { id: 7, name: "Ana", tags: ["x"], ok: true }],
    ["colons and quotes that belong to a name", '{"a: 1": 2, "12:30": "x", "b "c" d": 3,}', { "a: 1": 2, "12:30": "x", 'b "c" d': 3 }],
    ["a value that was left out", '[{"id": , "name": "Ana", "age":}, {"id": 2}]', [{ id: null, name: "Ana", age: null }, { id: 2 }]],
    ["slips before a name", '{3"a": 1,\n- "b": 2, é"c": 3}', { a: 1, b: 2, c: 3 }],
    ["comments", "{a: 1, // one\n# two\n/* three */ b: http://x.example/y}", { a: 1, b: "http://x.example/y" }],
    ["numbers of JSON5", "[0x1F, .5, 5., +3, 1_000, 1e3, -0, 007]", [31, 0.5, 5, 3, 1000, 1000, 0, "007"]],
    ["thousands separators", '{"a": 1,299.00, "b": 1,299, "c": -1,234,567.5}', { a: 1299, b: 1299, c: -1234567.5 }],
    [
      "decimal commas and other separators",
      `{"a": 12,50, "b": 1.299,00, "c": 0,299, "d": 1 299,00, "e": 1'299.00}`,
      { a: 12.5, b: 1299, c: 0.299, d: 1299, e: 1299 },
    ],
    ["amounts stay as written", '{"a": $1,299.00, "b": 12,50 €, "c": €5, "d": 1,200 sq ft}', { a: "$1,299.00", b: "12,50 €", c: "€5", d: "1,200 sq ft" }],
    ["a comma before a name that is a number", '{a: 1,200: "x", b: [1,200]}', { a: 1, 200: "x", b: [1, 200] }],
    ["a number with commas that is cut off", '{"a": 1,299.0', { a: 1299 }],
    ["Python sets", "{'a': {1, 2}, 'b': {'x'}}", { a: [1, 2], b: ["x"] }],
    ["Python prefixes", `{u'a': u'x', "b": r"y", 'c': b'z'}`, { a: "x", b: "y", c: "z" }],
    ["Python strings of several lines", `{"a": """x\n"y" z""", 'b': '''z'''}`, { a: 'x\n"y" z', b: "z" }],
    ["objects that Python cannot print, and placeholders", `{'a': <Lamp at 0x7f>, "b": <string>, "c": 1}`, { a: "<Lamp at 0x7f>", b: "<string>", c: 1 }],
    ["named lists of PHP", `["a" => 1, 'b' => ['c' => 2]]`, { a: 1, b: { c: 2 } }],
    ["patterns, paths and formulas", String.raw`{"a": "\d+\.\w", "b": "C:\Users", "c": "\alpha"}`, { a: "\\d+\\.\\w", b: "C:\\Users", c: "\\alpha" }],
    ["full-width marks", '{“姓名”："张三"，“年龄”：30}', { 姓名: "张三", 年龄: 30 }],
    ["quotes of other languages", "{„a“: „x“, «b»: «y»}", { a: "x", b: "y" }],
    ["integers that a double would change", "[9007199254740993, 9007199254740991]", ["9007199254740993", 9007199254740991]],
    ["escapes", String.raw`{"a": "\x41\u{1F600}\u00e9\q\n"}`, { a: "A😀éq\n" }],
    ["constructors and joined strings", `{id: ObjectId("5f"), s: "a" + 'b'}`, { id: "5f", s: "ab" }],
    ["equals signs and semicolons", '{"a" = 1; "b" => 2}', { a: 1, b: 2 }],
    ["a key by the name of the prototype", '{"__proto__": {x: 1}}', JSON.parse('{"__proto__":{"x":1}}')],
  ])("%s", (_, text, value) => {
    expect(parseLeniently(text)).toStrictEqual(value);
  });

  test.each(["{ color: red; margin: 0 }", "{ x : x > 0 }", "{ return a; }", "{name}", "{a, b}", "{ f(x): 1 }", "{ a: , b: }", "{a, b: }"])(
    "%s is no data",
    (text) => {
      expect(parseLeniently(text)).toBeUndefined();
    },
  );

  test("what JSON.parse reads gives the same value", () => {
    fc.assert(
      fc.property(fc.jsonValue({ depthSize: "small" }), (value) => {
        fc.pre(typeof value === "object" && value !== null && !/\d{16}|e\+/.test(JSON.stringify(value)) && !JSON.stringify(value).includes('""'));
        expect(parseLeniently(JSON.stringify(value, null, 1))).toStrictEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 300, examples: [[{ '@:0" ': " " }]] },
    );
  });
});
