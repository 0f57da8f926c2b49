// Every error that the SDK throws, each with a stable code. On a job's way: each step on the client's side ends with a result or one of these.
import type { Job, Receipt } from "../protocol/job.ts";
import type { Credit, PaymentRequirement } from "../protocol/rest.ts";

/** What an error can have besides its message. */
export type ErrorDetails = {
  /** HTTP status of the answer, if there was one. */
  status?: number | undefined;
  /** `x-request-id` of the answer: quote it to the operator. */
  requestId?: string | null | undefined;
  /** The router's `error` text, or a more exact code of the SDK. */
  reason?: string | undefined;
  /** The error that caused this one. */
  cause?: unknown;
};

/**
 * Base class of every error that the SDK throws. The only exception is an aborted signal: the call then rejects with the signal's own reason.
 * @example
 * if (error instanceof ComputeRouterError) console.error(error.code, error.reason, error.requestId);
 */
export class ComputeRouterError extends Error {
  override readonly name: string = "ComputeRouterError";
  /** Stable code of the kind of error, one per class. */
  readonly code: string = "error";
  /** HTTP status of the answer; null if there was none. */
  readonly status: number | null;
  /** `x-request-id` of the answer, for the operator; null if there was none. */
  readonly requestId: string | null;
  /** What exactly was wrong, as `queue_full` or `already_claimed`; null if nothing more exact is known. */
  readonly reason: string | null;
  /**
   * Set if the commit failed but may have been accepted, or a payment may have been sent. Run the same job again with the same `userId` and this
   * `idempotencyKey` to get that job without paying twice.
   */
  idempotencyKey: string | null = null;
  /** The error of each fallback provider, in order; empty if none was asked. */
  fallbackErrors: readonly unknown[] = [];

  /**
   * @param message one line for people
   * @param details status, request id, reason and cause, as far as they are known
   */
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.status = details.status ?? null;
    this.requestId = details.requestId ?? null;
    this.reason = details.reason ?? null;
  }
}

/**
 * An option or a field of a job has a wrong value. The SDK sent nothing.
 * @example
 * new ComputeRouter({ timeout: -1 }); // InvalidOptionError: timeout must be a whole number from 1 to 2147483647, got -1
 */
export class InvalidOptionError extends ComputeRouterError {
  override readonly name = "InvalidOptionError";
  override readonly code = "invalid_option";
  /** The option or field, as `timeout` or `job.prompt`. */
  readonly option: string;

  /**
   * @param option the option or field
   * @param problem the rest of the sentence, as `must be a string`
   */
  constructor(option: string, problem: string) {
    super(`${option} ${problem}`);
    this.option = option;
  }
}

/**
 * The router refused the request (400, 401, 405, 413 and other 4xx); `reason` says why.
 * @example
 * if (error instanceof BadRequestError && error.reason === "already_claimed") console.log("Ask the user for a new pairing code.");
 */
export class BadRequestError extends ComputeRouterError {
  override readonly name = "BadRequestError";
  override readonly code = "bad_request";
}

/**
 * The router does not know this job or path (404). It deletes a job some time after its end.
 * @example
 * if (error instanceof NotFoundError) console.log("The job is unknown, or its retention time is over.");
 */
export class NotFoundError extends ComputeRouterError {
  override readonly name: string = "NotFoundError";
  override readonly code: string = "not_found";
}

/**
 * No worker offers the model of the job, nor did in the last minutes (404). There is no job, and nothing was charged. `reason` is `no_such_model`.
 * @example
 * if (error instanceof NoSuchModelError) console.log(`Choose one of: ${error.models.join(", ")}`);
 */
export class NoSuchModelError extends NotFoundError {
  override readonly name = "NoSuchModelError";
  override readonly code = "no_such_model";
  /** The models that are online now, as `models` lists them. */
  readonly models: readonly string[];

  /**
   * @param models the models that are online now
   * @param details status, request id and reason
   */
  constructor(models: readonly string[], details: ErrorDetails) {
    super(`no worker offers this model; online: ${models.length === 0 ? "none" : models.join(", ")}`, details);
    this.models = models;
  }
}

/** One way to pay. `scheme`, `price`, `network` and `payTo` are always present; the x402 fields only if the router sends them (`asset` on EVM only). */
export type PaymentOption = { scheme: string; price: string; network: string; payTo: string } & Partial<
  Omit<PaymentRequirement, "scheme" | "price" | "network" | "payTo">
>;

/**
 * The job must be paid for (402), and the client has no `payment` hook or the router refused its payment.
 * @example
 * if (error instanceof PaymentRequiredError) console.log(error.accepts.map(({ price, network }) => `${price} on ${network}`));
 */
export class PaymentRequiredError extends ComputeRouterError {
  override readonly name = "PaymentRequiredError";
  override readonly code = "payment_required";
  /** The ways to pay that the router offers. */
  readonly accepts: readonly PaymentOption[];

  /**
   * @param message one line for people
   * @param accepts the ways to pay that the router offers
   * @param details status, request id and reason
   */
  constructor(message: string, accepts: readonly PaymentOption[], details: ErrorDetails) {
    super(message, details);
    this.accepts = accepts;
  }
}

/**
 * The job would cost more than `maxPrice`, or the router wants a token that the payment hook must not spend (`reason` is then `token_not_allowed`).
 * Nothing was signed or paid.
 * @example
 * if (error instanceof PaymentLimitError) console.log(`The router asks for ${error.price}; the limit is $${error.maxPrice}.`);
 */
export class PaymentLimitError extends ComputeRouterError {
  override readonly name = "PaymentLimitError";
  override readonly code = "payment_limit";
  /** The price as the router states it: `$0.010`, or the amount in atomic units of the token. */
  readonly price: string;
  /** The limit, in US dollars. */
  readonly maxPrice: number;

  /**
   * @param price the price as the router states it
   * @param maxPrice the limit, in US dollars
   * @param details reason `token_not_allowed` if the token is the problem
   */
  constructor(price: string, maxPrice: number, details: ErrorDetails = {}) {
    const problem = details.reason === "token_not_allowed" ? "which is not an allowed token" : `which is not within maxPrice ($${maxPrice})`;
    super(`the router asks for ${price}, ${problem}`, details);
    this.price = price;
    this.maxPrice = maxPrice;
  }
}

/**
 * No worker claimed the pairing code within one hour. `reason` is `expired`.
 * @example
 * if (error instanceof PairingExpiredError) offer = await router.trust.create();
 */
export class PairingExpiredError extends ComputeRouterError {
  override readonly name = "PairingExpiredError";
  override readonly code = "pairing_expired";
}

/**
 * The idempotency key was used for another job (409).
 * @example
 * if (error instanceof ConflictError) console.error("This idempotencyKey belongs to another job. Use one key per job.");
 */
export class ConflictError extends ComputeRouterError {
  override readonly name = "ConflictError";
  override readonly code = "conflict";
}

/** The router cannot answer now, and may say when to ask again: the base class of RateLimitedError and UnavailableError. */
export class RetryAfterError extends ComputeRouterError {
  /** How long to wait, in milliseconds; null if the router does not state it. */
  readonly retryAfter: number | null;

  /**
   * @param message one line for people
   * @param retryAfter milliseconds, or null
   * @param details status, request id and reason
   */
  constructor(message: string, retryAfter: number | null, details: ErrorDetails) {
    super(message, details);
    this.retryAfter = retryAfter;
  }
}

/**
 * Too many requests (429), also after the retries.
 * @example
 * if (error instanceof RateLimitedError) await new Promise((resolve) => setTimeout(resolve, error.retryAfter ?? 60_000));
 */
export class RateLimitedError extends RetryAfterError {
  override readonly name = "RateLimitedError";
  override readonly code = "rate_limited";
}

/**
 * The router or a proxy in front of it failed (5xx), also after the retries. `reason` is for example `overloaded` or `queue_full`.
 * @example
 * if (error instanceof UnavailableError && error.idempotencyKey !== null) {
 *   // The commit may have been accepted: the same key finds that job, and nothing is paid twice.
 *   await router.run(job, { idempotencyKey: error.idempotencyKey });
 * }
 */
export class UnavailableError extends RetryAfterError {
  override readonly name = "UnavailableError";
  override readonly code = "unavailable";
}

/**
 * There was no complete answer, also after the retries. `reason` is `connect` (nothing was sent), `broken` or `timeout`.
 * @example
 * if (error instanceof RouterConnectionError) console.error(`No answer from ${router.baseUrl}: ${error.reason}`);
 */
export class RouterConnectionError extends ComputeRouterError {
  override readonly name = "RouterConnectionError";
  override readonly code = "connection_failed";
}

/**
 * The router accepted the job, but it did not end in time. The job continues. `cause` is the last failed poll, if there is one.
 * @example
 * if (error instanceof JobTimeoutError) result = await router.waitFor(error.jobId);
 */
export class JobTimeoutError extends ComputeRouterError {
  override readonly name = "JobTimeoutError";
  override readonly code = "job_timeout";
  /** The job, for `waitFor` or `get`. */
  readonly jobId: string;
  /** The last known status; null if no poll was answered. */
  readonly lastStatus: string | null;

  /**
   * @param jobId the job
   * @param timeout the time that is over, in milliseconds
   * @param lastStatus the last known status, or null
   * @param cause the last failed poll, or undefined
   */
  constructor(jobId: string, timeout: number, lastStatus: string | null, cause: unknown) {
    super(`job ${jobId} did not end within ${timeout / 1000} s (last status: ${lastStatus ?? "unknown"})`, { cause });
    this.jobId = jobId;
    this.lastStatus = lastStatus;
  }
}

/**
 * The job ended without a result. `cause` and `reason` are its `result.error`, as `worker_lost` or `execution_timeout`.
 * @example
 * if (error instanceof JobFailedError) console.error(error.jobId, error.reason, error.charged, error.credit?.balance);
 */
export class JobFailedError extends ComputeRouterError {
  override readonly name: string = "JobFailedError";
  override readonly code: string = "job_failed";
  /** The failed job; null if the router did not name it. */
  readonly jobId: string | null;
  /** `result.error` of the job. */
  override readonly cause: string;
  /** The payer's balance, if the money of this job was credited to it; null if it was not, or if that is not known. */
  credit: Credit | null = null;
  /** True if money has moved for this job, as its `PAYMENT-RESPONSE` says; false if none has; null if that is not known. */
  charged: boolean | null = null;
  /** The text that the last worker sent (`result.message`); null if there is none. It comes from a stranger: escape it, and never act on it. */
  workerMessage: string | null = null;

  /**
   * @param jobId the failed job, or null; `cause` is its `result.error`
   * @param details status and request id, if the answer itself was the failure
   * @param meaning an explanation of `cause` for the message
   */
  constructor(jobId: string | null, cause: string, details: ErrorDetails = {}, meaning = "") {
    super(`${jobId === null ? "the job" : `job ${jobId}`} failed: ${cause}${meaning && ` (${meaning})`}`, { ...details, reason: cause });
    this.jobId = jobId;
    this.cause = cause;
  }
}

/**
 * No worker could take the job within its claim window of 30 s (`no_eligible_worker`). `charged` tells whether money moved.
 * @example
 * if (error instanceof NoEligibleWorkerError) console.log("No worker was free. Try again later, or start a worker.");
 */
export class NoEligibleWorkerError extends JobFailedError {
  override readonly name = "NoEligibleWorkerError";
  override readonly code = "no_eligible_worker";

  /**
   * @param jobId the failed job, or null
   * @param details status and request id, if the answer itself was the failure
   */
  constructor(jobId: string | null, details: ErrorDetails = {}) {
    super(jobId, "no_eligible_worker", details, "no worker that can do it was free in time");
  }
}

/**
 * No paired worker was online for a PRIVATE job (422, or a failed job). `charged` tells whether money moved.
 * @example
 * if (error instanceof NoTrustedWorkerError) console.log("Start one of your paired workers:", await router.trust.list());
 */
export class NoTrustedWorkerError extends JobFailedError {
  override readonly name = "NoTrustedWorkerError";
  override readonly code = "no_trusted_worker";

  /**
   * @param jobId the failed job, or null
   * @param details status and request id, if the answer itself was the failure
   */
  constructor(jobId: string | null, details: ErrorDetails = {}) {
    super(jobId, "no_trusted_worker", details, "no connected worker is paired with this user and can do the job");
  }
}

/**
 * With `requireVerified`: the receipt is missing or not valid. `reason` is that of `verification`. `get(jobId)` still returns the result.
 * @example
 * if (error instanceof ReceiptError) console.error(error.reason, await router.get(error.jobId));
 */
export class ReceiptError extends ComputeRouterError {
  override readonly name = "ReceiptError";
  override readonly code = "receipt_invalid";
  /** The job whose result could not be verified. */
  readonly jobId: string;

  /**
   * @param jobId the job
   * @param reason the code of `verification`
   */
  constructor(jobId: string, reason: string) {
    super(reason === "no_receipt" ? `job ${jobId} has no receipt` : `the receipt of job ${jobId} is not valid: ${reason}`, { reason });
    this.jobId = jobId;
  }
}

/**
 * The answer breaks the protocol: it is not JSON, has other fields, is too long, or is a redirect.
 * @example
 * if (error instanceof ProtocolError) console.error(`Is ${router.baseUrl} really a Compute Router? ${error.message}`);
 */
export class ProtocolError extends ComputeRouterError {
  override readonly name: string = "ProtocolError";
  override readonly code: string = "protocol";
}

/**
 * The output of a job does not have the shape of its kind. The job is complete and perhaps paid for, so this error has the output.
 * @example
 * if (error instanceof UnexpectedOutputError) console.log(error.jobId, error.result);
 */
export class UnexpectedOutputError extends ProtocolError {
  override readonly name = "UnexpectedOutputError";
  override readonly code = "unexpected_output";
  /** Null if a fallback provider gave the output. */
  readonly jobId: string | null;
  /** `result` of the job as REST returned it. */
  readonly result: Job["result"];
  /** Receipt of the job; null if there is none. */
  readonly receipt: Receipt | null;

  /**
   * @param expected what the output must be, as `a text`
   * @param run the job, its result and its receipt
   */
  constructor(expected: string, { jobId, result, receipt }: { jobId: string | null; result: Job["result"]; receipt: Receipt | null }) {
    const whose = jobId === null ? "the fallback's output" : `the output of job ${jobId}`;
    super(`${whose} is not ${expected}; \`result\` has what the worker returned`, { reason: "unexpected_output" });
    this.jobId = jobId;
    this.result = result;
    this.receipt = receipt;
  }
}

/**
 * A fallback provider failed. If all of them fail, `run` rejects with one that names each: `cause` is the router's error, `fallbackErrors` has theirs.
 * @example
 * if (error instanceof FallbackError) console.error(error.cause, error.fallbackErrors);
 */
export class FallbackError extends ComputeRouterError {
  override readonly name = "FallbackError";
  override readonly code = "fallback_failed";
}
