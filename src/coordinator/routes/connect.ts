import type { AppContext } from "./app-env.ts";
import { askHub } from "./ask-hub.ts";
import { RETRY_AFTER, refuse } from "./refuse.ts";

/** Every path outside the REST table: a worker's socket goes to the hub, all else is unknown [WS1, API1]. */
export async function connect(c: AppContext): Promise<Response> {
  const upgrade = c.req.header("Upgrade")?.toLowerCase() === "websocket";
  if (!upgrade || c.req.raw.method !== "GET") return refuse(c, "not_found");
  const response = await askHub(c.env, (hub) => hub.fetch(c.req.raw));
  return response.status === 101 ? response : refuse(c, "overloaded", RETRY_AFTER.overloaded);
}
