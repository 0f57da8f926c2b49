import type { Health } from "../../protocol/health.ts";
import { isoTime } from "../../protocol/text.ts";
import type { AppContext } from "./app-env.ts";
import { askHub } from "./ask-hub.ts";

/** `GET /v1/health` [SPEC]. */
export async function health(c: AppContext): Promise<Response> {
  const body: Health = {
    status: "ok",
    workers_online: await askHub(c.env, (hub) => hub.workersOnline()),
    network: c.var.settings.network,
    timestamp: isoTime(Date.now()),
  };
  return c.json(body);
}
