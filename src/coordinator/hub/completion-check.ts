import { LIMITS } from "../../protocol/limits.ts";
import type { Receipt } from "../../protocol/job.ts";
import { isJsonObject, utf8Length } from "../../protocol/text.ts";
import type { JobComplete } from "../../protocol/worker-messages.ts";
import type { Verdict } from "../dispatch/index.ts";
import { type ExpectedOutput, shapeFault } from "./output-shape.ts";
import { checkReceipt } from "./receipt-check.ts";

/** A completion as the hub read it: what it is worth and what would be stored. */
export type CheckedCompletion = {
  verdict: Verdict;
  /** JSON text of the object that REST will return as `result` [JB7]. */
  result: string;
  /** The receipt as sent, its signature in base64; null where none is readable [RC4]. */
  receipt: (Receipt & { verified: boolean }) | null;
  /** What the worker said instead of a result, fit to be shown. */
  message?: string;
  /** Which check failed, and what was expected [WS10]; null where none did. */
  fault: string | null;
};

/**
 * Checks a completion by the rules for receipts, sizes and shapes [RC2, RC3, RC6, LM1, JB5]. `key` is the key that registered on the socket,
 * `job` what its output has to look like; null where any shape is taken.
 */
export function checkCompletion(frame: JobComplete, key: string, now: number, job: ExpectedOutput | null): CheckedCompletion {
  const text = JSON.stringify(frame.output);
  const result = typeof frame.output === "string" ? `{"output":${text}}` : text;
  const bytes = utf8Length(text);
  if (bytes > LIMITS.outputBytes) {
    const fault = `the output has ${bytes} bytes as JSON text, ${LIMITS.outputBytes} are taken`;
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

/** Characters without a picture that could rewrite the line they stand in: controls, and those that turn the direction of text. */
const UNSEEN = /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** What a worker said about a failure, as `result.message` shows it to the seeker: bounded, one line, and nothing that a terminal obeys [JB5]. */
export function workerMessage(text: string | null | undefined): { message?: string } {
  // Four times the bound, so that what is removed does not count.
  const line = (text ?? "")
    .slice(0, 4 * LIMITS.messageChars)
    .toWellFormed()
    .replaceAll(/[\s\u0085]+/gu, " ")
    .replaceAll(UNSEEN, "")
    .trim();
  return line === "" ? {} : { message: [...line].slice(0, LIMITS.messageChars).join("") };
}

/** An object whose only member is a string `error` is a worker's way to say that it could not [JB5]. */
function errorOf(output: unknown): string | null {
  return isJsonObject(output) && Object.keys(output).length === 1 && typeof output.error === "string" ? output.error : null;
}
