import { RETRY_AFTER } from "../../protocol/limits.ts";
import { CLIENT_HEADER } from "../hub/rpc.ts";
import type { AppContext } from "../http/context.ts";
import { askHub } from "../http/hub-client.ts";
import { clientIp } from "../http/rate-limit.ts";
import { refuse } from "../http/errors.ts";

/** Every path outside the REST table: a worker's socket goes to the hub, all else is unknown [WS1, API1]. */
export async function connect(c: AppContext): Promise<Response> {
  const upgrade = c.req.header("Upgrade")?.toLowerCase() === "websocket";
  if (!upgrade || c.req.raw.method !== "GET") return refuse(c, "not_found");
  const request = new Request(c.req.raw);
  request.headers.set(CLIENT_HEADER, clientIp(c.req.raw, c.var.settings));
  const response = await askHub(c.env, (hub) => hub.fetch(request));
  if (response.status === 101) return response;
  if (response.status === 429) return refuse(c, "rate_limited", RETRY_AFTER.rate_limited);
  return refuse(c, "overloaded", RETRY_AFTER.overloaded);
}
