import type { Job } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/text.ts";
import { ProtocolError } from "./errors.ts";
import type { RunResult } from "./run-result.ts";

/** What a job gave: the text of an LLM, or the object of a task. Null only for a finished job whose result is past its retention. */
export type JobOutput = string | Record<string, unknown> | null;

/** Output of `summarize`. */
export type Summary = { summary: string; word_count: number };
/** Output of `classify`; `confidence` from 0 to 1. */
export type Classification = { sentiment: string; confidence: number };
/** Output of `extractJson`. */
export type Extraction = { extracted: unknown[]; count: number };

/** The output in a job's `result` [JB7]: the string `output` if there is one, otherwise the object itself. */
export function outputOf(result: Job["result"]): JobOutput {
  return typeof result?.output === "string" ? result.output : result;
}

/** The same result with its output known to be of one shape. Throws ProtocolError, reason `unexpected_output`. */
export function withOutput<T extends JobOutput>(run: RunResult, is: (output: unknown) => output is T): RunResult<T> {
  const { output } = run;
  if (is(output)) return { ...run, output };
  throw new ProtocolError(`job ${run.jobId ?? ""} gave an output of another shape than its kind has`, { reason: "unexpected_output" });
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
