/**
 * Compares docs/rules.md with the rule ids that code, tests and docs cite: each cited id stands there, and each id that stands there is in the
 * title of a test. Prints what is missing and ends with exit code 1, or prints the count.
 */
import { globSync, readFileSync } from "node:fs";

const RULES = "docs/rules.md";
const ID = String.raw`(?:WS|RC|JB|API|TR|ST|PY|LM)\d+`;
/** Generated or of another project: what stands there stands in its source too. */
const LEFT_OUT = /node_modules|docs\/openapi\.json$|openapi\/generated\.ts$/;

/** Every id in a text; `WS2–WS5` stands for all four. */
function idsIn(text: string): string[] {
  return [...text.matchAll(new RegExp(String.raw`\b(${ID})(?:–([A-Z]*)(\d+))?\b`, "g"))].flatMap(([, first = "", , last]) => {
    const [, group = "", number = ""] = /^([A-Z]+)(\d+)$/.exec(first) ?? [];
    const end = last === undefined ? Number(number) : Number(last);
    return Array.from({ length: end - Number(number) + 1 }, (_, i) => `${group}${Number(number) + i}`);
  });
}

function filesOf(...patterns: string[]): string[] {
  return globSync(patterns).filter((file) => !LEFT_OUT.test(file) && file !== RULES);
}

const stated = [...readFileSync(RULES, "utf8").matchAll(new RegExp(String.raw`^- \*\*(${ID})\*\*`, "gm"))].map(([, id = ""]) => id);
const problems: string[] = [];
for (const [index, id] of stated.entries()) if (stated.indexOf(id) !== index) problems.push(`${RULES}: ${id} stands there twice`);

const sources = filesOf("src/**/*.ts", "test/**/*.ts", "scripts/*.ts", "docs/**/*.md", "*.md", "test/**/*.md");
for (const file of sources)
  for (const [line, text] of readFileSync(file, "utf8").split("\n").entries())
    for (const id of idsIn(text)) if (!stated.includes(id)) problems.push(`${file}:${line + 1}: ${id} does not stand in ${RULES}`);

const tested = new Set(
  filesOf("test/**/*.test.ts").flatMap((file) => [...readFileSync(file, "utf8").matchAll(/\[([^\]\n]*)\]/g)].flatMap(([, citation = ""]) => idsIn(citation))),
);
for (const id of stated) if (!tested.has(id)) problems.push(`${RULES}: no test cites [${id}]`);

for (const problem of problems) console.error(problem);
if (problems.length === 0) console.log(`${stated.length} rules: each is cited by a test, and each cited rule is stated`);
process.exitCode = problems.length === 0 ? 0 : 1;
