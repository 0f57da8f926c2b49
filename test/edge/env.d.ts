import type { D1Migration } from "cloudflare:test";
import type { WorkerHub } from "../../src/coordinator/main.ts";

declare global {
  namespace Cloudflare {
    interface GlobalProps {
      mainModule: typeof import("../../src/coordinator/main.ts");
    }
    /** The bindings of the edge projects in vitest.config.ts. */
    interface Env {
      DB: D1Database;
      HUB: DurableObjectNamespace<WorkerHub>;
      PAGES: Fetcher;
      INSTANCE: "evm" | "svm";
      TEST_MIGRATIONS: D1Migration[];
    }
  }
}
