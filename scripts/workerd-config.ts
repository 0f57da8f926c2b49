// What Miniflare needs to know to run one coordinator: the bundle of its sources, its settings, and the port on the Worker itself.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { convertV4MiniflareOptions, Log, LogLevel, type MiniflareOptions } from "miniflare";
import { CHANNEL_KEY } from "../src/coordinator/http/channel-messages.ts";
import { isLoopback } from "../src/protocol/text.ts";
import { ROOT, urlOf, type WorkerdOptions } from "./coordinator-process.ts";
import { temporaryFolderOf } from "./state-folder.ts";
import { variables, wranglerFile } from "./variables.ts";

/** Where a workerd listens. */
export type Listen = { host: string; port: number };

/**
 * What V8 is told, sizes in MiB. workerd keeps each request, response and body in memory that V8 does not count, until V8 collects the small object that holds
 * it. So young garbage is collected often, and old garbage as soon as it is as much as what lives. With one core the threads of a collection would only make it
 * longer (docs/decisions/0013), and so would a thread that compiles: TurboFan gets only what is called most (docs/decisions/0016).
 */
export function v8Flags(cores: number = availableParallelism()): string {
  const sizes = "--min-semi-space-size=2 --max-semi-space-size=8 --initial-old-space-size=4 --heap-growing-percent=100";
  return cores > 1 ? sizes : `${sizes} --single-threaded-gc --invocation-count-for-turbofan=100000`;
}

const LOGGED = new Set(["warn", "error"]);
/** What workerd says at each start, because V8 has been given {@link v8Flags}: it compiles its own few scripts again. */
const COMPILES_ITSELF = "bootstrap compile cache failed its compatibility check";
/** What workerd says for its own developers at a restart: the alarm of the hub was set again. */
const ALARM_AGAIN = "NOSENTRY SQLite alarm";

/** Returns the program at `main` as one module for workerd. @throws when the sources do not bundle */
export async function bundled(main: string, { serves, watches }: Pick<WorkerdOptions, "serves" | "watches">): Promise<string> {
  // Loaded here: a start that is given a bundle does without it, and saves its 0.3 s of CPU.
  const { build, stop } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [resolve(ROOT, main)],
    absWorkingDir: ROOT,
    bundle: true,
    minify: serves,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["node:*", "cloudflare:*"],
    // workerd has the modules of Node under their full names only.
    alias: Object.fromEntries(builtinModules.filter((name) => !name.startsWith("_") && !name.includes(":")).map((name) => [name, `node:${name}`])),
    // The value of an emulation: what is trusted on Cloudflare only is not trusted here.
    define: { "process.env.NODE_ENV": '"development"' },
    logLevel: "silent",
  });
  if (!watches) await stop();
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`esbuild built nothing from ${main}`);
  return output.text;
}

/** What makes a coordinator that only this machine can reach a local one; an empty `PUBLIC_HOST` undoes it. */
function localHost(host: string, port: number): Record<string, string> {
  const url = new URL(urlOf(host, port));
  return isLoopback(url.hostname) ? { PUBLIC_HOST: `${url.hostname}:${port}` } : {};
}

/** The lines of Miniflare itself. */
class Lines extends Log {
  readonly #say: Say;

  constructor(say: Say) {
    super(LogLevel.WARN);
    this.#say = say;
  }

  protected override log(message: string): void {
    this.#say(message);
  }
}

/** Takes a warning or an error of the coordinator or of its runtime; it can have several lines. */
type Say = (text: string) => void;

/** The name of the Worker in operator-door.mjs, and the header with its key. */
export const DOOR = "operator-door";
export const DOOR_KEY_HEADER = "x-door-key";

/**
 * The configuration of a coordinator whose workerd listens at `listen`; its pages must be built. `door` is what opens {@link DOOR} for this process: its key,
 * and where it listens for the channel of the front; null without a front.
 * @throws when the sources do not bundle
 */
export async function configuration(
  options: WorkerdOptions,
  listen: Listen,
  say: Say,
  door: { key: string; listen: Listen | null } = { key: randomBytes(16).toString("hex"), listen: null },
): Promise<MiniflareOptions> {
  const { instance, host, port, stateDir, bundle } = options;
  const file = wranglerFile(instance);
  const platform = { compatibilityDate: file.compatibility_date, compatibilityFlags: file.compatibility_flags };
  // Not the name in the wrangler file: an operator may change that, and the hub would have another folder, an empty one.
  const name = `compute-router-${instance}`;
  const pages = `${name}-pages`;
  const script = (file: string): string => readFileSync(join(import.meta.dirname, file), "utf8");
  return convertV4MiniflareOptions({
    // Miniflare's own entry point has endpoints for tests. It gets a random port of the loopback interface, which only this process uses (operator-door.mjs).
    host: "127.0.0.1",
    port: 0,
    cf: false,
    logRequests: false,
    telemetry: { enabled: false },
    resourcePersistencePath: join(stateDir, "v3"),
    resourceTmpPath: temporaryFolderOf(stateDir),
    log: new Lines(say),
    handleStructuredLogs: ({ level, message }) => {
      if (LOGGED.has(level) && !message.includes(COMPILES_ITSELF) && !message.startsWith(ALARM_AGAIN)) say(message);
    },
    workers: [
      {
        ...platform,
        name,
        modules: [{ type: "ESModule", path: "main.js", contents: bundle === null ? await bundled(file.main, options) : readFileSync(bundle, "utf8") }],
        bindings: { ...localHost(host, port), ...variables(options), ...(door.listen !== null && { [CHANNEL_KEY]: door.key }) },
        durableObjects: Object.fromEntries(file.durable_objects.bindings.map(({ name, class_name }) => [name, { className: class_name, useSQLite: true }])),
        d1Databases: file.d1_databases.map(({ binding }) => binding),
        serviceBindings: { [file.assets.binding]: pages },
        unsafeDirectSockets: [listen],
      },
      {
        ...platform,
        name: pages,
        modules: [{ type: "ESModule", path: "pages.js", contents: script("page-files.mjs") }],
        serviceBindings: { FILES: { disk: { path: join(ROOT, file.assets.directory), writable: false } } },
      },
      {
        ...platform,
        name: DOOR,
        modules: [{ type: "ESModule", path: "door.js", contents: script("operator-door.mjs") }],
        bindings: { DOOR_KEY: door.key },
        unsafeDirectSockets: door.listen === null ? [] : [door.listen],
        durableObjects: Object.fromEntries(
          file.durable_objects.bindings.map(({ name: binding, class_name }) => [binding, { className: class_name, scriptName: name, useSQLite: true }]),
        ),
      },
    ],
  });
}
