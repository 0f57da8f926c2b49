// Checks a worker's result before dispatch decides about it: size, receipt, shape. On a job's way: complete → verify.
import { hash } from "node:crypto";
import * as z from "zod";
import { type JobType, type Receipt, ReceiptFields, type TaskType } from "../../protocol/job.ts";
import { isJsonObject, isWellFormedJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { isoTime, parseIsoTime, UNSEEN, utf8Length } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import type { CompletionRefusal, JobComplete } from "../../protocol/worker-messages.ts";
import { parseSignature, toBase64 } from "../../receipt/bytes.ts";
import { receiptText, sameHash } from "../../receipt/receipt.ts";
import type { Verdict } from "../dispatch/index.ts";
import { verifySync } from "./worker-keys.ts";

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
  /** The bytes of the result beyond what the job asks for, and the client that sent them, whose share of the storage they use [LM3]. */
  excess?: { client: string; bytes: number };
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

/**
 * The most bytes of a result that count for the seeker, who sent the job [LM3]: far more than a usual result has. `maxTokens` is that of the job; null if the
 * job has none.
 */
export function askedBytes({ jobType, payloadBytes }: { jobType: JobType; payloadBytes: number }, maxTokens: () => number | null): number {
  if (jobType === "TASK") return LIMITS.resultBytes + LIMITS.resultPerPayloadByte * payloadBytes;
  return LIMITS.resultBytes + LIMITS.resultPerToken * (maxTokens() ?? LIMITS.defaultMaxTokens);
}

/** A rejection with a message for the owner of the worker [WS10]. */
export type ExplainedRefusal = { status: "rejected"; error: CompletionRefusal; message: string };

/** The messages of rejections that do not name a fault of the result. */
const REASONS: Record<CompletionRefusal, string> = {
  not_assigned: "this key never held the job",
  unknown_job: "no job has this id",
  already_terminal: "the job has ended",
  invalid_receipt: "the receipt is not valid",
  output_too_large: `the output is too large: at most ${LIMITS.outputBytes} bytes as JSON text are allowed`,
};

/** Adds the message to a rejection: the check that failed, if there is one. */
export function explained({ error }: { status: "rejected"; error: CompletionRefusal }, fault: string | null): ExplainedRefusal {
  const isOfContent = error === "invalid_receipt" || error === "output_too_large";
  return { status: "rejected", error, message: (isOfContent ? fault : null) ?? REASONS[error] };
}

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

/** The error text, if the output is an object whose only member is a string `error`: some workers report a failure like this [JB5]. */
function errorOf(output: unknown): string | null {
  return isJsonObject(output) && Object.keys(output).length === 1 && typeof output.error === "string" ? output.error : null;
}

/** What decides the expected shape of an output: the job's type, and for a TASK its task type. Without a task type any object is accepted. */
export type ExpectedOutput = { jobType: JobType; taskType?: TaskType };

/**
 * Checks that an output has the documented fields with their types [RC6]; other members are allowed. The text of an LLM may be in `text` if there is no
 * `output`: the SDK reads it too.
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

const SentText = z.string().max(LIMITS.receiptTextChars);
const SentReceipt = ReceiptFields.extend({
  job_id: SentText,
  provider_pubkey: SentText,
  output_hash: SentText,
  completed_at: SentText,
  payment_ref: SentText.nullish().transform((ref) => ref ?? null),
  signature: z.string().nullish(),
});

/** The length of a signature in base64 with padding. A text of this length that decodes to a signature is in its only form, so it is kept as sent. */
const SIGNATURE_CHARS = 88;

/** The most characters of a message about a receipt. The expected text of a receipt fits. */
const FAULT_CHARS = 600;

/**
 * Reads and checks the receipt of a completion [RC1–RC3]. The rules are checked one after the other, so that the worker is told which one failed [WS10].
 * @param outputText The output as `JSON.stringify` writes it.
 * @param key The key that registered on the socket.
 * @returns The receipt as sent, with its signature in base64, or null if none can be read; and which check failed: its name, a colon, and what was
 *   expected, or null if none failed. The values that the worker sent are not repeated.
 */
function checkReceipt(frame: JobComplete, outputText: string, key: string, now: number): { receipt: Receipt | null; fault: string | null } {
  const unreadable = (fault: string) => ({ receipt: null, fault });
  if (!isJsonObject(frame.receipt)) return unreadable(`missing: receipt, an object with ${FIELDS.join(", ")}`);
  const sent = SentReceipt.safeParse(frame.receipt);
  if (!sent.success) {
    const fields = new Set(sent.error.issues.map((issue) => `receipt.${String(issue.path[0])}`));
    return unreadable(`missing: ${[...fields].join(", ")}: expected text of at most ${LIMITS.receiptTextChars} characters`);
  }
  const { signature: inside, ...fields } = sent.data;
  const text = frame.receipt_signature ?? inside ?? "";
  const signature = parseSignature(text);
  if (text === "") return unreadable("missing: receipt_signature, beside receipt");
  if (signature === null) return unreadable("signature: expected 64 bytes as base64");
  const receipt = { ...fields, signature: text.length === SIGNATURE_CHARS ? text : toBase64(signature) };
  return { receipt, fault: faultOf(receipt, signature, frame, outputText, key, now)?.slice(0, FAULT_CHARS) ?? null };
}

const FIELDS = ["job_id", "provider_pubkey", "output_hash", "completed_at", "payment_ref"] as const;

function faultOf(receipt: Receipt, signature: Uint8Array, frame: JobComplete, outputText: string, key: string, now: number): string | null {
  if (receipt.job_id !== frame.job_id) return `job_id: expected ${frame.job_id}`;
  if (receipt.provider_pubkey.toLowerCase() !== key) return `key: expected ${key}, which registered on this socket`;
  const completedAt = parseIsoTime(receipt.completed_at);
  if (completedAt === null || Math.abs(now - completedAt) > TIMING.receiptSkew) {
    return `time: expected completed_at as ISO 8601 within ${TIMING.receiptSkew / 60_000} min of ${isoTime(now)}`;
  }
  if (!isWellFormedJson(frame.output))
    return "hash: expected an output of well-formed Unicode; half of a surrogate pair is not a character: cut texts only between characters";
  const outputHash = `sha256:${hash("sha256", outputText)}`;
  if (!sameHash(receipt.output_hash, outputHash)) return `hash: expected ${outputHash} of the output as JSON.stringify writes it`;
  // The worker does not know the payment of its job, so it must not sign one.
  if (receipt.payment_ref !== null) return "signature: expected a receipt whose payment_ref is null";
  return verifySync(receiptText(receipt), signature, key) ? null : `signature: expected that of ${key} over the UTF-8 of ${receiptText(receipt)}`;
}
