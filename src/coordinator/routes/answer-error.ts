import { RETRY_AFTER } from "../../protocol/limits.ts";
import { SettingsError } from "../config.ts";
import { errorFacts, logError, logInvalidSetting } from "../log.ts";
import { StoreUnavailable } from "../store/d1.ts";
import type { AppContext } from "./app-env.ts";
import { HubUnavailable } from "./ask-hub.ts";
import { refuse, refuseWith } from "./refuse.ts";

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
