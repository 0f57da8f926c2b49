import { type ErrorBody, type Refusal, REFUSALS } from "../../protocol/rest.ts";
import type { AppContext } from "./context.ts";
import { RETRY_AFTER } from "../../protocol/limits.ts";
import { SettingsError } from "../config.ts";
import { errorFacts, logError, logInvalidSetting } from "../log.ts";
import { StoreUnavailable } from "../store/database.ts";
import { HubUnavailable } from "./hub-client.ts";

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

/** The answer to an exception: logged by request id, told to the client without its message or stack [API1]. */
export function answerError(thrown: unknown, c: AppContext): Response {
  const request = { request_id: c.var.requestId, method: c.req.method, route: c.req.routePath };
  const facts = { ...request, ...errorFacts(thrown) };
  if (thrown instanceof HubUnavailable || thrown instanceof StoreUnavailable) {
    logError("overloaded", facts);
    return refuse(c, "overloaded", RETRY_AFTER.overloaded);
  }
  if (thrown instanceof SettingsError) {
    // Names the variable, never its value: the operator sees at once what to correct.
    logInvalidSetting(thrown, request);
    return refuseWith(c, 500, thrown.message);
  }
  logError("internal_error", facts);
  return refuseWith(c, 500, "internal_error");
}

/** Every other method of a path that has `methods`: OPTIONS lists them, the rest is 405 [API1]. */
export const allowOnly =
  (methods: readonly string[]) =>
  (c: AppContext): Response => {
    c.header("Allow", [...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"].join(", "));
    return c.req.method === "OPTIONS" ? c.body(null, 204) : refuse(c, "method_not_allowed");
  };
