/**
 * Scores the task engine on test/corpus and compares it with simple baselines; exits 1 below the floors.
 * `--write-golden` pins the present outputs; it refuses changed outputs under an unchanged engine name, because workers of
 * one name must agree, unless `--unreleased` says that no worker with this name is out yet.
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { isDeepStrictEqual } from "node:util";
import { jsonrepair } from "jsonrepair";
import { classify } from "../src/worker/tasks/classify.ts";
import { extractJsonTask } from "../src/worker/tasks/extract-json.ts";
import { entitiesOf } from "../src/worker/tasks/extract/entities.ts";
import { ENGINE } from "../src/worker/tasks/index.ts";
import { sentencesOf } from "../src/worker/tasks/sentences.ts";
import { summarize } from "../src/worker/tasks/summarize.ts";
import { compoundOf } from "../src/worker/tasks/vader.ts";
import { GOLDEN_FILE, currentOutputs, extractionCases, floors, golden, sentimentCases, summaryCases } from "../test/corpus/corpus.ts";
import type { ExtractionCase, Golden, Sentiment, Split } from "../test/corpus/corpus.ts";

type Row = { task: string; split: Split; measure: string; method: string; hits: number; of: number };

function classifyRows(): Row[] {
  const raw = (text: string): Sentiment => {
    const compound = compoundOf(text);
    return compound >= 0.05 ? "positive" : compound <= -0.05 ? "negative" : "neutral";
  };
  const methods = { ours: (text: string) => classify(text).sentiment, "raw VADER ±0.05": raw };
  return bySplit(sentimentCases()).flatMap(([split, cases]) =>
    Object.entries(methods).flatMap(([method, sentiment]) => {
      const answers = cases.map(({ label, text }) => ({ label, answer: sentiment(text) }));
      const flips = answers.filter(({ label, answer }) => label !== "neutral" && answer !== "neutral" && label !== answer).length;
      const row = { task: "classify", split, method, of: cases.length };
      return [
        { ...row, measure: "right", hits: answers.filter(({ label, answer }) => label === answer).length },
        { ...row, measure: "not flipped", hits: cases.length - flips },
      ];
    }),
  );
}

function summaryRows(): Row[] {
  const methods = {
    ours: (text: string) => summarize(text).summary,
    "first k": (text: string, k: number) => sentencesOf(text).slice(0, k).join(" "),
    "longest k": (text: string, k: number) =>
      sentencesOf(text)
        .sort((a, b) => b.length - a.length)
        .slice(0, k)
        .join(" "),
  };
  return bySplit(summaryCases()).flatMap(([split, cases]) =>
    Object.entries(methods).flatMap(([method, summary]) => {
      let hits = 0;
      let chosen = 0;
      for (const { text, keys } of cases) {
        // Every method may choose as many sentences as ours did.
        const k = sentencesOf(summarize(text).summary).length;
        const answer = summary(text, k);
        hits += keys.filter((key) => answer.includes(key)).length;
        chosen += k;
      }
      return [{ task: "summarize", split, measure: "chosen are key", method, hits, of: chosen }];
    }),
  );
}

function extractionRows(): Row[] {
  const repaired = (input: string): Record<string, unknown>[] => {
    try {
      const value: unknown = JSON.parse(jsonrepair(input));
      return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === "object" && item !== null);
    } catch {
      return [];
    }
  };
  const methods = { ours: (input: string) => extractJsonTask(input).extracted, "jsonrepair on all": repaired, "entities only": entitiesOf };
  return bySplit(extractionCases()).flatMap(([split, cases]) =>
    Object.entries(methods).flatMap(([method, extract]) => {
      const row = { task: "extract_json", split, method };
      const found = cases.map((item) => ({ item, list: extract(item.input) as Record<string, unknown>[] }));
      const matched = found.map(({ item, list }) => matches(item, list));
      return [
        { ...row, measure: "objects found", hits: matched.reduce((sum, n) => sum + n, 0), of: cases.reduce((sum, { expect }) => sum + expect.length, 0) },
        {
          ...row,
          measure: "cases exact",
          hits: found.filter(({ item, list }, i) => matched[i] === item.expect.length && list.length === item.count).length,
          of: cases.length,
        },
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
    // The first time there is none.
  }
  if (before?.engine === ENGINE && !isDeepStrictEqual(before.outputs, next.outputs) && !process.argv.includes("--unreleased")) {
    console.error(`Outputs changed, so ENGINE ("${ENGINE}") must change too. If no worker with this name is out yet: --unreleased`);
    return 1;
  }
  const lines = Object.entries(next.outputs).map(([name, output]) => `    ${JSON.stringify(name)}: ${JSON.stringify(output)}`);
  writeFileSync(GOLDEN_FILE, `{\n  "engine": ${JSON.stringify(ENGINE)},\n  "outputs": {\n${lines.join(",\n")}\n  }\n}\n`);
  console.log(`${lines.length} outputs of ${ENGINE} pinned.`);
  return 0;
}

function score(): number {
  const minimum = floors();
  let failed = 0;
  console.log(`${"task".padEnd(13)}${"split".padEnd(10)}${"measure".padEnd(16)}${"method".padEnd(19)}${"score".padStart(9)}   share  floor`);
  for (const { task, split, measure, method, hits, of } of [...classifyRows(), ...summaryRows(), ...extractionRows()]) {
    const floor = method === "ours" ? minimum[`${task} ${split} ${measure}`] : undefined;
    const isBelow = method === "ours" && (floor === undefined || hits / of < floor);
    if (isBelow) failed++;
    const verdict = method === "ours" ? `${(floor ?? NaN).toFixed(2)}${isBelow ? "  BELOW" : ""}` : "";
    console.log(
      `${task.padEnd(13)}${split.padEnd(10)}${measure.padEnd(16)}${method.padEnd(19)}${`${hits}/${of}`.padStart(9)}   ${(hits / of).toFixed(3)}  ${verdict}`,
    );
  }
  return failed === 0 ? 0 : 1;
}

process.exitCode = process.argv.includes("--write-golden") ? writeGolden() : score();
