// Results: from a job that has ended, with its receipt checked, or from a fallback provider. On a job's way: its end, on the client's side.
import type { Job, Receipt } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/json.ts";
import type { Credit } from "../protocol/rest.ts";
import { type ReceiptCheck, verifyReceipt } from "../receipt/receipt.ts";
import { oneLine } from "./connection.ts";
import { JobFailedError, NoEligibleWorkerError, NoTrustedWorkerError, ReceiptError, UnexpectedOutputError } from "./errors.ts";
import type { Settlement } from "./payment.ts";

/** A result from the router. */
export type RouterResult<T = JobOutput> = {
  source: "router";
  /** The text of an LLM job, or the object of a task. */
  output: T;
  /** `result` of the job as REST returned it. The receipt is for this value. */
  result: Job["result"];
  /** The receipt as REST returned it; null if there is none. */
  receipt: Receipt | null;
  /** True if the client has checked the receipt against job and result and it is valid. */
  verified: boolean;
  /** The result of that check, with the reason if the receipt is not valid. */
  verification: Verification;
  /** US dollars as `$0.010`: the amount that was paid, or the quote if there was no payment. Null from `waitFor`, which asks for no quote. */
  price: string | null;
  /** What is left on the router's books, if the job was paid from there and nothing new was charged; otherwise null. */
  credit: Credit | null;
  jobId: string;
  status: "completed";
};

/** A result from a fallback provider. It has no signature, and the router has no job for it. */
export type FallbackResult<T = JobOutput> = {
  source: `fallback:${string}`;
  output: T;
  result: Job["result"];
  receipt: null;
  verified: false;
  verification: { ok: false; reason: "fallback" };
  price: null;
  credit: null;
  jobId: null;
  status: "completed";
};

/** The result of `run`. */
export type RunResult<T = JobOutput> = RouterResult<T> | FallbackResult<T>;

/** The result of a job that has ended. Throws JobFailedError for a failed job, and ReceiptError if `requireVerified` is not met. */
export function routerResult(job: Job, price: string | null, settlement: Settlement | undefined, requireVerified: boolean): RouterResult {
  if (job.status === "failed") throw failureOf(job, settlement);
  const verification = verifyJob(job);
  if (requireVerified && !verification.ok) throw new ReceiptError(job.id, verification.reason);
  return {
    source: "router",
    output: outputOf(job.result),
    result: job.result,
    receipt: job.receipt,
    verified: verification.ok,
    verification,
    price,
    credit: settlement?.credit ?? null,
    jobId: job.id,
    status: "completed",
  };
}

/** A provider's output as a result. A text is wrapped, as the router does it [JB7]. */
export function fallbackResult(name: string, output: string | Record<string, unknown>): FallbackResult {
  return {
    source: `fallback:${name}`,
    output,
    result: typeof output === "string" ? { output } : output,
    receipt: null,
    verified: false,
    verification: { ok: false, reason: "fallback" },
    price: null,
    credit: null,
    jobId: null,
    status: "completed",
  };
}

/** The SDK's error for a failed job [JB5]. Whether it was charged is what its `PAYMENT-RESPONSE` says, whatever its cause is [PY9]. */
function failureOf(job: Job, settlement: Settlement | undefined): JobFailedError {
  return Object.assign(errorOf(job), moneyOf(job, settlement));
}

/** The causes with which a job may end before it is known whether its money has moved [PY8, JB13]. */
const UNSETTLED: readonly unknown[] = ["payment_failed", "cancelled"];

/**
 * What became of the money of a job that has ended. If the router says nothing of a settlement (null), none has moved for a failed job, except that it may not
 * be known yet. If the router could not be asked (undefined), nothing is known.
 */
export function moneyOf({ status, result }: Job, settlement: Settlement | undefined): { charged: boolean | null; credit: Credit | null } {
  const isUnpaid = settlement === null && status === "failed" && !UNSETTLED.includes(result?.["error"]);
  return { charged: settlement?.charged ?? (isUnpaid ? false : null), credit: settlement?.credit ?? null };
}

function errorOf({ id, result }: Job): JobFailedError {
  const cause = typeof result?.error === "string" ? oneLine(result.error, 100) : "unknown";
  switch (cause) {
    case "no_eligible_worker":
      return new NoEligibleWorkerError(id);
    case "no_trusted_worker":
      return new NoTrustedWorkerError(id);
    default: {
      const error = new JobFailedError(id, cause);
      if (typeof result?.message === "string") error.workerMessage = result.message;
      return error;
    }
  }
}

/** The output of a job: the text of an LLM, or the object of a task. Null only for a completed job whose result was deleted after its retention. */
export type JobOutput = string | Record<string, unknown> | null;

/** Output of `summarize`. */
export type Summary = { summary: string; word_count: number };
/** Output of `classify`; `confidence` from 0 to 1. */
export type Classification = { sentiment: string; confidence: number };
/** Output of `extractJson`. */
export type Extraction = { extracted: unknown[]; count: number };

/**
 * The output in a job's `result`: the string `output` if there is one, otherwise the object itself [JB7]. Some workers name an LLM's text `text`. That counts
 * if there is no `output` and the object is not that of a task, which may have any other members [RC6].
 */
function outputOf(result: Job["result"]): JobOutput {
  if (typeof result?.output === "string") return result.output;
  const isTask = isSummary(result) || isClassification(result) || isExtraction(result);
  return typeof result?.text === "string" && (result.output ?? null) === null && !isTask ? result.text : result;
}

/** Narrows the output of a result to one shape. Throws UnexpectedOutputError, which names the `expected` shape. */
export function withOutput<T extends JobOutput>(run: RunResult, is: (output: unknown) => output is T, expected: string): RunResult<T> {
  const { output } = run;
  if (is(output)) return { ...run, output };
  throw new UnexpectedOutputError(expected, run);
}

/** True for a text. */
export function isText(output: unknown): output is string {
  return typeof output === "string";
}

/** True for an output of `summarize`. */
export function isSummary(output: unknown): output is Summary {
  return isJsonObject(output) && typeof output.summary === "string" && typeof output.word_count === "number";
}

/** True for an output of `classify`. */
export function isClassification(output: unknown): output is Classification {
  return isJsonObject(output) && typeof output.sentiment === "string" && typeof output.confidence === "number";
}

/** True for an output of `extract_json`. */
export function isExtraction(output: unknown): output is Extraction {
  return isJsonObject(output) && Array.isArray(output.extracted) && typeof output.count === "number";
}

/**
 * The client's check of a result. `no_receipt`: the router sent none. `no_result`: the result was deleted after its retention. `job_mismatch`: the receipt
 * belongs to another job. `fallback`: the result is not from the router. The other reasons are those of `verifyReceipt`.
 */
export type Verification =
  | { ok: true }
  | { ok: false; reason: "no_receipt" | "no_result" | "job_mismatch" | "fallback" | Extract<ReceiptCheck, { ok: false }>["reason"] };

/** Checks that the receipt of a completed job belongs to this job and that its worker signed this result [RC1, RC2, RC4]. */
function verifyJob({ id, result, receipt }: Job): Verification {
  if (receipt === null) return { ok: false, reason: "no_receipt" };
  if (result === null) return { ok: false, reason: "no_result" };
  // A dishonest router could answer with the genuine receipt and result of another job.
  if (receipt.job_id !== id) return { ok: false, reason: "job_mismatch" };
  return verifyReceipt(receipt, result);
}
