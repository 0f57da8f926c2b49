// Measures whether jsonrepair finds true data where `extract_json` finds no JSON. It prints two tables for docs/decisions/0010: one of damaged JSON, where the
// truth is known, and one of groups in braces from this repository's code and pages, where there is no data to find. Each run prints the same figures.
import { globSync, readFileSync } from "node:fs";
import { jsonrepair } from "jsonrepair";
import { extractJson } from "../src/tasks/extract/json-islands.ts";
import { Records } from "../src/tasks/extract/record.ts";
import { extractionCases } from "../test/corpus/corpus.ts";
import { Random } from "../test/simulation/random.ts";

const ROUNDS = 100;
// What a slip of a keyboard or of a model puts into JSON.
const SLIPS = [..."\"'{}[]:,\\ \nabcxyz0123456789-.()/#`<>=;&é"];
/** What a group must begin with for jsonrepair to be asked. */
const HEADS = {
  "a name and a colon, or a list": /^(?:\{\s*["'“‘]?[\p{L}_$][^"'”’\n]{0,100}["'”’]?\s*[:=]|\[\s*["'{[“\d-])/u,
  "a name in double quotes": /^(?:\[\s*)?\{\s*"[^"\n]{1,100}"/,
};

function found(text: string): unknown[] {
  const records = new Records();
  extractJson(text, records);
  return records.list;
}

/** The objects that jsonrepair makes of a text. */
function repaired(text: string, head: RegExp): unknown[] {
  if (!head.test(text)) return [];
  try {
    const value: unknown = JSON.parse(jsonrepair(text));
    return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === "object" && item !== null && !Array.isArray(item));
  } catch {
    return [];
  }
}

/** Every name with a text, number, boolean or null in `value`, and how often it is there. */
function members(value: unknown, counts = new Map<string, number>()): Map<string, number> {
  if (typeof value !== "object" || value === null) return counts;
  for (const [name, inner] of Object.entries(value)) {
    const member = JSON.stringify([Array.isArray(value) ? null : name, inner]);
    if (typeof inner === "object" && inner !== null) members(inner, counts);
    else counts.set(member, (counts.get(member) ?? 0) + 1);
  }
  return counts;
}

function judged(answer: unknown, truth: ReadonlyMap<string, number>): { right: number; wrong: number } {
  let [right, wrong] = [0, 0];
  for (const [member, times] of members(answer)) {
    right += Math.min(times, truth.get(member) ?? 0);
    wrong += Math.max(0, times - (truth.get(member) ?? 0));
  }
  return { right, wrong };
}

function damaged(text: string, slips: number, random: Random): string {
  let left = text;
  for (let i = 0; i < slips; i++) {
    const at = random.between(0, left.length - 1);
    // Left out, put in, or replaced.
    const kind = random.between(0, 2);
    left = left.slice(0, at) + (kind === 0 ? "" : random.pick(SLIPS)) + left.slice(kind === 1 ? at : at + 1);
  }
  return left;
}

const documents = extractionCases()
  .map(({ input }) => found(input))
  .filter((list) => list.length > 0)
  .map((list) => (list.length === 1 ? list[0] : list));

console.log(`JSON of the corpus with slips: ${documents.length} documents, ${ROUNDS} times each\n`);
console.log("slips  ours finds     right   wrong   nothing in | jsonrepair finds some in   right   wrong");
for (const slips of [1, 2, 3, 5]) {
  const random = new Random(slips);
  const sum = { truth: 0, right: 0, wrong: 0, nothing: 0, answered: 0, moreRight: 0, moreWrong: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    for (const document of documents) {
      const text = damaged(JSON.stringify(document, null, 2 * random.between(0, 1)), slips, random);
      const truth = members(document);
      const list = found(text);
      const ours = judged(list, truth);
      for (const times of truth.values()) sum.truth += times;
      sum.right += ours.right;
      sum.wrong += ours.wrong;
      if (list.length > 0) continue;
      sum.nothing++;
      const second = repaired(text.slice(Math.max(0, text.search(/[[{]/))), HEADS["a name in double quotes"]);
      if (second.length === 0) continue;
      const theirs = judged(second, truth);
      sum.answered++;
      sum.moreRight += theirs.right;
      sum.moreWrong += theirs.wrong;
    }
  }
  const cells = [sum.right, sum.wrong, sum.nothing].map((count) => String(count).padStart(8));
  const more = [sum.answered, sum.moreRight, sum.moreWrong].map((count, i) => String(count).padStart(i === 0 ? 26 : 8));
  console.log(`${String(slips).padStart(5)}  of ${String(sum.truth).padStart(6)} ${cells.join("")}       |${more.join("")}`);
}

const files = globSync(["src/**/*.{ts,css,html}", "test/*/**/*.ts", "scripts/*.ts", "docs/**/*.md", "*.md"], { exclude: ["**/node_modules/**"] });
const groups = files
  .flatMap((file) => [...readFileSync(file, "utf8").matchAll(/\{[^{}]{4,2000}\}/g)].map(([group]) => group))
  .filter((group) => found(group).length === 0);
console.log(`\n${groups.length} groups in braces in ${files.length} files of code and pages that are no data to us; jsonrepair makes objects of`);
for (const [name, head] of Object.entries(HEADS)) {
  const answered = groups.filter((group) => repaired(group, head).length > 0);
  console.log(`${String(answered.length).padStart(7)} where it is asked about groups that begin with ${name}`);
  for (const group of answered.slice(0, 2))
    console.log(`        ${group.replace(/\s+/g, " ").slice(0, 80)}  →  ${JSON.stringify(repaired(group, head)[0]).slice(0, 80)}`);
}
