// The entry of the Worker: REST, cron, and the exported Durable Object.
import { app } from "./app.ts";
import { type Env, SettingsError, settingsOf } from "./config.ts";
import { openChannel, opensChannel } from "./http/channel.ts";
import { CHANNEL_KEY } from "./http/channel-messages.ts";
import { askHub, insideHub } from "./http/hub-client.ts";
import { ChannelSocket } from "./hub/channel-socket.ts";
import { WorkerHub as Hub } from "./hub/worker-hub.ts";
import { errorFacts, logError, logInvalidSetting } from "./log.ts";
import { buildIndexes } from "./store/database.ts";
import { applyRetention } from "./store/retention.ts";

export { Settler } from "./hub/settler.ts";

/** The hub. Outside Cloudflare it also has the router in it, for the requests that the front sends together. */
export class WorkerHub extends Hub {
  override async fetch(request: Request): Promise<Response> {
    if (!opensChannel(request, this.env[CHANNEL_KEY])) return super.fetch(request);
    const env = insideHub(this.env, this);
    const context = { waitUntil: (task: Promise<unknown>) => this.ctx.waitUntil(task), passThroughOnException: () => {}, props: {} };
    return openChannel({
      respond: (plain) => app.fetch(plain, env, context),
      gather: (read) => this.gather(read),
      dial: (far) => new ChannelSocket(far, this),
    });
  }
}

/** A coordinator instance. `fetch` serves the REST routes; the cron deletes old rows, builds indexes of a large D1, and wakes a hub that missed an alarm. */
export default {
  fetch: app.fetch,
  async scheduled(_controller, env) {
    // Both are async, so that a wrong setting rejects like every other fault.
    const duties = {
      retention: async () => {
        try {
          await applyRetention(env.DB, settingsOf(env), Date.now());
        } finally {
          // Last, because D1 may do nothing else for 30 s.
          await buildIndexes(env.DB);
        }
      },
      wake: async () => askHub(env, (hub) => hub.wake()),
    };
    const failed = (duty: string, error: unknown): void => {
      if (error instanceof SettingsError) logInvalidSetting(error, { duty });
      else logError("scheduled", { duty, ...errorFacts(error) });
    };
    // Neither waits for the other, and if one fails, the other still runs: hundreds of statements to a slow D1 must not delay a hub that missed an alarm.
    await Promise.all(Object.entries(duties).map(([duty, run]) => run().catch((error: unknown) => failed(duty, error))));
  },
} satisfies ExportedHandler<Env>;
