import { readFileSync } from "node:fs";
import { runTask } from "../../src/worker/tasks/index.ts";
import type { TaskOutput } from "../../src/worker/tasks/index.ts";

/** `dev` was tuned on; `held-out` was written before any rule; `blind` was written after the rules were frozen. Only `dev` may be looked at. */
export type Split = "dev" | "held-out" | "blind";
export type Sentiment = "positive" | "negative" | "neutral";
export type SentimentCase = { split: Split; label: Sentiment; tag: string; text: string };
/** `keys`: the sentences a reader marked as the ones to keep. */
export type SummaryCase = { split: Split; id: string; text: string; keys: string[] };
/** `expect`: objects whose members must all occur, equal, in one extracted object each; `count`: how many are extracted. */
export type ExtractionCase = { split: Split; id: string; input: string; expect: Record<string, unknown>[]; count: number };

function read(name: string): string {
  return readFileSync(new URL(name, import.meta.url), "utf8");
}

/** Labelled sentences. */
export function sentimentCases(): SentimentCase[] {
  return (["dev", "held-out", "blind"] as const).flatMap((split) =>
    read(`sentiment.${split}.jsonl`)
      .trim()
      .split("\n")
      .map((line) => ({ split, ...(JSON.parse(line) as Omit<SentimentCase, "split">) })),
  );
}

/** Texts with marked key sentences. */
export function summaryCases(): SummaryCase[] {
  return JSON.parse(read("summaries.json")) as SummaryCase[];
}

/** Texts with the objects that are in them. */
export function extractionCases(): ExtractionCase[] {
  return JSON.parse(read("extraction.json")) as ExtractionCase[];
}

/** Least share of hits by "task split measure"; `scripts/score-tasks.ts` exits 1 below one. */
export function floors(): Record<string, number> {
  return JSON.parse(read("floors.json")) as Record<string, number>;
}

/** Committed outputs of the whole corpus and the engine that made them. */
export type Golden = { engine: string; outputs: Record<string, TaskOutput> };

export const GOLDEN_FILE = new URL("golden.json", import.meta.url);

/** The committed outputs. */
export function golden(): Golden {
  return JSON.parse(read("golden.json")) as Golden;
}

/** What the engine answers now for every text of the corpus; texts of one task also run as input of the others. */
export function currentOutputs(): Record<string, TaskOutput> {
  const outputs: Record<string, TaskOutput> = {};
  for (const [i, { split, text }] of sentimentCases().entries()) outputs[`classify ${split} ${i}`] = runTask("classify", text);
  for (const { id, text } of summaryCases()) {
    outputs[`summarize ${id}`] = runTask("summarize", text);
    outputs[`classify ${id}`] = runTask("classify", text);
    outputs[`extract_json ${id}`] = runTask("extract_json", text);
  }
  for (const { id, input } of extractionCases()) {
    outputs[`extract_json ${id}`] = runTask("extract_json", input);
    outputs[`summarize ${id}`] = runTask("summarize", input);
  }
  return outputs;
}
