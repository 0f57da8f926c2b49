/**
 * The coordinator as it is deployed, for tests that start many: it is bundled once per run, and each test runs the bundle under Miniflare, wrangler's own runtime.
 * Such a start takes 1 s of CPU in place of the 4 s of `wrangler dev`, which bundles every time and puts a proxy before the runtime. test/e2e tests `wrangler dev`.
 */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startChild } from "../../scripts/child.ts";
import { type Coordinator, type CoordinatorOptions, INSTANCES, ROOT, startCoordinator, startWrangler } from "../../scripts/coordinator-process.ts";

const HOST = fileURLToPath(new URL("bundle-host.ts", import.meta.url));
/** The environment variable with the folder of the bundle of this run. */
const FOLDER = "COORDINATOR_BUNDLE";

/** For `globalSetup`: makes the bundle of this run, which all its projects and test processes share. An edit of the sources changes nothing in a test that runs. */
export async function setup(): Promise<(() => void) | undefined> {
  if (process.env[FOLDER] !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "coordinator-bundle-"));
  const remove = (): void => {
    delete process.env[FOLDER];
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await makeBundle(folder);
  } catch (error) {
    remove();
    throw error;
  }
  process.env[FOLDER] = folder;
  return remove;
}

/** Writes the program, the pages and the settings of both instances, which differ in their settings only. */
async function makeBundle(folder: string): Promise<void> {
  const bundling = startWrangler(["deploy", "--dry-run", "-c", "wrangler.evm.toml", "--outdir", folder], folder);
  const { unstable_getMiniflareWorkerOptions: optionsOf } = await import("wrangler");
  if ((await bundling.exited) !== 0) throw new Error(`wrangler cannot bundle the coordinator:\n${bundling.lines.join("\n")}`);
  const pages = join(folder, "pages");
  cpSync(join(ROOT, "dist", "pages"), pages, { recursive: true });
  for (const instance of INSTANCES) {
    const { workerOptions } = optionsOf(join(ROOT, `wrangler.${instance}.toml`));
    const assets = { ...(workerOptions.assets as object), directory: pages };
    writeFileSync(join(folder, `${instance}.json`), JSON.stringify({ ...workerOptions, assets, name: `compute-router-${instance}` }));
  }
}

/** Like `startCoordinator`, with the bundle of this run in place of `wrangler dev`. */
export function startBundled(options: CoordinatorOptions): Promise<Coordinator> {
  const bundle = process.env[FOLDER];
  if (bundle === undefined) throw new Error("this test needs test/support/bundle.ts as a globalSetup");
  return startCoordinator({
    ...options,
    launch: ({ instance, port, settings = {} }, stateDir, onLine) =>
      startChild([HOST, JSON.stringify({ bundle, instance, port, stateDir, settings })], {
        env: {
          PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
          CLOUDFLARE_CF_FETCH_ENABLED: "false",
          TMPDIR: join(stateDir, "tmp"),
        },
        onLine,
      }),
  });
}
