import { type Classification, classify } from "./classify.ts";
import { type Extraction, extractJsonTask, restoredExtraction } from "./extract-json.ts";
import { summarize, type Summary } from "./summarize.ts";
import { frozen } from "./unicode.ts";

/** The tasks of a TASK job. Source: the specification, "Task output shapes". */
export type TaskType = "summarize" | "classify" | "extract_json";

/** What a task answers, as plain JSON data. */
export type TaskOutput = Summary | Classification | Extraction;

/** Runs a task over `input`: pure, deterministic, within a second or so for 256 KiB of any text. Never throws on text. */
export function runTask(taskType: TaskType, input: string): TaskOutput {
  // Half of a surrogate pair could not be signed; well-formed input is untouched.
  const { text, restore } = frozen(input.toWellFormed());
  switch (taskType) {
    case "summarize": {
      const { summary, word_count } = summarize(text);
      return { summary: restore(summary), word_count };
    }
    case "classify":
      return classify(text);
    case "extract_json":
      return restoredExtraction(extractJsonTask(text), restore);
    default:
      return taskType satisfies never;
  }
}

/** Name of this engine, announced in `register`. Two workers of one name give equal outputs: bump it whenever any output may change. */
export const ENGINE = "tasks/2.1";
