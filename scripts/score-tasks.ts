// Scores the task engine on test/corpus together with named libraries in one run. Exits 1 if a score is below its floor, or if a library is as good on texts of
// the `blind` split. `--write-golden` stores the current outputs. It refuses changed outputs under an unchanged engine name, because workers with one name must
// agree; `--unreleased` allows it if no worker with this name is released yet.
import { writeFileSync } from "node:fs";
import process from "node:process";
import { isDeepStrictEqual } from "node:util";
import { classify } from "../src/tasks/classify.ts";
import { extractJsonTask } from "../src/tasks/extract-json.ts";
import { ENGINE } from "../src/tasks/index.ts";
import { sentencesOf } from "../src/tasks/segmentation.ts";
import { summarize } from "../src/tasks/summarize.ts";
import { GOLDEN_FILE, currentOutputs, extractionCases, floors, golden, sentimentCases, summaryCases } from "../test/corpus/corpus.ts";
import type { ExtractionCase, Golden, Split, SummaryCase } from "../test/corpus/corpus.ts";
import { CLASSIFIERS, EXTRACTORS, SUMMARIZERS } from "../test/corpus/rivals.ts";
import { rouge } from "../test/corpus/rouge.ts";

/** `share` of `of` cases, objects, facts or texts. `isRival` marks a library that our engine must beat; baselines and side measures are not rivals. */
type Row = { task: string; split: Split; measure: string; method: string; share: number; of: number; isRival: boolean };

const OURS = "ours";
const BASELINES: ReadonlySet<string> = new Set(["first sentences", "longest sentences"]);

function classifyRows(): Row[] {
  const methods = { [OURS]: (text: string) => classify(text).sentiment, ...CLASSIFIERS };
  return bySplit(sentimentCases()).flatMap(([split, cases]) =>
    Object.entries(methods).flatMap(([method, sentiment]) => {
      const answers = cases.map(({ label, text }) => ({ label, answer: sentiment(text) }));
      const right = answers.filter(({ label, answer }) => label === answer).length;
      const flips = answers.filter(({ label, answer }) => label !== "neutral" && answer !== "neutral" && label !== answer).length;
      const row = { task: "classify", split, method, of: cases.length };
      return [
        { ...row, measure: "right", share: right / cases.length, isRival: method !== OURS },
        { ...row, measure: "not flipped", share: 1 - flips / cases.length, isRival: false },
      ];
    }),
  );
}

function summaryRows(): Row[] {
  return bySplit(summaryCases()).flatMap(([split, cases]) => {
    const ours = cases.map(({ text }) => summarize(text).summary);
    // Every method may choose as many sentences as ours did.
    const counts = ours.map((summary) => Math.max(1, sentencesOf(summary).length));
    const methods: [string, string[]][] = [
      [OURS, ours],
      ...Object.entries(SUMMARIZERS).map(([method, summary]): [string, string[]] => [method, cases.map(({ text }, i) => summary(text, counts[i] ?? 1))]),
    ];
    return methods.flatMap(([method, summaries]) => summaryRowsOf(split, method, cases, summaries));
  });
}

function summaryRowsOf(split: Split, method: string, cases: readonly SummaryCase[], summaries: readonly string[]): Row[] {
  const scores = cases.map(({ reference }, i) => rouge(summaries[i] ?? "", reference));
  const mean = (of: (score: (typeof scores)[number]) => number) => scores.reduce((sum, score) => sum + of(score), 0) / scores.length;
  const facts = cases.flatMap((item, i) => item.facts.map((fact) => (summaries[i] ?? "").replace(/\s+/g, " ").includes(fact)));
  const row = { task: "summarize", split, method, of: cases.length, isRival: method !== OURS && !BASELINES.has(method) };
  return [
    { ...row, measure: "ROUGE-1", share: mean(({ one }) => one) },
    { ...row, measure: "ROUGE-2", share: mean(({ two }) => two) },
    { ...row, measure: "ROUGE-L", share: mean(({ l }) => l) },
    ...(facts.length === 0 ? [] : [{ ...row, measure: "facts kept", share: facts.filter(Boolean).length / facts.length, of: facts.length }]),
  ];
}

function extractionRows(): Row[] {
  const methods = { [OURS]: (input: string) => extractJsonTask(input).extracted, ...EXTRACTORS };
  return bySplit(extractionCases()).flatMap(([split, cases]) =>
    Object.entries(methods).flatMap(([method, extract]) => {
      const found = cases.map((item) => ({ item, list: extract(item.input) as Record<string, unknown>[] }));
      const isExact = ({ item, list }: (typeof found)[number]) => matches(item, list) === item.expect.length && list.length === item.count;
      const wanted = cases.reduce((sum, { expect }) => sum + expect.length, 0);
      const matched = found.reduce((sum, { item, list }) => sum + matches(item, list), 0);
      // Tables, labels and entities are not what the libraries are for.
      const json = found.filter(({ item }) => item.count > 0 && /[[{]/.test(item.input));
      const row = { task: "extract_json", split, method, isRival: method !== OURS };
      return [
        { ...row, measure: "objects found", share: matched / wanted, of: wanted },
        { ...row, measure: "cases exact", share: found.filter(isExact).length / found.length, of: found.length },
        { ...row, measure: "JSON exact", share: json.filter(isExact).length / json.length, of: json.length },
      ];
    }),
  );
}

function matches({ expect }: ExtractionCase, list: readonly Record<string, unknown>[]): number {
  return expect.filter((wanted) => list.some((record) => Object.entries(wanted).every(([name, value]) => isDeepStrictEqual(record[name], value)))).length;
}

function bySplit<Case extends { split: Split }>(cases: readonly Case[]): [Split, Case[]][] {
  return (["dev", "held-out", "blind"] as const)
    .map((split): [Split, Case[]] => [split, cases.filter((item) => item.split === split)])
    .filter(([, list]) => list.length > 0);
}

function writeGolden(): number {
  const next: Golden = { engine: ENGINE, outputs: currentOutputs() };
  let before: Golden | undefined;
  try {
    before = golden();
  } catch {
    // On the first run there is no file.
  }
  if (before?.engine === ENGINE && !isDeepStrictEqual(before.outputs, next.outputs) && !process.argv.includes("--unreleased")) {
    console.error(`Outputs changed, so ENGINE ("${ENGINE}") must change too. If no worker with this name is released yet: --unreleased`);
    return 1;
  }
  const lines = Object.entries(next.outputs).map(([name, output]) => `    ${JSON.stringify(name)}: ${JSON.stringify(output)}`);
  writeFileSync(GOLDEN_FILE, `{\n  "engine": ${JSON.stringify(ENGINE)},\n  "outputs": {\n${lines.join(",\n")}\n  }\n}\n`);
  console.log(`${lines.length} outputs of ${ENGINE} pinned.`);
  return 0;
}

function score(): number {
  const minimum = floors();
  const rows = [...classifyRows(), ...summaryRows(), ...extractionRows()];
  let failed = 0;
  console.log(`${"task".padEnd(14)}${"split".padEnd(10)}${"measure".padEnd(15)}${"method".padEnd(19)}share   of  floor`);
  for (const row of rows) {
    const { task, split, measure, method, share, of } = row;
    const own = method === OURS;
    const floor = own ? minimum[`${task} ${split} ${measure}`] : undefined;
    const ours = rows.find((other) => other.method === OURS && other.task === task && other.split === split && other.measure === measure);
    const verdict =
      own && (floor === undefined || share < floor) ? "BELOW THE FLOOR" : row.isRival && split === "blind" && share >= (ours?.share ?? 0) ? "NOT BEATEN" : "";
    if (verdict !== "") failed++;
    const minimumText = own ? (floor ?? NaN).toFixed(2) : "";
    console.log(
      `${task.padEnd(14)}${split.padEnd(10)}${measure.padEnd(15)}${method.padEnd(19)}${share.toFixed(3)} ${String(of).padStart(4)}  ${minimumText} ${verdict}`.trimEnd(),
    );
  }
  return failed === 0 ? 0 : 1;
}

process.exitCode = process.argv.includes("--write-golden") ? writeGolden() : score();
