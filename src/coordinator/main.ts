import { app } from "./app.ts";
import { type Env, settingsOf } from "./config.ts";
import { errorFacts, logError } from "./log.ts";
import { askHub } from "./routes/ask-hub.ts";
import { sweep } from "./store/retention.ts";

export { WorkerHub } from "./hub/worker-hub.ts";

/** A coordinator instance: the REST surface, and by cron retention and a hub that slept through something. */
export default {
  fetch: app.fetch,
  async scheduled(_controller, env) {
    const duties = { retention: () => sweep(env.DB, settingsOf(env), Date.now()), wake: () => askHub(env, (hub) => hub.wake()) };
    for (const [duty, run] of Object.entries(duties)) {
      // One that fails must not keep the other from running.
      await run().catch((error: unknown) => logError("scheduled", { duty, ...errorFacts(error) }));
    }
  },
} satisfies ExportedHandler<Env>;
