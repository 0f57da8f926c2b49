import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Coordinator, freePort, type Instance } from "../../scripts/coordinator-process.ts";
import { startBundled } from "./bundle.ts";
import { finallyDo } from "./finally.ts";

/** A folder of its own, removed after the tests of this file. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `compute-router-${name}-`));
  finallyDo(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A real coordinator on a free port with an empty state, ended after the tests of this file; in testnet mode unless `settings` say otherwise. */
export async function launchCoordinator(instance: Instance, settings: Record<string, string> = {}): Promise<Coordinator> {
  const stateDir = temporaryFolder(instance);
  const coordinator = await startBundled({ instance, port: await freePort(), stateDir, settings: { TESTNET_MODE: "true", ...settings } });
  finallyDo(() => coordinator.stop());
  return coordinator;
}
