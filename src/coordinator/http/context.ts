// What every route works with: its context, and the answers to what it refuses or cannot do [API1].
import type { Context } from "hono";
import { type ErrorBody, type Refusal, REFUSALS } from "../../protocol/rest.ts";
import { RETRY_AFTER } from "../../protocol/times.ts";
import { type Env, type Settings, SettingsError } from "../config.ts";
import { errorFacts, logError, logInvalidSetting } from "../log.ts";
import { StoreUnavailable } from "../store/database.ts";
import { PlainRequest, PlainResponse } from "./channel-http.ts";
import { HubUnavailable } from "./hub-client.ts";

/**
 * What every route finds in its context. `hasPaid`: true if the payment of a commit is verified, or is a credit; `endCheck` gives back the place of a payment
 * that was checked; `isReplaced`: true if the answer of a commit is not sent, because its client gets a 429 in its place [LM2]. Routes read all of it with
 * `c.get`: `c.var` is a new object at each use.
 */
export type AppEnv = { Bindings: Env; Variables: { requestId: string; settings: Settings; hasPaid?: boolean; endCheck?: () => void; isReplaced?: boolean } };

/** The context of a route. */
export type AppContext = Context<AppEnv>;

/** The statuses of error answers. */
type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 409 | 413 | 415 | 422 | 429 | 500 | 503;

/** Answers with a JSON text. A plain request gets a plain response: its routes answer with nothing else, and must not use `c.header`. */
export function answerText(c: AppContext, text: string, status: 200 | 201 | ErrorStatus = 200, headers: Record<string, string> = {}): Response {
  const all = { "Content-Type": "application/json", ...headers };
  const { raw }: { raw: Request | PlainRequest } = c.req;
  return raw instanceof PlainRequest ? PlainResponse.of(text, { status, headers: all }) : c.body(text, status, all);
}

/** The same with a value. */
export function answerJson(c: AppContext, value: object, status?: 200 | 201 | ErrorStatus, headers?: Record<string, string>): Response {
  return answerText(c, JSON.stringify(value), status, headers);
}

/** Answers an error: `{ error }`, and `request_id` too if the status is 500 or more [API1]. */
export function refuseWith(c: AppContext, status: ErrorStatus, error: string, headers?: Record<string, string>): Response {
  const body: ErrorBody = status >= 500 ? { error, request_id: c.get("requestId") } : { error };
  return answerJson(c, body, status, headers);
}

/** Answers an expected refusal with the status of its code. `retryAfter` is in seconds [API1]. */
export function refuse(c: AppContext, refusal: Refusal, retryAfter?: number): Response {
  const headers = retryAfter === undefined ? {} : { "Retry-After": String(Math.max(1, Math.ceil(retryAfter))) };
  return refuseWith(c, REFUSALS[refusal], refusal, headers);
}

/** Answers an exception. The log gets it with the request id; the client gets neither message nor stack [API1]. */
export function answerError(thrown: unknown, c: AppContext): Response {
  const request = { request_id: c.get("requestId"), method: c.req.method, route: c.req.routePath };
  const facts = { ...request, ...errorFacts(thrown) };
  if (thrown instanceof HubUnavailable || thrown instanceof StoreUnavailable) {
    logError("overloaded", facts);
    return refuse(c, "overloaded", RETRY_AFTER.overloaded);
  }
  if (thrown instanceof SettingsError) {
    // The message names the variable, never its value, so the operator sees at once what to correct.
    logInvalidSetting(thrown, request);
    return refuseWith(c, 500, thrown.message);
  }
  logError("internal_error", facts);
  return refuseWith(c, 500, "internal_error");
}

/** Answers all methods of a path other than `methods`: OPTIONS lists the allowed ones, every other method gets 405 [API1]. */
export function allowOnly(c: AppContext, methods: readonly string[]): Response {
  const headers = { Allow: [...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ") };
  return c.req.method === "OPTIONS" ? c.body(null, 204, headers) : refuseWith(c, REFUSALS.method_not_allowed, "method_not_allowed", headers);
}
