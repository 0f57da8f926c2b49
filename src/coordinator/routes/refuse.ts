import { type ErrorBody, REFUSALS, type Refusal } from "../../protocol/errors.ts";
import type { AppContext } from "./app-env.ts";

/** Statuses that carry an error body. */
export type ErrorStatus = 400 | 401 | 404 | 405 | 409 | 413 | 415 | 422 | 429 | 500 | 503;

/** An error answer: `{ error }`, with `request_id` from 500 up [API1]. */
export function refuseWith(c: AppContext, status: ErrorStatus, error: string): Response {
  const body: ErrorBody = status >= 500 ? { error, request_id: c.var.requestId } : { error };
  return c.json(body, status);
}

/** An expected refusal, at the status that its code stands for; `retryAfter` in seconds [API1]. */
export function refuse(c: AppContext, refusal: Refusal, retryAfter?: number): Response {
  if (retryAfter !== undefined) c.header("Retry-After", String(Math.max(1, Math.ceil(retryAfter))));
  return refuseWith(c, REFUSALS[refusal], refusal);
}
