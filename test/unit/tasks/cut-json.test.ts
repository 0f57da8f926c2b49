import * as fc from "fast-check";
import { jsonrepair } from "jsonrepair";
import { describe, expect, test } from "vitest";
import { runTask } from "../../../src/tasks/index.ts";

type Value = string | number | boolean | null | Value[] | { [name: string]: Value };
/** A text, and for every object in it where it ends and what it says. */
type Written = { text: string; objects: { end: number; value: Value }[] };
/** How a language writes data. */
type Style = { quote: (text: string) => string; constants: [string, string, string]; name: (text: string) => string; comma: string; last: string };

const JSON_STYLE: Style = {
  quote: (text) => JSON.stringify(text),
  constants: ["true", "false", "null"],
  name: (text) => JSON.stringify(text),
  comma: ",",
  last: "",
};

/** Writes `value` with the indent of `JSON.stringify`. */
function write(value: Value, style: Style, indent: string): Written {
  const objects: Written["objects"] = [];
  let text = "";
  const put = (one: Value, line: string): void => {
    if (typeof one === "string") text += style.quote(one);
    else if (typeof one === "number") text += JSON.stringify(one);
    else if (one === null || typeof one === "boolean") text += style.constants[one === null ? 2 : one ? 0 : 1];
    else {
      const isList = Array.isArray(one);
      const members = isList ? one.map((item): [string | null, Value] => [null, item]) : Object.entries(one);
      text += isList ? "[" : "{";
      for (const [at, [name, member]] of members.entries()) {
        if (indent !== "") text += `\n${line}${indent}`;
        if (name !== null) text += `${style.name(name)}:${indent === "" ? "" : " "}`;
        put(member, line + indent);
        text += at === members.length - 1 ? style.last : style.comma;
      }
      if (indent !== "" && members.length > 0) text += `\n${line}`;
      text += isList ? "]" : "}";
      if (!isList) objects.push({ end: text.length, value: one });
    }
  };
  put(value, "");
  return { text, objects };
}

/** Every object in `value`, as text, with how often it is there. */
function objectsIn(value: unknown, found = new Map<string, number>()): Map<string, number> {
  if (typeof value !== "object" || value === null) return found;
  if (!Array.isArray(value)) found.set(JSON.stringify(value), (found.get(JSON.stringify(value)) ?? 0) + 1);
  for (const inner of Object.values(value)) objectsIn(inner, found);
  return found;
}

/** Cuts `before` + the text + `after` at every character: every object that was complete is in the output, as often as in the text. */
function expectNothingLost({ text, objects }: Written, before: string, after: string): void {
  const whole = before + text + after;
  for (let cut = 0; cut <= whole.length; cut++) {
    const output = objectsIn(runTask("extract_json", whole.slice(0, cut)));
    const complete = new Map<string, number>();
    for (const { end, value } of objects) {
      // An empty object is no finding.
      if (before.length + end <= cut && Object.keys(value as object).length > 0)
        complete.set(JSON.stringify(value), (complete.get(JSON.stringify(value)) ?? 0) + 1);
    }
    for (const [object, times] of complete) {
      if ((output.get(object) ?? 0) < times) expect.fail(`${JSON.stringify(whole.slice(0, cut))} lost ${object}: ${JSON.stringify([...output.keys()])}`);
    }
  }
}

const hard = fc.constantFrom(
  ...['"', "'", "\\", "{", "}", "[", "]", ",", ":", '": ', '", "', "}]", "\n", "//", "/*", "#", "é", "😀", "`", "```", "…", "&quot;", "<b>", "=", ";", "("],
);
const hardText = fc.array(fc.oneof({ weight: 3, arbitrary: fc.string({ maxLength: 4 }) }, hard), { maxLength: 4 }).map((parts) => parts.join(""));
const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Number.isInteger(value) || Number.isSafeInteger(value)),
);

/** Data of any shape with these texts; the list and its records are never empty. */
function data(text: fc.Arbitrary<string>, name: fc.Arbitrary<string>): fc.Arbitrary<Value> {
  const { record } = fc.letrec<{ value: Value; record: Value; list: Value }>((tie) => ({
    value: fc.oneof({ maxDepth: 3, depthIdentifier: "data" }, text, number, fc.boolean(), fc.constant(null), tie("list"), tie("record")),
    list: fc.array(tie("value"), { maxLength: 3, depthIdentifier: "data" }),
    record: fc.dictionary(name, tie("value"), { minKeys: 1, maxKeys: 3, depthIdentifier: "data" }),
  }));
  return fc.oneof(fc.array(record, { minLength: 1, maxLength: 3 }), record);
}

const frames = fc.constantFrom(
  ["", ""],
  ["Here is what I found:\n\n", "\n\nLet me know if you need more."],
  ["Sure! It's [as asked] in JSON:\n```json\n", "\n```\nThat's all (2 of 2) [1]."],
  ["```\n", "\n```"],
  ['The "answer" isn\'t long: ', " — that's it."],
);
const indents = fc.constantFrom("", " ", "  ", "\t");

describe("JSON that was cut off", () => {
  test.each<[string, object[]]>([
    ['[{"id":1,"name":"A"},{"id":2,"na', [{ id: 1, name: "A" }, { id: 2 }]],
    ['[{"id":1,"name":"A"},{"id":2,"name"', [{ id: 1, name: "A" }, { id: 2 }]],
    ['[{"id":1,"name":"A"},{"', [{ id: 1, name: "A" }]],
    ["[{'id': 1, 'name': 'A'}, {'id': 2, 'na", [{ id: 1, name: "A" }, { id: 2 }]],
    ['{"it\'s":[{"id":1},{"id":2},{"i', [{ "it's": [{ id: 1 }, { id: 2 }, {}] }]],
    ['[null,{"id":1},{"i', [{ id: 1 }]],
    ['[{"id":12345678901234567890,"s":""},{"i', [{ id: "12345678901234567890", s: "" }]],
    ["Here: { id: 1, name: 'A', ok: tr", [{ id: 1, name: "A", ok: "tr" }]],
    ['[{"id":1,"ok":tru', [{ id: 1, ok: true }]],
    ['[{"id":1,"at":nu', [{ id: 1, at: null }]],
    ['{"\'":{"":null," ":1.0000006319555391e-225}}', [{ "'": { "": null, " ": 1.0000006319555391e-225 } }]],
    ['{"\\", \\"":[]}', [{ '", "': [] }]],
    ['[{"\\", \\"":12345678901234567890},{"b', [{ '", "': "12345678901234567890" }]],
    ['[{"id: 1, "ok": true}]', [{ id: 1, ok: true }]],
    ['[{"id:false}]', [{ id: false }]],
    ['[{"id":1,"at":-', [{ id: 1, at: null }]],
    ['[{"id":1,"at":1.5e', [{ id: 1, at: 1.5 }]],
    ['[{"s":"a\\u00e', [{ s: "a" }]],
    ['```json\n[{"id":1},{"id":2,"na\n```\nSorry, I was cut off.', [{ id: 1 }, { id: 2 }]],
  ])("%s", (text, extracted) => {
    expect(runTask("extract_json", text)).toEqual({ extracted, count: extracted.length });
  });

  test("at any character, alone, in prose or in a code fence: every object that was complete is in the output", () => {
    fc.assert(
      fc.property(data(hardText, hardText), indents, frames, (value, indent, [before = "", after = ""]) => {
        expectNothingLost(write(value, JSON_STYLE, indent), before, after);
      }),
      { numRuns: 150 },
    );
  });

  const word = fc.stringMatching(/^[a-z][a-z0-9]{0,6}(?: [a-z]{1,5})?$/);
  const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,6}$/);
  const quote = (text: string): string => `'${text}'`;
  const styles: [string, Style][] = [
    ["JSON", JSON_STYLE],
    ["Python", { quote, constants: ["True", "False", "None"], name: quote, comma: ", ", last: "" }],
    ["JSON5", { quote: (text) => `"${text}"`, constants: ["true", "false", "null"], name: (text) => text, comma: ",", last: "," }],
  ];
  test.each(styles.slice(1))("as %s, at any character: every object that was complete is in the output", (_, style) => {
    fc.assert(
      fc.property(data(word, name), indents, frames, (value, indent, [before = "", after = ""]) => {
        expectNothingLost(write(value, style, indent), before, after);
      }),
      { numRuns: 80 },
    );
  });

  test.each(styles)("as %s, at any character: where ours finds nothing, jsonrepair finds no value either", (_, style) => {
    fc.assert(
      fc.property(data(word, name), indents, (value, indent) => {
        const { text } = write(value, style, indent);
        for (let cut = 1; cut <= text.length; cut++) {
          const part = text.slice(0, cut);
          if (objectsIn(runTask("extract_json", part)).size > 1) continue;
          if (tellsSomething(repaired(part))) expect.fail(`${JSON.stringify(part)} is ${JSON.stringify(repaired(part))} to jsonrepair`);
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("JSON with a small mistake", () => {
  test("one quote, colon or comma is missing: where ours finds nothing, jsonrepair finds no value either", () => {
    const word = fc.stringMatching(/^[a-z][a-z0-9]{0,6}(?: [a-z]{1,5})?$/);
    fc.assert(
      fc.property(data(word, fc.stringMatching(/^[a-z][a-z0-9_]{0,6}$/)), indents, (value, indent) => {
        const { text } = write(value, JSON_STYLE, indent);
        for (const { index } of text.matchAll(/[":,]/g)) {
          const part = text.slice(0, index) + text.slice(index + 1);
          if (objectsIn(runTask("extract_json", part)).size > 1) continue;
          if (tellsSomething(repaired(part))) expect.fail(`${JSON.stringify(part)} is ${JSON.stringify(repaired(part))} to jsonrepair`);
        }
      }),
      { numRuns: 40 },
    );
  });
});

/** A second opinion. */
function repaired(text: string): unknown {
  try {
    return JSON.parse(jsonrepair(text));
  } catch {
    return null;
  }
}

/** Whether a record in `value` has a text, a number or a boolean: a name alone says nothing. */
function tellsSomething(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const inner = Object.values(value);
  return inner.some(tellsSomething) || (!Array.isArray(value) && inner.some((one) => one !== null && typeof one !== "object"));
}
