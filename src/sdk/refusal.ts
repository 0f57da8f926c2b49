import { isJsonObject } from "../protocol/text.ts";
import type { RouterResponse } from "./connection.ts";
import { oneLine } from "./error-text.ts";
import {
  BadRequestError,
  type ComputeRouterError,
  ConflictError,
  type ErrorDetails,
  NotFoundError,
  NoTrustedWorkerError,
  PaymentRequiredError,
  ProtocolError,
  RateLimitedError,
  UnavailableError,
} from "./errors.ts";
import { readRetryAfter } from "./retry.ts";
import { isPaymentRequired, isUuid } from "./shapes.ts";

/** The error that an answer outside 2xx stands for [API1, SPEC "Errors"]. */
export function refusalOf(answer: RouterResponse): ComputeRouterError {
  const { status, body } = answer;
  const text = errorText(body);
  const details: ErrorDetails = { status, requestId: answer.requestId, reason: text };
  const message = `the router answered ${status}${text === undefined ? "" : `: ${text}`}`;
  if (status >= 500) return new UnavailableError(message, retryAfter(answer), details);
  switch (status) {
    case 402:
      return isPaymentRequired(body) ? new PaymentRequiredError(message, body.accepts, details) : new ProtocolError(`${message}, without ways to pay`, details);
    case 404:
      return new NotFoundError(message, details);
    case 409:
      return new ConflictError(message, details);
    case 422:
      if (text !== "no_trusted_worker") return new BadRequestError(message, details);
      return new NoTrustedWorkerError(isJsonObject(body) && isUuid(body.job_id) ? body.job_id : null, details);
    case 429:
      return new RateLimitedError(message, retryAfter(answer), details);
    default:
      return status >= 400 ? new BadRequestError(message, details) : new ProtocolError(message, details);
  }
}

function retryAfter(answer: RouterResponse): number | null {
  return readRetryAfter(answer.headers.get("retry-after"), Date.now());
}

/** The `error` of a body, short enough for a log line. */
function errorText(body: unknown): string | undefined {
  if (!isJsonObject(body) || typeof body.error !== "string") return undefined;
  return oneLine(body.error);
}
