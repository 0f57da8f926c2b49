import { join } from "node:path";
import { installEmbedded, isEmbeddedInstalled } from "../src/worker/runtimes/embedded-install.ts";
import { assertPortFree, type Coordinator, StartFailure, startCoordinator } from "./coordinator-process.ts";
import { startDemoWorker } from "./demo-worker.ts";
import { type Instance, INSTANCES } from "./instance.ts";
import type { Session } from "./session.ts";

/** What both instances start with. */
export type BringUp = {
  /** The command that chooses other ports. */
  command: string;
  ports: Readonly<Record<Instance, number>>;
  /** Folder of the databases and of the workers' keys. */
  stateDir: string;
  settings: Readonly<Record<Instance, Record<string, string>>>;
};

const STEPS = { starting: "starting the coordinator", restarting: "restarting the coordinator" };

/** @throws {StartFailure} when a port of an instance is taken */
export async function assertPortsFree({ command, ports }: Pick<BringUp, "command" | "ports">): Promise<void> {
  for (const instance of INSTANCES) await assertPortFree(ports[instance], `choose another: ${command} -- --${instance}-port N`);
}

/** Both instances with a desktop worker each, ready for jobs; the embedded runtime is installed first if need be. @throws {StartFailure} */
export async function bringUp(session: Session, options: BringUp): Promise<Coordinator[]> {
  const installed = install(session);
  return await Promise.all(INSTANCES.map((instance) => bringUpOne(session, options, instance, installed)));
}

/** Rejects when one of them ends without being told to. */
export async function whileUp(coordinators: readonly Coordinator[]): Promise<never> {
  throw new StartFailure(await Promise.race(coordinators.map(async ({ instance, failed }) => `${instance}: ${await failed}`)));
}

async function install({ say, signal }: Session): Promise<void> {
  if (isEmbeddedInstalled()) return;
  const installed = await installEmbedded((line) => say("", line), { signal });
  if (!installed.ok) throw new StartFailure(installed.message);
}

async function bringUpOne(session: Session, { ports, stateDir, settings }: BringUp, instance: Instance, runtimeInstalled: Promise<void>): Promise<Coordinator> {
  const coordinator = await startCoordinator({
    instance,
    port: ports[instance],
    stateDir: join(stateDir, instance),
    settings: settings[instance],
    onStep: (step) => session.say(instance, STEPS[step]),
    onLine: (line) => session.say(instance, line),
  });
  session.keep(coordinator);
  session.say(instance, `coordinator at ${coordinator.url}`);
  await runtimeInstalled;
  const worker = await startDemoWorker(coordinator, join(stateDir, `worker-${instance}`), session.keep);
  session.say(instance, `worker ${worker.publicKey.slice(0, 8)}… online with ${worker.model}`);
  return coordinator;
}
