/**
 * The coordinator as it is deployed, for tests that start many: it is bundled once per run, by wrangler as for a deployment. `npm run dev` bundles at each
 * start, which costs more than the start itself.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Coordinator, type CoordinatorOptions, startCoordinator, startWrangler } from "../../scripts/coordinator-process.ts";

/** The environment variable with the path of the bundle of this run. */
const BUNDLE = "COORDINATOR_BUNDLE";
/** The one with a folder that is removed when this run ends. */
const FOLDER = "COMPUTE_ROUTER_TEST_FOLDER";
/** Miniflare hands each certificate of this file to each runtime: 0.2 s of CPU per start, for connections to the internet, of which no test has any. */
const CERTIFICATES = "NODE_EXTRA_CA_CERTS";
const SETUP_MISSING = "this test needs test/support/bundle.ts as a globalSetup";

/**
 * For `globalSetup`: makes the folder and, unless the environment names one, the bundle of this run, which all its projects and test processes share. An edit
 * of the sources changes nothing in a test that runs.
 */
export async function setup(): Promise<(() => void) | undefined> {
  if (process.env[FOLDER] !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "compute-router-run-"));
  process.env[FOLDER] = folder;
  delete process.env[CERTIFICATES];
  const bundlesItself = process.env[BUNDLE] === undefined;
  const remove = (): void => {
    delete process.env[FOLDER];
    if (bundlesItself) delete process.env[BUNDLE];
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  if (!bundlesItself) return remove;
  const bundling = startWrangler(["deploy", "--dry-run", "-c", "wrangler.evm.toml", "--outdir", folder], folder);
  if ((await bundling.exited) !== 0) {
    remove();
    throw new Error(`wrangler cannot bundle the coordinator:\n${bundling.lines.join("\n")}`);
  }
  // The instances differ in their settings only.
  process.env[BUNDLE] = join(folder, "main.js");
  return remove;
}

/** A folder that is removed when this run ends: a test process may be ended before it can remove anything. */
export function folderOfRun(name: string): string {
  const folder = process.env[FOLDER];
  if (folder === undefined) throw new Error(SETUP_MISSING);
  return mkdtempSync(join(folder, `${name}-`));
}

/** Like `startCoordinator`, with the bundle of this run. */
export function startBundled(options: CoordinatorOptions): Promise<Coordinator> {
  return startCoordinator({ ...options, bundle: bundleOfRun() });
}

/** The path of the bundle of this run. */
export function bundleOfRun(): string {
  const bundle = process.env[BUNDLE];
  if (bundle === undefined) throw new Error(SETUP_MISSING);
  return bundle;
}
