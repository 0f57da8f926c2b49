import type { JobType, TaskType } from "../../protocol/job.ts";
import { isJsonObject } from "../../protocol/text.ts";

/** What decides the expected shape of an output: the job's type, and for a TASK its task type. Without a task type any object is accepted. */
export type ExpectedOutput = { jobType: JobType; taskType?: TaskType };

/**
 * Checks that an output has the documented fields with their types [RC6]; other members are allowed. The text of an LLM may be in `text` if there is no
 * `output`: the SDK reads it so.
 * @returns null, or `shape:` and what was expected
 */
export function shapeFault(output: unknown, { jobType, taskType }: ExpectedOutput): string | null {
  if (jobType === "LLM_INFER") return isLlmOutput(output) ? null : "shape: expected a string, or an object with a string output";
  if (taskType === undefined) return isJsonObject(output) ? null : "shape: expected an object";
  const { isShape, expected } = TASK_OUTPUTS[taskType];
  return isJsonObject(output) && isShape(output) ? null : `shape: expected ${expected}`;
}

function isLlmOutput(output: unknown): boolean {
  return typeof output === "string" || (isJsonObject(output) && typeof (output.output === undefined ? output.text : output.output) === "string");
}

const TASK_OUTPUTS: Record<TaskType, { isShape: (output: Record<string, unknown>) => boolean; expected: string }> = {
  classify: {
    isShape: ({ sentiment, confidence }) => typeof sentiment === "string" && typeof confidence === "number" && confidence >= 0 && confidence <= 1,
    expected: "an object with a string sentiment and a number confidence from 0 to 1",
  },
  summarize: {
    isShape: ({ summary, word_count }) => typeof summary === "string" && typeof word_count === "number",
    expected: "an object with a string summary and a number word_count",
  },
  extract_json: {
    isShape: ({ extracted, count }) => Array.isArray(extracted) && extracted.every(isJsonObject) && count === extracted.length,
    expected: "an object with extracted, an array of objects, and count, its length",
  },
};
