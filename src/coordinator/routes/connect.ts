import type { AppContext } from "./app-env.ts";
import { askHub } from "./ask-hub.ts";
import { refuse } from "./refuse.ts";

/** Every path outside the REST table: a worker's socket goes to the hub, all else is unknown [WS1, API1]. */
export async function connect(c: AppContext): Promise<Response> {
  const upgrade = c.req.header("Upgrade")?.toLowerCase() === "websocket";
  if (!upgrade || c.req.raw.method !== "GET") return refuse(c, "not_found");
  const response = await askHub(c.env, (hub) => hub.fetch(c.req.raw));
  // The hub's refusals come with headers that cannot be added to; a socket must not be copied.
  return response.status === 101 ? response : new Response(response.body, response);
}
