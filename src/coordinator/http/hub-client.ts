import type { Env } from "../config.ts";
import type { Hub } from "../hub/rpc.ts";
import { TUNING } from "../tuning.ts";

/** The one hub of an instance. */
const HUB_NAME = "hub";

/** What workerd says where the object's class lacks the method: during a deploy a new router may talk to the hub of an older version. */
const UNKNOWN_METHOD = /^The RPC receiver does not implement the method /;

/** The hub is overloaded, of an older version than the question, or cannot be reached. */
export class HubUnavailable extends Error {
  override readonly name = "HubUnavailable";
}

/**
 * Asks the hub, a second time (`again`) where the first try was lost on the way: what it did is unknown then. Every question is safe to ask
 * twice: a commit carries the id that the router chose for its job, so the hub knows the second delivery of one for what it is.
 * A stub that has failed stays broken, so each try takes a fresh one.
 * @throws {HubUnavailable} when the hub is overloaded (which a retry would make worse), older than the question or lost twice; what the hub's own code throws passes through
 */
export async function askHub<T>(env: Env, ask: (hub: Hub, again: boolean) => Promise<T>): Promise<T> {
  try {
    return await ask(env.HUB.getByName(HUB_NAME), false);
  } catch (error) {
    if (faultOf(error) !== "lost") throw known(error);
  }
  await scheduler.wait(Math.random() * TUNING.hubRetryPause);
  try {
    return await ask(env.HUB.getByName(HUB_NAME), true);
  } catch (error) {
    throw known(error);
  }
}

/** What the platform's marks on the error of a call say. */
function faultOf(error: unknown): "overloaded" | "older" | "lost" | "thrown" {
  if (typeof error !== "object" || error === null) return "thrown";
  if (error instanceof TypeError && UNKNOWN_METHOD.test(error.message)) return "older";
  const is = (mark: string) => Reflect.get(error, mark) === true;
  if (is("overloaded")) return "overloaded";
  // An object that was reset (a deploy, an abort) is marked so, and `remote` perhaps too.
  if (is("retryable") || is("durableObjectReset")) return "lost";
  if (is("remote")) return "thrown";
  // An object whose disk fails ends without any mark, as a plain "internal error". What our own code throws here says what it is.
  return error instanceof Error && error.name === "Error" ? "lost" : "thrown";
}

function known(error: unknown): unknown {
  const fault = faultOf(error);
  return fault === "thrown" ? error : new HubUnavailable(`hub ${fault}`, { cause: error });
}
