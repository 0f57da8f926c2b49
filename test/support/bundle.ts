/**
 * The coordinator as it is deployed, for tests that start many: it is bundled once per run, by wrangler as for a deployment. `npm run dev` bundles at each start,
 * which costs more than the start itself.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Coordinator, type CoordinatorOptions, startCoordinator, startWrangler } from "../../scripts/coordinator-process.ts";

/** The environment variable with the path of the bundle of this run. */
const BUNDLE = "COORDINATOR_BUNDLE";

/** For `globalSetup`: makes the bundle of this run, which all its projects and test processes share. An edit of the sources changes nothing in a test that runs. */
export async function setup(): Promise<(() => void) | undefined> {
  if (process.env[BUNDLE] !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "coordinator-bundle-"));
  const remove = (): void => {
    delete process.env[BUNDLE];
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
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
  return mkdtempSync(join(dirname(process.env[BUNDLE] ?? join(tmpdir(), "none")), `${name}-`));
}

/** Like `startCoordinator`, with the bundle of this run. */
export function startBundled(options: CoordinatorOptions): Promise<Coordinator> {
  const bundle = process.env[BUNDLE];
  if (bundle === undefined) throw new Error("this test needs test/support/bundle.ts as a globalSetup");
  return startCoordinator({ ...options, bundle });
}
