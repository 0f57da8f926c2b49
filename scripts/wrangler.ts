import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { makeFolder } from "../src/worker/node/config-folder.ts";
import { type Child, startChild } from "./child.ts";
import { ROOT } from "./instance.ts";

/** wrangler's program itself: its `bin` would put one more process between us and workerd. */
const CLI = join(dirname(createRequire(import.meta.url).resolve("wrangler/package.json")), "wrangler-dist", "cli.js");

/**
 * Runs wrangler on the repository, offline and silent about itself; all that it writes goes to `stateDir` and `.wrangler/tmp`.
 * @param folder of another copy of the repository
 */
export function startWrangler(args: readonly string[], stateDir: string, onLine?: (line: string) => void, folder: string = ROOT): Child {
  const temporary = join(stateDir, "tmp");
  makeFolder(temporary);
  return startChild([CLI, ...args], {
    cwd: folder,
    env: {
      // Its build command runs `node`, which must not be an older one than this.
      PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
      // Without a terminal wrangler takes the default answer of each question.
      CI: "true",
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_SEND_ERROR_REPORTS: "false",
      WRANGLER_HIDE_BANNER: "true",
      WRANGLER_WRITE_LOGS: "false",
      WRANGLER_REGISTRY_PATH: join(stateDir, "registry"),
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      // Its own request traces cost a database write per request.
      X_LOCAL_OBSERVABILITY: "false",
      X_LOCAL_EXPLORER: "false",
      TMPDIR: temporary,
    },
    ...(onLine && { onLine }),
  });
}
