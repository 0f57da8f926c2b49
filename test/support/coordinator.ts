import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, type Instance } from "../../scripts/coordinator-process.ts";
import { folderOfRun } from "./bundle.ts";
import { type CoordinatorHere, startHere } from "./coordinator-here.ts";
import { finallyDo } from "./finally.ts";
import { get } from "./rest.ts";
import { until } from "./until.ts";

/** A folder of its own, removed after the tests of this file. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `compute-router-${name}-`));
  finallyDo(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A real coordinator on a free port with an empty state, ended after the tests of this file; in testnet mode unless `settings` say otherwise. */
export async function launchCoordinator(instance: Instance, settings: Record<string, string> = {}): Promise<CoordinatorHere> {
  const stateDir = temporaryFolder(instance);
  const coordinator = await startHere({ instance, port: await freePort(), stateDir, settings: { TESTNET_MODE: "true", ...settings } });
  finallyDo(() => coordinator.stop());
  return coordinator;
}

/** Those of this process, by what they were asked for. */
const shared = new Map<string, Promise<CoordinatorHere>>();

/**
 * Like {@link launchCoordinator}, but one for all files of this process that want the same one; it ends with the process. A start costs more than a second of
 * CPU. Each file has its own workers and users, and leaves no worker and no waiting job behind.
 */
export async function shareCoordinator(instance: Instance, settings: Record<string, string> = {}): Promise<CoordinatorHere> {
  const name = JSON.stringify([instance, settings]);
  const launching = shared.get(name) ?? launchForProcess(instance, settings);
  shared.set(name, launching);
  const coordinator = await launching;
  // The last tabs of the file before may just have been closed.
  await until("coordinator without workers", async () => ((await get(`${coordinator.url}/v1/health`)).body.workers_online === 0 ? true : undefined));
  return coordinator;
}

async function launchForProcess(instance: Instance, settings: Record<string, string>): Promise<CoordinatorHere> {
  return await startHere({ instance, port: await freePort(), stateDir: folderOfRun("shared"), settings: { TESTNET_MODE: "true", ...settings } });
}
