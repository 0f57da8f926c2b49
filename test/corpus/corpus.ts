import { readFileSync } from "node:fs";
import { runTask, type TaskOutput, type TaskType } from "../../src/tasks/index.ts";

/** `dev` was tuned on; `held-out` was written before the first rules and read since; of `blind` only totals were looked at. */
export type Split = "dev" | "held-out" | "blind";
export type Sentiment = "positive" | "negative" | "neutral";
export type SentimentCase = { split: Split; label: Sentiment; tag: string; text: string };
/** `reference`: the summary that a reader wrote, or the sentences that one marked; `facts`: words of the text that a summary should have. */
export type SummaryCase = { split: Split; id: string; text: string; reference: string; facts: string[] };
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

/** Texts with reference summaries. */
export function summaryCases(): SummaryCase[] {
  const marked = JSON.parse(read("summaries.json")) as { split: Split; id: string; text: string; keys: string[] }[];
  const written = ["summaries.dev.json", "summaries.blind.json"].flatMap((name) => JSON.parse(read(name)) as SummaryCase[]);
  return [...marked.map(({ split, id, text, keys }) => ({ split, id, text, reference: keys.join(" "), facts: [] })), ...written];
}

/** Texts with the objects that are in them. */
export function extractionCases(): ExtractionCase[] {
  return ["extraction.json", "extraction.dev.json", "extraction.blind.json"].flatMap((name) => JSON.parse(read(name)) as ExtractionCase[]);
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

/** Every text of the corpus with every task that it is run through, by the name that its output has; texts of one task also run as input of the others. */
export function corpusCalls(): { name: string; taskType: TaskType; input: string }[] {
  const call = (taskType: TaskType, id: string, input: string) => ({ name: `${taskType} ${id}`, taskType, input });
  return [
    ...sentimentCases().map(({ split, text }, i) => call("classify", `${split} ${i}`, text)),
    ...summaryCases().flatMap(({ id, text }) => (["summarize", "classify", "extract_json"] as const).map((taskType) => call(taskType, id, text))),
    ...extractionCases().flatMap(({ id, input }) => (["extract_json", "summarize"] as const).map((taskType) => call(taskType, id, input))),
  ];
}

/** What the engine answers now for all of {@link corpusCalls}. */
export function currentOutputs(): Record<string, TaskOutput> {
  return Object.fromEntries(corpusCalls().map(({ name, taskType, input }) => [name, runTask(taskType, input)]));
}
