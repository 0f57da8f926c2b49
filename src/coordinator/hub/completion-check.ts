// Checks a worker's result before dispatch decides about it: size, receipt, shape. On a job's way: complete → verify.
import type { JobType, Receipt, TaskType } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { isJsonObject, utf8Length } from "../../protocol/text.ts";
import type { JobComplete } from "../../protocol/worker-messages.ts";
import type { Verdict } from "../dispatch/index.ts";
import { checkReceipt } from "./receipt-check.ts";

/** A completion that was read and checked: the verdict, and what is stored if it is accepted. */
export type CheckedCompletion = {
  verdict: Verdict;
  /** JSON text of the object that REST will return as `result` [JB7]. */
  result: string;
  /** The receipt as sent, its signature in base64; null if none can be read [RC4]. */
  receipt: (Receipt & { verified: boolean }) | null;
  /** What the worker said instead of a result, in a form that is safe to show. */
  message?: string;
  /** Which check failed, and what was expected [WS10]; null if none failed. */
  fault: string | null;
};

/**
 * Checks a completion by the rules for receipts, sizes and shapes [RC2, RC3, RC6, LM1, JB5]. `key` is the key that registered on the socket,
 * `job` says what shape of output is expected; null if every shape is allowed.
 */
export function checkCompletion(frame: JobComplete, key: string, now: number, job: ExpectedOutput | null): CheckedCompletion {
  const text = JSON.stringify(frame.output);
  const result = typeof frame.output === "string" ? `{"output":${text}}` : text;
  const bytes = utf8Length(text);
  if (bytes > LIMITS.outputBytes) {
    const fault = `the output has ${bytes} bytes as JSON text, at most ${LIMITS.outputBytes} are allowed`;
    return { verdict: "output_too_large", result, receipt: null, fault };
  }
  const { receipt, fault: receiptFault } = checkReceipt(frame, text, key, now);
  const verified = receiptFault === null;
  const fault = receiptFault ?? (job === null ? null : shapeFault(frame.output, job));
  const read = { result, receipt: receipt && { ...receipt, verified }, fault };
  const error = errorOf(frame.output);
  if (error !== null) return { verdict: "worker_error", ...read, ...workerMessage(error) };
  return { verdict: fault === null ? "valid" : "invalid_receipt", ...read };
}

/** Invisible characters that could change the line they are in: control characters, and those that change the direction of text. */
const UNSEEN = /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** What a worker said about a failure, for `result.message`: bounded, one line, and without control characters that a terminal would follow [JB5]. */
export function workerMessage(text: string | null | undefined): { message?: string } {
  // Four times the bound, so that removed characters do not count.
  const line = (text ?? "")
    .slice(0, 4 * LIMITS.messageChars)
    .toWellFormed()
    .replaceAll(/[\s\u0085]+/gu, " ")
    .replaceAll(UNSEEN, "")
    .trim();
  return line === "" ? {} : { message: [...line].slice(0, LIMITS.messageChars).join("") };
}

/** The error text, if the output is an object whose only member is a string `error`: so a worker says that it failed [JB5]. */
function errorOf(output: unknown): string | null {
  return isJsonObject(output) && Object.keys(output).length === 1 && typeof output.error === "string" ? output.error : null;
}

/** What decides the expected shape of an output: the job's type, and for a TASK its task type. Without a task type any object is accepted. */
export type ExpectedOutput = { jobType: JobType; taskType?: TaskType };

/**
 * Checks that an output has the documented fields with their types [RC6]; other members are allowed. The text of an LLM may be in `text` if there is no
 * `output`: the SDK reads it so.
 * @returns null, or `shape:` and what was expected
 */
function shapeFault(output: unknown, { jobType, taskType }: ExpectedOutput): string | null {
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
