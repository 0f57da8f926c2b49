import type { D1Migration } from "cloudflare:test";
import type { WorkerHub } from "../../src/coordinator/main.ts";

declare global {
  namespace Cloudflare {
    /** What the edge projects of vitest.config.ts bind. */
    interface Env {
      DB: D1Database;
      HUB: DurableObjectNamespace<WorkerHub>;
      INSTANCE: "evm" | "svm";
      TEST_MIGRATIONS: D1Migration[];
    }
  }
}
