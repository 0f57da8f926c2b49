import { TUNING } from "../../protocol/limits.ts";
import type { ModelList } from "../../protocol/models.ts";
import type { Env } from "../config.ts";
import type { AppContext } from "./app-env.ts";
import { askHub } from "./ask-hub.ts";

/** The last answer of the hub, of each instance that this isolate serves. */
const known = new WeakMap<Env, { list: ModelList; at: number }>();

/**
 * `GET /v1/models`: the models of the connected workers [JB10].
 *
 * Clients ask for it often (a chat program at each start, a standby worker every few seconds), and the hub is one for all of them: each isolate
 * asks it once a second at most.
 */
export async function models(c: AppContext): Promise<Response> {
  const now = Date.now();
  const last = known.get(c.env);
  // A clock that was put back makes an answer of the future.
  if (last !== undefined && now >= last.at && now < last.at + TUNING.modelsFresh) return c.json(last.list);
  const list = await askHub(c.env, (hub) => hub.models());
  known.set(c.env, { list, at: now });
  return c.json(list);
}
