import type { Job } from "../protocol/job.ts";
import type { Receipt } from "../protocol/receipt.ts";
import { JobFailedError, NoEligibleWorkerError, NoTrustedWorkerError, ReceiptError } from "./errors.ts";
import { type JobOutput, outputOf } from "./output.ts";
import { type Verification, verifyJob } from "./verification.ts";

/** A result of the router. */
export type RouterResult<T = JobOutput> = {
  source: "router";
  /** The text of an LLM job, the object of a task. */
  output: T;
  /** `result` of the job as REST returned it: what the receipt is about. */
  result: Job["result"];
  receipt: Receipt | null;
  /** Whether the client itself checked the receipt against job and result, and it holds. */
  verified: boolean;
  /** Why not, if not. */
  verification: Verification;
  /** US dollars as `$0.010`: what was paid if a payment was made, otherwise the quote. Null from `waitFor`, which made no quote. */
  price: string | null;
  jobId: string;
  status: "completed";
};

/** A result of a fallback provider: nobody signed it, and the router has no job of it. */
export type FallbackResult<T = JobOutput> = {
  source: `fallback:${string}`;
  output: T;
  result: Job["result"];
  receipt: null;
  verified: false;
  verification: { ok: false; reason: "fallback" };
  price: null;
  jobId: null;
  status: "completed";
};

/** What `run` resolves to. */
export type RunResult<T = JobOutput> = RouterResult<T> | FallbackResult<T>;

/** The result of a job that has ended. Throws JobFailedError for a failed one, ReceiptError if `requireVerified` is not met. */
export function routerResult(job: Job, price: string | null, requireVerified: boolean): RouterResult {
  if (job.status === "failed") throw failureOf(job);
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
    jobId: job.id,
    status: "completed",
  };
}

/** A provider's output in the form of a result; a text is wrapped as the router does [JB7]. */
export function fallbackResult(name: string, output: string | Record<string, unknown>): FallbackResult {
  return {
    source: `fallback:${name}`,
    output,
    result: typeof output === "string" ? { output } : output,
    receipt: null,
    verified: false,
    verification: { ok: false, reason: "fallback" },
    price: null,
    jobId: null,
    status: "completed",
  };
}

/** The error that a failed job stands for [JB5]. */
function failureOf({ id, result }: Job): JobFailedError {
  const cause = typeof result?.error === "string" ? result.error : "unknown";
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
