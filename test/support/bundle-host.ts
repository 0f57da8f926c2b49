// Runs one coordinator from the bundle of this test run, until SIGTERM. Its only argument is JSON: bundle.ts starts it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/** The part of Miniflare that is used here. It is wrangler's own copy, so its version always fits the bundle and the settings. */
type MiniflareModule = {
  Miniflare: new (options: unknown) => { ready: Promise<URL>; dispose(): Promise<void> };
  Log: new (level: number) => object;
  LogLevel: { WARN: number };
  /** Takes options as `unstable_getMiniflareWorkerOptions` of wrangler returns them. */
  convertV4MiniflareOptions: (options: object) => unknown;
};
const wrangler = createRequire(import.meta.url).resolve("wrangler/package.json");
const { Miniflare, Log, LogLevel, convertV4MiniflareOptions }: MiniflareModule = createRequire(wrangler)("miniflare");

type Start = { bundle: string; instance: string; port: number; stateDir: string; settings: Record<string, string> };
const { bundle, instance, port, stateDir, settings }: Start = JSON.parse(process.argv[2] ?? "");
const worker: { bindings: object; compatibilityFlags: string[] } = JSON.parse(readFileSync(join(bundle, `${instance}.json`), "utf8"));

const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port,
    // Where `wrangler dev --persist-to` puts it, so that `wrangler d1 execute` finds the database.
    resourcePersistencePath: join(stateDir, "v3"),
    log: new Log(LogLevel.WARN),
    logRequests: false,
    handleStructuredLogs({ level, message }: { level: string; message: string }): void {
      if (level === "warn" || level === "error") console.error(message);
    },
    telemetry: { enabled: false },
    // For the cron.
    unsafeTriggerHandlers: true,
    workers: [
      {
        ...worker,
        // As `npm run dev` runs it: see src/coordinator/routes/connect.ts.
        compatibilityFlags: worker.compatibilityFlags.filter((flag) => flag !== "no_web_socket_compression"),
        bindings: { ...worker.bindings, ...settings },
        modulesRoot: bundle,
        modules: [{ type: "ESModule", path: join(bundle, "main.js") }],
      },
    ],
  }),
);
process.once("SIGTERM", () => void miniflare.dispose().finally(() => process.exit()));
await miniflare.ready;
