// One coordinator in workerd, without `wrangler dev`: reads its wrangler file, bundles the sources, opens the port on the Worker itself, fires its cron.
// coordinator-process.ts runs this file as a child process, with its options as one JSON argument.
import { existsSync, readFileSync, watch } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { build, stop } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type MiniflareOptions } from "miniflare";
import { parse } from "smol-toml";
import * as z from "zod";
import { buildPages } from "./build-pages.ts";
import { INSTANCES, ROOT, type WorkerdOptions } from "./coordinator-process.ts";

/** What the parent asks for. */
const Options: z.ZodType<WorkerdOptions> = z.strictObject({
  instance: z.enum(INSTANCES),
  host: z.string(),
  port: z.int(),
  stateDir: z.string(),
  settings: z.record(z.string(), z.string()),
  cronMs: z.int(),
  watches: z.boolean(),
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

/** Edits within this time are one edit. */
const EDIT_MS = 100;
const LOGGED = new Set(["warn", "error"]);

/** Returns the coordinator as one module. @throws when the sources do not bundle */
async function bundled(main: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, main)],
    absWorkingDir: ROOT,
    bundle: true,
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

async function configuration({ instance, host, port, stateDir, settings, bundle }: WorkerdOptions): Promise<MiniflareOptions> {
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
        modules: [{ type: "ESModule", path: "main.js", contents: bundle === null ? await bundled(file.main) : readFileSync(bundle, "utf8") }],
        bindings: { ...file.vars, ...devVars(), ...settings },
        durableObjects: Object.fromEntries(file.durable_objects.bindings.map(({ name, class_name }) => [name, { className: class_name, useSQLite: true }])),
        d1Databases: file.d1_databases.map(({ binding }) => binding),
        serviceBindings: { [file.assets.binding]: pages },
        unsafeDirectSockets: [{ host, port }],
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
  const options = Options.parse(JSON.parse(process.argv[2] ?? ""));
  const miniflare = new Miniflare(await configuration(options));
  process.once("SIGTERM", () => void miniflare.dispose().finally(() => process.exit(0)));
  await miniflare.ready;
  const cron = async (): Promise<void> => {
    const worker = await miniflare.getWorker();
    await worker.scheduled();
  };
  setInterval(() => void cron().catch((error: unknown) => console.error(`the cron did not run: ${String(error)}`)), options.cronMs);
  if (options.watches) watchSources(options, miniflare);
  else await stop();
}

/** Runs the sources again after each edit, as a deployment does: every Durable Object starts anew and every socket is closed. */
function watchSources(options: WorkerdOptions, miniflare: Miniflare): void {
  let edit: NodeJS.Timeout | undefined;
  const reload = async (): Promise<void> => miniflare.setOptions(await configuration(options));
  const onEdit = (): void => {
    clearTimeout(edit);
    edit = setTimeout(() => void reload().catch((error: unknown) => console.error(error instanceof Error ? error.message : String(error))), EDIT_MS);
  };
  for (const folder of new Set([join(ROOT, "src"), join(ROOT, dirname(wranglerFile(options.instance).main))])) watch(folder, { recursive: true }, onEdit);
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
