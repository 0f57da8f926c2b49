// The entry of the Worker: REST, cron, and the exported Durable Object.
import type { Result } from "../protocol/result.ts";
import { app } from "./app.ts";
import { type Env, SettingsError, settingsOf } from "./config.ts";
import { openChannel, opensChannel } from "./http/channel.ts";
import { CHANNEL_KEY } from "./http/channel-messages.ts";
import { askHub, insideHub } from "./http/hub-client.ts";
import { ChannelSocket } from "./hub/channel-socket.ts";
import type { HubRpc } from "./hub/rpc.ts";
import { WorkerHub as Hub } from "./hub/worker-hub.ts";
import { errorFacts, logError, logInvalidSetting } from "./log.ts";
import { buildIndexes, StoreUnavailable } from "./store/database.ts";
import { findJobs } from "./store/jobs.ts";
import { applyRetention } from "./store/retention.ts";
import { SharedLookups } from "./store/shared-lookups.ts";
import { tokensOf } from "./store/trust.ts";

export { Settler } from "./hub/settler.ts";

/** The hub. Outside Cloudflare it also has the router in it, for the requests that the front sends together, and reads D1 for all routers. */
export class WorkerHub extends Hub implements HubRpc {
  readonly #jobs = new SharedLookups(async (ids) => new Map((await findJobs(this.env.DB, ids)).map((job) => [job.id, job])));
  readonly #tokens = new SharedLookups((userIds) => tokensOf(this.env.DB, userIds));

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

  async lookUpJob(id: string): ReturnType<HubRpc["lookUpJob"]> {
    return asResult(this.#jobs.find(id));
  }

  async lookUpToken(userId: string): ReturnType<HubRpc["lookUpToken"]> {
    return asResult(this.#tokens.find(userId));
  }
}

/** An error would lose its class on its way to the router. */
async function asResult<T>(lookup: Promise<T>): Promise<Result<T, string>> {
  try {
    return { ok: true, value: await lookup };
  } catch (error) {
    if (error instanceof StoreUnavailable) return { ok: false, reason: error.safeReason };
    throw error;
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
