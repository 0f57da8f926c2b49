import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ENGINE, runTask, type TaskType } from "../../../src/tasks/index.ts";

import { isWellFormedJson } from "../../../src/protocol/json.ts";
import { utf8Length } from "../../../src/protocol/text.ts";
import { currentOutputs, golden } from "../../corpus/corpus.ts";
import { cpuTimeOf } from "../../support/cpu-time.ts";

const TASKS: readonly TaskType[] = ["summarize", "classify", "extract_json"];
const KEYS = { summarize: ["summary", "word_count"], classify: ["confidence", "sentiment"], extract_json: ["count", "extracted"] };
const MAX_INPUT = 256 * 1024;
const MAX_OUTPUT = 1024 * 1024;

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

/** What every output must be, whatever the input. */
function check(task: TaskType, input: string): void {
  const output = runTask(task, input);
  const text = JSON.stringify(output);
  expect(Object.keys(output).sort()).toEqual(KEYS[task]);
  // Equal after a round trip: no undefined, NaN, Infinity, -0, dates or prototypes.
  expect(JSON.parse(text)).toStrictEqual(output);
  expect(isWellFormedJson(output)).toBe(true);
  expect(utf8Length(text)).toBeLessThanOrEqual(MAX_OUTPUT);
  expect(depthOf(output)).toBeLessThanOrEqual(16);
  if ("extracted" in output) {
    expect(output.count).toBe(output.extracted.length);
    for (const record of output.extracted) expect(Array.isArray(record)).toBe(false);
  }
  if ("confidence" in output) expect(output.confidence >= 0 && output.confidence <= 1).toBe(true);
  expect(JSON.stringify(runTask(task, input))).toBe(text);
}

// Random Unicode alone never meets a parser; these pieces do.
const piece = fc.oneof(
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 12 }) },
  { weight: 1, arbitrary: fc.json() },
  {
    weight: 5,
    arbitrary: fc.constantFrom(
      ..."{ } [ ] \" ' : , | - ; = \\ \n \t # @ . $1 % €2 *".split(" "),
      "\n",
      "\n\n",
      "  ",
      "```",
      "```json\n",
      "|-|-|",
      "|a|b|",
      "a: b",
      "Name: x",
      "k=v ",
      "Invoice #12",
      "Total: $3",
      "2 x Nut @ $1",
      "12 × 8 ÷ 4 ",
      "2026-01-02",
      "a@b.example",
      "https://a.example",
      "__proto__",
      "not bad",
      "Dr. ",
      "。",
      "\u0000",
      "\ud83d\ude00",
      "\u2028",
      "true",
      "null",
      "1e999",
      "&quot;",
    ),
  },
);
const text = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(""));

describe("[RC2] every output is plain JSON data and the same in every run", () => {
  test.each(TASKS)("%s of any text", (task) => {
    fc.assert(
      fc.property(text, (input) => check(task, input)),
      { numRuns: 400 },
    );
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (input) => check(task, input)),
      { numRuns: 200 },
    );
  });

  test("the confidence of a letter beside any other character is at most 1", () => {
    for (let code = 0; code < 0x3000; code++) check("classify", `a${String.fromCodePoint(code)}`);
  });

  test("lone surrogates, and characters of every plane of Unicode", () => {
    for (const task of TASKS) {
      check(task, 'a\ud800b. {"x":"\udc00"}');
      let planes = "";
      for (let plane = 0; plane <= 16; plane++) planes += String.fromCodePoint(plane * 0x10000 + 0x41, plane * 0x10000 + 0xff21);
      check(task, planes.repeat(100));
    }
  });

  test("outputs of the corpus are the pinned ones; another output needs another ENGINE and `node scripts/score-tasks.ts --write-golden`", () => {
    const pinned = golden();
    expect(pinned.engine).toBe(ENGINE);
    expect(currentOutputs()).toEqual(pinned.outputs);
  });

  test("the examples of src/tasks/README.md are true, one for each task", () => {
    const readme = readFileSync("src/tasks/README.md", "utf8");
    const examples = [...readme.matchAll(/^\*\*(\w+)\*\*.*?^```text\n(.*?)\n```\n\n```json\n(.*?)^```/gms)];
    expect(examples.map(([, task]) => task)).toEqual(TASKS);
    for (const [i, [, , input, output]] of examples.entries()) {
      expect(runTask(TASKS[i] ?? "classify", input ?? "")).toStrictEqual(JSON.parse(output ?? ""));
    }
    const snippet = /runTask\("classify", "(.*)"\)/.exec(readme)?.[1];
    expect(examples[1]?.[2]).toBe(snippet);
  });
});

// Bounds are on the CPU that is used; by the clock, a busy machine may need many times as long.
describe("[LM1] 256 KiB of hostile text is answered in bounded time", () => {
  const fill = (unit: string) =>
    unit
      .repeat(Math.ceil(MAX_INPUT / unit.length))
      .slice(0, MAX_INPUT)
      .toWellFormed();
  const units = [
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "\\",
    "`",
    "(",
    ":",
    ",",
    "|",
    "-",
    "=",
    "@",
    ".",
    "$",
    "%",
    "#",
    "+",
    "!",
    " ",
    "\n",
    "\t",
    "\0",
    "1",
    "a",
    "𝒜",
    "\u0301",
    "。",
    "{}",
    "[]",
    "[{",
    '["',
    '{"',
    '{"a":',
    '{"a":[',
    "{a:",
    '{"a":1}\n',
    "[1] ",
    "[".repeat(20) + "]".repeat(20),
    "a:\n",
    "a: b\n",
    "a=1 ",
    'a="',
    'a="\\',
    "a:\n- b\n",
    "a,b\n",
    '"a,\n',
    "|a|b|\n|-|-|\n",
    "|-|\n",
    "a  b  c\n",
    "a\tb\tc\n",
    "a@",
    "a@b.",
    "a.b@c.d ",
    "http://",
    "http://a)",
    "www.",
    "1 ",
    "12-",
    "1.1,",
    "$1,",
    "1 € ",
    "€ 1 ",
    "1 € 2 ",
    "1 100 € ",
    "€",
    "1€",
    "1%",
    "2026-01-",
    "May 1, ",
    "A-",
    "#1",
    "0123abcd-",
    "+1 (2) ",
    "Dr. ",
    "a. ",
    "- x\n",
    "# x\n",
    "```\n",
    "not ",
    "can't a ",
    "but ",
    "😀",
    "great! ",
    "v1.1.1.1 ",
    "invoice no. ",
    "total ",
    "due date ",
    "from A ",
    "2 x a at ",
    "\ud83d\udc68\u200d",
    "{{a: 1}}",
    "&quot;",
    "{&quot;a&quot;:",
    "{'a', ",
    '{\\"a',
    '"/*',
    '{"a":"x" //',
    '{"a":"b" "',
    '{"a" "b" ',
    '{"a": 1, b": ',
    '{"a: "b ',
    '{"a": , ',
    '{"a": 1, - ',
    "{a: b(",
    "{a:1;",
    "can't praise a b c ",
    "no refund ",
    "waste of my ",
    "Ann: hi\nBob: no\n",
    "Hi all,\n",
    "der nicht ",
    "a ",
    "not good, ",
    "1,2\n",
    "ab, cd\n",
    "ab; cd\n",
  ];
  const FREE_MS = 50;

  function expectLinear(task: TaskType, name: string, textOf: (length: number) => string, largest = MAX_INPUT / 8): void {
    const time = (length: number): number => {
      const input = textOf(length);
      return cpuTimeOf(() => expect(utf8Length(JSON.stringify(runTask(task, input)))).toBeLessThanOrEqual(MAX_OUTPUT));
    };
    // Only a step that is quadratic and costs something fails, so what costs next to nothing needs no comparison. A collection of garbage may fall into one
    // run, not into all; and the system counts time in steps of some milliseconds, so one run of the short text says little.
    let whole = time(largest);
    // A step that is linear takes four times as long, one that is quadratic sixteen times: one run of the short text tells most of them apart.
    if (whole < FREE_MS || whole < 6 * time(largest / 4)) return;
    const [, , typical = 0] = Array.from({ length: 5 }, () => time(largest / 4)).toSorted((x, y) => x - y);
    const bound = 10 * typical + FREE_MS;
    for (let tries = 1; tries < 6 && whole >= bound; tries++) whole = Math.min(whole, time(largest));
    expect(whole, name).toBeLessThan(bound);
  }

  // An eighth of the text shows a quadratic step too. Its time must grow with the text, and not with the square of it.
  test.each(units.map((unit) => [unit]))("[LM2] of %j: four times the text takes four times as long, not sixteen times", (unit) => {
    for (const [task, head] of [
      ["summarize", ""],
      ["classify", ""],
      ["extract_json", ""],
      // Behind these heads other parsers meet it.
      ["extract_json", '{"a":'],
      ["extract_json", "Invoice #12\nTotal: $5\n"],
    ] as const) {
      expectLinear(task, `${task} ${head}`, (length) => head + fill(unit).slice(0, length).toWellFormed());
    }
  });

  // What a unit cannot show: the text ends with another line, or no line is like another.
  test.each<[string, (length: number) => string]>([
    ["a list that looks like a table up to its last line", (length) => `${"a@b.c, d\n".repeat(length / 9)}e, f\n`],
    ["cells with a line break", (length) => `${'"a\nb", c@d\n'.repeat(length / 12)}e, f\n`],
    ["quotes, a comment after each: #", (length) => `{"k":"${'#"\n'.repeat(length / 3)}x`],
    ["quotes, a comment after each: //", (length) => `{"k":"${'//"\n'.repeat(length / 4)}x`],
    ["quotes, a comment after each: /*", (length) => `{"k":"${'/*"/**/'.repeat(length / 7)}x`],
  ])("[LM2] of %s: four times the text takes four times as long", (name, textOf) => {
    expectLinear("extract_json", name, textOf, MAX_INPUT / 2);
  });

  test("[LM2] of labels that are all different: four times the text takes four times as long", () => {
    const labels = (length: number): string => Array.from({ length: length / 8 }, (_, i) => `l${10_000 + i}=${i % 500 === 499 ? "\n" : " "}`).join("");
    expectLinear("extract_json", "labels", labels, MAX_INPUT);
  });

  // Only more than half of the text shows it: V8 copies a long joined text at each look.
  test.each(['"a" ', '"word one", ', '"k": "v", '])("[LM2] of one line of cells in quotes, %j: four times the text takes four times as long", (unit) => {
    expectLinear("extract_json", unit, (length) => fill(unit).slice(0, length), 0.6 * MAX_INPUT);
  });

  test.each([
    ["extract_json", "{{a: 1}}"],
    ["extract_json", "["],
    ["summarize", '{"a":1}\n'],
    ["classify", "a=1 "],
  ] as const)("%s of all of it, for a unit that takes it long: %j", (task, unit) => {
    let output: unknown;
    const time = cpuTimeOf(() => {
      output = runTask(task, fill(unit));
    });
    expect(utf8Length(JSON.stringify(output))).toBeLessThanOrEqual(MAX_OUTPUT);
    expect(time).toBeLessThan(10_000);
  });

  test("[LM2] long runs of blanks, which are slow for a pattern that is anchored at the end", () => {
    const blanks = " ".repeat(100_000);
    const time = cpuTimeOf(() => {
      for (const input of [`{"a":"${blanks}x`, `{"a":"x"${blanks}"b":1}`, `{"a":"q ,${blanks}"b":1}`, `a:${blanks}x`, `Ann:${blanks}x`, `?${blanks}x`]) {
        for (const task of TASKS) runTask(task, input);
      }
    });
    expect(time).toBeLessThan(4_000);
  });

  test("output that would be much larger than the input stays below 1 MiB: long headers over many rows, short numbers with long forms, escapes", () => {
    for (const input of [
      `${"h".repeat(64)},${"g".repeat(64)}\n${"1,2\n".repeat(60_000)}`,
      `|${"h".repeat(100_000)}|b|\n|-|-|\n${"|1|2|\n".repeat(20_000)}`,
      `[${"1e20,".repeat(52_000)}1]`,
      `{"a":[${"1e20,".repeat(52_000)}1]}`,
      `k,v\n${"\u0001,\u0002\n".repeat(60_000)}`,
      `k,v\n${"\u0001".repeat(250_000)},a\nb,c`,
    ]) {
      const output = runTask("extract_json", input);
      expect(utf8Length(JSON.stringify(output))).toBeLessThanOrEqual(MAX_OUTPUT);
      expect("count" in output && output.count).toBeGreaterThan(0);
    }
  });

  test("nesting deeper than 16 is cut off and not refused", () => {
    const deep = `{"keep":1,"deep":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
    const output = runTask("extract_json", deep);
    expect("extracted" in output && output.extracted[0]).toMatchObject({ keep: 1 });
    expect(depthOf(output)).toBe(16);
  });

  test("broken JSON of any length is read: a cut-off answer of 200 KiB keeps its records", () => {
    const output = runTask("extract_json", `[${"{name: 'Ada', age: 36,},\n".repeat(8_000)}{name: 'Bo`);
    expect("count" in output && output.count).toBe(8_001);
  });

  test("the lenient parser never gets deep nesting, so the output does not depend on the stack of the engine", () => {
    for (const [open, close] of [
      ["[", "]"],
      ["{a: ", "}"],
    ] as const) {
      const output = runTask("extract_json", `{keep: 1, deep: ${open.repeat(3000)}1${close.repeat(3000)}}`);
      expect("extracted" in output && output.extracted[0]).toMatchObject({ keep: 1 });
    }
    expect(runTask("extract_json", `{a: ${"f(".repeat(1500)}1${")".repeat(1500)}}`)).toEqual({ extracted: [], count: 0 });
  });
});
