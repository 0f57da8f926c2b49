// The entry point of workers: a WebSocket upgrade outside the REST table goes to the hub [WS1].
import { RETRY_AFTER } from "../../protocol/times.ts";
import { type AppContext, refuse } from "../http/context.ts";
import { askHub } from "../http/hub-client.ts";
import { refuseOverRate } from "../http/middleware.ts";
import { clientOf } from "../http/request.ts";
import { CLIENT_HEADER } from "../hub/rpc.ts";

/** True if a request asks to become a WebSocket. */
export function isUpgrade(c: AppContext): boolean {
  return c.req.header("Upgrade")?.toLowerCase() === "websocket";
}

/** Answers every path outside the REST table: a WebSocket upgrade is a worker and goes to the hub, every other request gets 404 [WS1, API1]. */
export async function connect(c: AppContext): Promise<Response> {
  if (!isUpgrade(c) || c.req.raw.method !== "GET") return refuse(c, "not_found");
  // The hub counts the sockets of all isolates. Here a client over the rate costs the hub nothing, and a refused upgrade counts too [LM2].
  const refused = await refuseOverRate(c, "connects");
  if (refused !== null) return refused;
  const request = new Request(c.req.raw);
  request.headers.set(CLIENT_HEADER, clientOf(c.req.raw, c.get("settings")));
  const response = await askHub(c.env, (hub) => hub.fetch(request));
  if (response.status === 101) return response;
  // The hub says when this client may dial again.
  if (response.status === 429) return refuse(c, "rate_limited", Number(response.headers.get("Retry-After")) || RETRY_AFTER.rate_limited);
  return refuse(c, "overloaded", RETRY_AFTER.overloaded);
}
