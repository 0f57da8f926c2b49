// The tasks of TASK jobs: a worker's task thread calls runTask. No model, no network, no clock.
import { type Classification, classify } from "./classify.ts";
import { type Extraction, extractJsonTask, restoredExtraction } from "./extract-json.ts";
import { summarize, type Summary } from "./summarize.ts";
import { replaceNewCharacters } from "./unicode.ts";

/** The task types of a TASK job. Source: the specification, "Task output shapes". Not from the protocol, because this folder knows nothing of the wire. */
export type TaskType = "summarize" | "classify" | "extract_json";

/** The output of a task, as plain JSON data. */
export type TaskOutput = Summary | Classification | Extraction;

/** The message to a thread that runs tasks. */
export type TaskCall = { taskType: TaskType; input: string };

/** The message from that thread. `name` is the name of the error, because error messages may quote the input. */
export type TaskAnswer = { ok: true; output: Record<string, unknown> } | { ok: false; name: string };

/** Runs a task in a thread: every result is a message, including an error. */
export function answerCall({ taskType, input }: TaskCall): TaskAnswer {
  try {
    return { ok: true, output: { ...runTask(taskType, input) } };
  } catch (error) {
    return { ok: false, name: error instanceof Error ? error.name : "unexpected error" };
  }
}

/** Runs a task on `input`. Pure and deterministic; takes a few seconds at most for 256 KiB of any text; never throws on text. */
export function runTask(taskType: TaskType, input: string): TaskOutput {
  // A lone surrogate has no UTF-8 form, so an output with one could not be signed. Well-formed input stays as it is.
  const { text, restore } = replaceNewCharacters(input.toWellFormed());
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

/** The name of this engine, announced in `register`. Two workers with the same name give equal outputs, so change it whenever an output may change. */
export const ENGINE = "tasks/2.6";
