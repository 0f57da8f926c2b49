// One coordinator in workerd, without `wrangler dev`: reads its wrangler file, bundles the sources, opens the port on the Worker itself, fires its cron.
// coordinator-process.ts runs this file as a child process, with its options in an environment variable.
import { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { existsSync, readFileSync, watch } from "node:fs";
import { builtinModules } from "node:module";
import type { Server } from "node:net";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type MiniflareOptions } from "miniflare";
import { parse } from "smol-toml";
import * as z from "zod";
import { RATES } from "../src/protocol/limits.ts";
import { isLoopback } from "../src/protocol/text.ts";
import { buildPages } from "./build-pages.ts";
import { freePort, INSTANCES, ROOT, urlOf, WORKERD_OPTIONS, type WorkerdOptions } from "./coordinator-process.ts";
import { connectionsFor, type FrontOptions, listenInFront } from "./front.ts";

/** What the parent asks for. */
const Options: z.ZodType<WorkerdOptions> = z.strictObject({
  instance: z.enum(INSTANCES),
  host: z.string(),
  port: z.int(),
  stateDir: z.string(),
  settings: z.record(z.string(), z.string()),
  cronMs: z.int(),
  watches: z.boolean(),
  serves: z.boolean(),
  guardsFrames: z.boolean(),
  bundle: z.string().nullable(),
});

/** What this command uses of a wrangler file. */
const WranglerFile = z.object({
  name: z.string(),
  main: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
  vars: z.record(z.string(), z.string()),
  durable_objects: z.object({ bindings: z.array(z.object({ name: z.string(), class_name: z.string() })) }),
  d1_databases: z.array(z.object({ binding: z.string() })),
  assets: z.object({ directory: z.string(), binding: z.string(), html_handling: z.literal("none") }),
});

type Listen = { host: string; port: number };

/** The files that an instance for real use needs: two for each of 5,000 sockets, one for each of 2,500 held requests, and some for sockets that linger. */
const OPEN_FILES = 16_384;
/** The same for a local one, which its owner and a few workers use. */
const OPEN_FILES_LOCAL = 8_192;
/** Edits within this time are one edit. */
const EDIT_MS = 100;
/**
 * The sizes of V8's heap, in MiB. workerd keeps each request, response and body in memory that V8 does not count, until V8 collects the small object that holds
 * it. So young garbage is collected often, and old garbage from 16 MiB on (docs/decisions/0013).
 */
const V8_HEAP = "--min-semi-space-size=2 --max-semi-space-size=2 --initial-old-space-size=16";
/** How long requests may take to end when an instance for real use stops. */
const DRAIN_MS = 5_000;
const LOGGED = new Set(["warn", "error"]);

/** Returns the coordinator as one module. @throws when the sources do not bundle */
async function bundled(main: string, { serves, watches }: WorkerdOptions): Promise<string> {
  // Loaded here: a start that is given a bundle does without it, and saves its 0.3 s of CPU.
  const { build, stop } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, main)],
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
    // The value of an emulation: what is trusted at Cloudflare only is not trusted here.
    define: { "process.env.NODE_ENV": '"development"' },
    logLevel: "silent",
  });
  if (!watches) await stop();
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`esbuild built nothing from ${main}`);
  return output.text;
}

/** What `main` is and what it is bound to, as its wrangler file says. */
function wranglerFile(instance: string): z.infer<typeof WranglerFile> {
  return WranglerFile.parse(parse(readFileSync(join(ROOT, `wrangler.${instance}.toml`), "utf8")));
}

/** The settings that `wrangler dev` would read too: secrets that are in no file of the repository. */
function devVars(): Record<string, string> {
  const path = join(ROOT, ".dev.vars");
  return existsSync(path) ? z.record(z.string(), z.string()).parse(parseEnv(readFileSync(path, "utf8"))) : {};
}

/** What makes a coordinator that only this machine can reach a local one; an empty `PUBLIC_HOST` undoes it. */
function localHost(host: string, port: number): Record<string, string> {
  const url = new URL(urlOf(host, port));
  return isLoopback(url.hostname) ? { PUBLIC_HOST: `${url.hostname}:${port}` } : {};
}

/** What the front has to know of the settings: whether clients are limited, who names them, and how many frames the hub reads. */
function frontLimits({ instance, settings }: WorkerdOptions): Pick<FrontOptions, "limitsClients" | "trustedIpHeader" | "messages"> {
  const {
    TESTNET_MODE,
    RATE_LIMITS = TESTNET_MODE === "true" ? "off" : "on",
    TRUSTED_IP_HEADER = "",
    MESSAGES_PER_SECOND = RATES.messagesPerSecond,
    MESSAGE_BURST = RATES.messageBurst,
  } = { ...wranglerFile(instance).vars, ...devVars(), ...settings };
  const messages = { perSecond: Number(MESSAGES_PER_SECOND), burst: Number(MESSAGE_BURST) };
  return { limitsClients: RATE_LIMITS === "on", trustedIpHeader: TRUSTED_IP_HEADER || null, messages };
}

/** The configuration of a coordinator whose workerd listens at `listen`. */
async function configuration(options: WorkerdOptions, listen: Listen): Promise<MiniflareOptions> {
  const { instance, host, port, stateDir, settings, bundle } = options;
  buildPages();
  const file = wranglerFile(instance);
  const platform = { compatibilityDate: file.compatibility_date, compatibilityFlags: file.compatibility_flags };
  const pages = `${file.name}-pages`;
  return convertV4MiniflareOptions({
    // Miniflare's own entrance has doors for tests. It gets a random port of the loopback interface, and nothing uses it.
    host: "127.0.0.1",
    port: 0,
    cf: false,
    logRequests: false,
    telemetry: { enabled: false },
    resourcePersistencePath: join(stateDir, "v3"),
    resourceTmpPath: join(stateDir, "tmp"),
    log: new Log(LogLevel.WARN),
    handleStructuredLogs: ({ level, message }) => {
      if (LOGGED.has(level)) console.error(message);
    },
    workers: [
      {
        ...platform,
        name: file.name,
        modules: [{ type: "ESModule", path: "main.js", contents: bundle === null ? await bundled(file.main, options) : readFileSync(bundle, "utf8") }],
        bindings: { ...localHost(host, port), ...file.vars, ...devVars(), ...settings },
        durableObjects: Object.fromEntries(file.durable_objects.bindings.map(({ name, class_name }) => [name, { className: class_name, useSQLite: true }])),
        d1Databases: file.d1_databases.map(({ binding }) => binding),
        serviceBindings: { [file.assets.binding]: pages },
        unsafeDirectSockets: [listen],
      },
      // The pages are a Worker of their own: in front of a Worker with assets Miniflare puts two more, and each request would pass through them.
      {
        ...platform,
        name: pages,
        modules: [{ type: "ESModule", path: "pages.js", contents: "export default { fetch: () => new Response(null, { status: 404 }) };" }],
        assets: { directory: join(ROOT, file.assets.directory), assetConfig: { html_handling: file.assets.html_handling } },
      },
    ],
  });
}

async function main(): Promise<void> {
  const options = Options.parse(JSON.parse(process.env[WORKERD_OPTIONS] ?? ""));
  // workerd gets the environment of this process.
  delete process.env[WORKERD_OPTIONS];
  const files = openFiles();
  const needed = options.serves ? OPEN_FILES : OPEN_FILES_LOCAL;
  const most = connectionsFor(files);
  // With fewer files connections alone could end workerd.
  const isScarce = files < needed;
  if (isScarce) console.error(`only ${files} open files are allowed, so at most ${most} connections are: for more, allow ${needed} files (ulimit -Hn)`);
  const { host, port } = options;
  const hasFront = options.guardsFrames || isScarce;
  const listen = hasFront ? { host: "127.0.0.1", port: await freePort() } : { host, port };
  process.env.MINIFLARE_WORKERD_V8_FLAGS ??= V8_HEAP;
  const config = await configuration(options, listen);
  const runtime = new Runtime();
  const miniflare = new Miniflare(config);
  let stopping = false;
  let front: Server | null = null;
  // Miniflare starts workerd again. If it cannot, nothing listens any more.
  runtime.onExit = () =>
    setImmediate(() => {
      if (!stopping) miniflare.ready.catch(giveUp);
    });
  // Miniflare has a handler that kills workerd at once.
  process.removeAllListeners("SIGTERM").once("SIGTERM", () => {
    stopping = true;
    front?.close();
    const end = (): void => void miniflare.dispose().finally(() => process.exit(0));
    if (options.serves) runtime.drain(end);
    else end();
  });
  await miniflare.ready;
  if (hasFront) front = await listenInFront({ host, port, to: listen.port, most, ...frontLimits(options) });
  const cron = async (): Promise<void> => {
    const worker = await miniflare.getWorker();
    await worker.scheduled();
  };
  setInterval(() => void cron().catch((error: unknown) => console.error(`the cron did not run: ${String(error)}`)), options.cronMs);
  if (options.watches) watchSources(options, listen, miniflare);
}

/** How many files this process, and so workerd, may open: Node has raised the soft limit to the hard one. */
function openFiles(): number {
  const { userLimits } = z.object({ userLimits: z.object({ open_files: z.object({ soft: z.unknown() }) }) }).parse(process.report.getReport());
  const { soft } = userLimits.open_files;
  return typeof soft === "number" ? soft : Number.POSITIVE_INFINITY;
}

/** The process of workerd. Miniflare starts it, and another one after a crash, but shows it to nobody. */
class Runtime {
  /** Called when workerd has ended, before Miniflare knows. */
  onExit: () => void = () => {};
  #last: ChildProcess | undefined;

  constructor() {
    subscribe("child_process", (message) => {
      if (typeof message !== "object" || message === null || !("process" in message) || !(message.process instanceof ChildProcess)) return;
      this.#last = message.process;
      this.#last.once("exit", () => this.onExit());
    });
  }

  /** Stops listening, and calls `then` once: when all requests have ended, or after 5 s, because the sockets of workers never end. */
  drain(then: () => void): void {
    const deadline = setTimeout(() => this.onExit(), DRAIN_MS);
    this.onExit = () => {
      clearTimeout(deadline);
      this.onExit = () => {};
      then();
    };
    if (this.#last?.kill("SIGTERM") !== true) this.onExit();
  }
}

function giveUp(error: unknown): void {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
}

/** Runs the sources again after each edit, as a deployment does: every Durable Object starts anew and every socket is closed. */
function watchSources(options: WorkerdOptions, listen: Listen, miniflare: Miniflare): void {
  let edit: NodeJS.Timeout | undefined;
  const reload = async (): Promise<void> => miniflare.setOptions(await configuration(options, listen));
  const onEdit = (): void => {
    clearTimeout(edit);
    edit = setTimeout(() => void reload().catch((error: unknown) => console.error(error instanceof Error ? error.message : String(error))), EDIT_MS);
  };
  for (const folder of new Set([join(ROOT, "src"), join(ROOT, dirname(wranglerFile(options.instance).main))])) watch(folder, { recursive: true }, onEdit);
}

try {
  await main();
} catch (error) {
  giveUp(error);
}
