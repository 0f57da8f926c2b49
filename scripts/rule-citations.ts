/**
 * Compares docs/rules.md with the rule ids that code, tests and docs cite: docs/rules.md must define each cited id, and a test title must cite each defined
 * id. Prints the problems and exits with 1, or prints the count.
 */
import { globSync, readFileSync } from "node:fs";

const RULES = "docs/rules.md";
const ID = String.raw`(?:WS|RC|JB|API|TR|ST|PY|LM)\d+`;
/** Generated files, and files of another project: their source is checked instead. */
const LEFT_OUT = /node_modules|docs\/openapi\.json$|openapi\/generated\.ts$/;

/** Every id in a text; `WS2–WS5` means all four. */
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
for (const [index, id] of stated.entries()) if (stated.indexOf(id) !== index) problems.push(`${RULES}: ${id} is defined twice`);

const sources = filesOf("src/**/*.ts", "test/**/*.ts", "scripts/*.ts", "docs/**/*.md", "*.md", "test/**/*.md");
for (const file of sources)
  for (const [line, text] of readFileSync(file, "utf8").split("\n").entries())
    for (const id of idsIn(text)) if (!stated.includes(id)) problems.push(`${file}:${line + 1}: ${id} is not defined in ${RULES}`);

const tested = new Set(
  filesOf("test/**/*.test.ts").flatMap((file) => [...readFileSync(file, "utf8").matchAll(/\[([^\]\n]*)\]/g)].flatMap(([, citation = ""]) => idsIn(citation))),
);
for (const id of stated) if (!tested.has(id)) problems.push(`${RULES}: no test cites [${id}]`);

for (const problem of problems) console.error(problem);
if (problems.length === 0) console.log(`${stated.length} rules: a test cites each of them, and each cited rule is defined`);
process.exitCode = problems.length === 0 ? 0 : 1;
