import { app } from "./app.ts";
import { type Env, SettingsError, settingsOf } from "./config.ts";
import { errorFacts, logError, logInvalidSetting } from "./log.ts";
import { askHub } from "./http/hub-client.ts";
import { sweep } from "./store/retention.ts";

export { WorkerHub } from "./hub/worker-hub.ts";

/** A coordinator instance: the REST surface, and by cron retention and a hub that slept through something. */
export default {
  fetch: app.fetch,
  async scheduled(_controller, env) {
    // Async, so that a wrong setting is a rejection like any other.
    const duties = { retention: async () => sweep(env.DB, settingsOf(env), Date.now()), wake: async () => askHub(env, (hub) => hub.wake()) };
    for (const [duty, run] of Object.entries(duties)) {
      // One that fails must not keep the other from running.
      await run().catch((error: unknown) => {
        if (error instanceof SettingsError) logInvalidSetting(error, { duty });
        else logError("scheduled", { duty, ...errorFacts(error) });
      });
    }
  },
} satisfies ExportedHandler<Env>;
