// Every error that the SDK throws, each with a stable code.
import type { Job, Receipt } from "../protocol/job.ts";
import type { PaymentRequirement } from "../protocol/rest.ts";

/** What an error knows beyond its message. */
export type ErrorDetails = {
  /** HTTP status of the answer, if there was one. */
  status?: number | undefined;
  /** `x-request-id` of the answer: quote it to the operator. */
  requestId?: string | null | undefined;
  /** The router's own `error` text or the SDK's finer code. */
  reason?: string | undefined;
  cause?: unknown;
};

/** Base of every error that the SDK makes. An aborted signal is the exception: it rejects with the signal's own reason. */
export class ComputeRouterError extends Error {
  override readonly name: string = "ComputeRouterError";
  /** Stable name of the kind of error, one per class. */
  readonly code: string = "error";
  readonly status: number | null;
  readonly requestId: string | null;
  /** What exactly was wrong, as `queue_full` or `already_claimed`; null when nothing finer is known. */
  readonly reason: string | null;
  /**
   * Set when the commit itself failed and yet may have been accepted, or a payment may have been sent. The same job run again by the same
   * `userId` with this `idempotencyKey` gets that job and is not charged twice.
   */
  idempotencyKey: string | null = null;
  /** What each fallback provider failed with, in order; empty when none was asked. */
  fallbackErrors: readonly unknown[] = [];

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.status = details.status ?? null;
    this.requestId = details.requestId ?? null;
    this.reason = details.reason ?? null;
  }
}

/** An option or a job field that cannot be used. Nothing was sent. */
export class InvalidOptionError extends ComputeRouterError {
  override readonly name = "InvalidOptionError";
  override readonly code = "invalid_option";
  /** The option or field, as `timeout` or `job.prompt`. */
  readonly option: string;

  constructor(option: string, problem: string) {
    super(`${option} ${problem}`);
    this.option = option;
  }
}

/** The router refused the request (400, 401, 405, 413 and other 4xx); `reason` says why. */
export class BadRequestError extends ComputeRouterError {
  override readonly name = "BadRequestError";
  override readonly code = "bad_request";
}

/** The router does not know this job or path (404). */
export class NotFoundError extends ComputeRouterError {
  override readonly name = "NotFoundError";
  override readonly code = "not_found";
}

/** One way to pay. SPEC.md's fields are always there (`asset` on the EVM instance only), the x402 fields with routers that send them. */
export type PaymentOption = { scheme: string; price: string; network: string; payTo: string } & Partial<
  Omit<PaymentRequirement, "scheme" | "price" | "network" | "payTo">
>;

/** The job has to be paid for (402), and there is no `payment` hook or its payment was refused. */
export class PaymentRequiredError extends ComputeRouterError {
  override readonly name = "PaymentRequiredError";
  override readonly code = "payment_required";
  /** The ways to pay that the router offers. */
  readonly accepts: readonly PaymentOption[];

  constructor(message: string, accepts: readonly PaymentOption[], details: ErrorDetails) {
    super(message, details);
    this.accepts = accepts;
  }
}

/** The job would cost more than `maxPrice`, or (`reason` is `token_not_allowed`) in a token that the payment hook may not spend. Nothing was signed or paid. */
export class PaymentLimitError extends ComputeRouterError {
  override readonly name = "PaymentLimitError";
  override readonly code = "payment_limit";
  /** What the router asks, as it wrote it: `$0.010`, or the amount in atomic units of the token. */
  readonly price: string;
  /** The limit, in US dollars. */
  readonly maxPrice: number;

  constructor(price: string, maxPrice: number, details: ErrorDetails = {}) {
    const problem = details.reason === "token_not_allowed" ? "which is not a token to pay in" : `which is not within maxPrice ($${maxPrice})`;
    super(`the router asks ${price}, ${problem}`, details);
    this.price = price;
    this.maxPrice = maxPrice;
  }
}

/** A pairing code was not claimed within its hour. `reason` is `expired`. */
export class PairingExpiredError extends ComputeRouterError {
  override readonly name = "PairingExpiredError";
  override readonly code = "pairing_expired";
}

/** The idempotency key was used for another job (409). */
export class ConflictError extends ComputeRouterError {
  override readonly name = "ConflictError";
  override readonly code = "conflict";
}

/** Too many requests (429), also after the retries. */
export class RateLimitedError extends ComputeRouterError {
  override readonly name = "RateLimitedError";
  override readonly code = "rate_limited";
  /** How long to wait, in milliseconds; null when the router does not say. */
  readonly retryAfter: number | null;

  constructor(message: string, retryAfter: number | null, details: ErrorDetails) {
    super(message, details);
    this.retryAfter = retryAfter;
  }
}

/** The router or something in front of it failed (5xx), also after the retries. */
export class UnavailableError extends ComputeRouterError {
  override readonly name = "UnavailableError";
  override readonly code = "unavailable";
  /** How long to wait, in milliseconds; null when the router does not say. */
  readonly retryAfter: number | null;

  constructor(message: string, retryAfter: number | null, details: ErrorDetails) {
    super(message, details);
    this.retryAfter = retryAfter;
  }
}

/** No answer, or half of one, also after the retries. `reason`: `connect` (certainly nothing was sent), `broken` or `timeout`. */
export class RouterConnectionError extends ComputeRouterError {
  override readonly name = "RouterConnectionError";
  override readonly code = "connection_failed";
}

/** The job was accepted and had not ended in time. It goes on: `waitFor(error.jobId)` takes it up again. `cause` is the last failed poll, if any. */
export class JobTimeoutError extends ComputeRouterError {
  override readonly name = "JobTimeoutError";
  override readonly code = "job_timeout";
  readonly jobId: string;
  /** The last status seen, null if no poll was answered. */
  readonly lastStatus: string | null;

  constructor(jobId: string, timeout: number, lastStatus: string | null, cause: unknown) {
    super(`job ${jobId} did not end within ${timeout} ms (last seen: ${lastStatus ?? "not yet"})`, { cause });
    this.jobId = jobId;
    this.lastStatus = lastStatus;
  }
}

/** The job ended without a result. `cause` and `reason` are its `result.error`, as `worker_lost` or `execution_timeout`. */
export class JobFailedError extends ComputeRouterError {
  override readonly name: string = "JobFailedError";
  override readonly code: string = "job_failed";
  /** The failed job; null if the router named none. */
  readonly jobId: string | null;
  override readonly cause: string;
  /** What the last worker said about it (`result.message`), null if nothing. Text of a stranger: escape it, and let nothing act on it. */
  workerMessage: string | null = null;

  constructor(jobId: string | null, cause: string, details: ErrorDetails = {}, meaning = "") {
    super(`${jobId === null ? "the job" : `job ${jobId}`} failed: ${cause}${meaning && ` (${meaning})`}`, { ...details, reason: cause });
    this.jobId = jobId;
    this.cause = cause;
  }
}

/** No worker could take the job within its claim window (`no_eligible_worker`). Nothing was charged. */
export class NoEligibleWorkerError extends JobFailedError {
  override readonly name = "NoEligibleWorkerError";
  override readonly code = "no_eligible_worker";

  constructor(jobId: string | null, details: ErrorDetails = {}) {
    super(jobId, "no_eligible_worker", details, "no worker that may do it was free in time");
  }
}

/** A PRIVATE job found no paired worker online (422, or a failed job). Nothing was charged. */
export class NoTrustedWorkerError extends JobFailedError {
  override readonly name = "NoTrustedWorkerError";
  override readonly code = "no_trusted_worker";

  constructor(jobId: string | null, details: ErrorDetails = {}) {
    super(jobId, "no_trusted_worker", details, "no worker that is paired with this user and may do it is connected");
  }
}

/** With `requireVerified`: the receipt is missing or does not hold. `reason` is that of `verification`. `get(jobId)` still has the result. */
export class ReceiptError extends ComputeRouterError {
  override readonly name = "ReceiptError";
  override readonly code = "receipt_invalid";
  readonly jobId: string;

  constructor(jobId: string, reason: string) {
    super(`the receipt of job ${jobId} does not hold: ${reason}`, { reason });
    this.jobId = jobId;
  }
}

/** An answer that is not what the protocol says: not JSON, other fields, too long, a redirect. */
export class ProtocolError extends ComputeRouterError {
  override readonly name: string = "ProtocolError";
  override readonly code: string = "protocol";
}

/** A job's output has another shape than its kind has. The job is done, and perhaps paid for: what came is here. */
export class UnexpectedOutputError extends ProtocolError {
  override readonly name = "UnexpectedOutputError";
  override readonly code = "unexpected_output";
  /** Null if a fallback provider gave the output. */
  readonly jobId: string | null;
  /** `result` of the job as REST returned it. */
  readonly result: Job["result"];
  readonly receipt: Receipt | null;

  constructor(expected: string, { jobId, result, receipt }: { jobId: string | null; result: Job["result"]; receipt: Receipt | null }) {
    const whose = jobId === null ? "the fallback's output" : `the output of job ${jobId}`;
    super(`${whose} is not ${expected}; what came is in \`result\``, { reason: "unexpected_output" });
    this.jobId = jobId;
    this.result = result;
    this.receipt = receipt;
  }
}

/**
 * A fallback provider failed. `run` rejects with one that names every provider and why it failed: `cause` is the router's own error, and
 * `fallbackErrors` has theirs.
 */
export class FallbackError extends ComputeRouterError {
  override readonly name = "FallbackError";
  override readonly code = "fallback_failed";
}
