import type { Job } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/text.ts";
import { UnexpectedOutputError } from "./errors.ts";
import type { RunResult } from "./run-result.ts";

/** What a job gave: the text of an LLM, or the object of a task. Null only for a finished job whose result is past its retention. */
export type JobOutput = string | Record<string, unknown> | null;

/** Output of `summarize`. */
export type Summary = { summary: string; word_count: number };
/** Output of `classify`; `confidence` from 0 to 1. */
export type Classification = { sentiment: string; confidence: number };
/** Output of `extractJson`. */
export type Extraction = { extracted: unknown[]; count: number };

/**
 * The output in a job's `result`: the string `output` if there is one, otherwise the object itself [JB7]. Some workers call an LLM's text `text`;
 * it is read where there is no `output` and the object is not that of a task, which may have any other members [RC6].
 */
export function outputOf(result: Job["result"]): JobOutput {
  if (typeof result?.output === "string") return result.output;
  const isTask = isSummary(result) || isClassification(result) || isExtraction(result);
  return typeof result?.text === "string" && (result.output ?? null) === null && !isTask ? result.text : result;
}

/** The same result with its output known to be of one shape, of which `expected` tells. Throws UnexpectedOutputError. */
export function withOutput<T extends JobOutput>(run: RunResult, is: (output: unknown) => output is T, expected: string): RunResult<T> {
  const { output } = run;
  if (is(output)) return { ...run, output };
  throw new UnexpectedOutputError(expected, run);
}

/** Whether an output is text. */
export function isText(output: unknown): output is string {
  return typeof output === "string";
}

/** Whether an output is that of `summarize`. */
export function isSummary(output: unknown): output is Summary {
  return isJsonObject(output) && typeof output.summary === "string" && typeof output.word_count === "number";
}

/** Whether an output is that of `classify`. */
export function isClassification(output: unknown): output is Classification {
  return isJsonObject(output) && typeof output.sentiment === "string" && typeof output.confidence === "number";
}

/** Whether an output is that of `extract_json`. */
export function isExtraction(output: unknown): output is Extraction {
  return isJsonObject(output) && Array.isArray(output.extracted) && typeof output.count === "number";
}
