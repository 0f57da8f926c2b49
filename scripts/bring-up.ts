import { join } from "node:path";
import { assertPortFree, type Coordinator, StartFailure, startCoordinator } from "./coordinator-process.ts";
import { startDemoWorker } from "./demo-worker.ts";
import { type Instance, INSTANCES } from "./instance.ts";
import { type LocalLlm, lookForLlm, readyLlm } from "./local-llm.ts";
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

/** What is up: the coordinators, and what their workers answer prompts with. */
export type Up = { coordinators: Coordinator[]; llm: LocalLlm };

/** Both instances with a desktop worker each, ready for jobs. @throws {StartFailure} */
export async function bringUp(session: Session, options: BringUp): Promise<Up> {
  // Before anything else: what keeps this process busy would make an answer late.
  const look = await lookForLlm(session.signal);
  const choice = readyLlm(look, session);
  const coordinators = await Promise.all(INSTANCES.map((instance) => bringUpOne(session, options, instance, choice)));
  return { coordinators, llm: await choice };
}

/** Rejects when one of them ends without being told to. */
export async function whileUp(coordinators: readonly Coordinator[]): Promise<never> {
  throw new StartFailure(await Promise.race(coordinators.map(async ({ instance, failed }) => `${instance}: ${await failed}`)));
}

async function bringUpOne(session: Session, { ports, stateDir, settings }: BringUp, instance: Instance, choice: Promise<LocalLlm>): Promise<Coordinator> {
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
  const llm = await choice;
  const worker = await startDemoWorker({
    ...{ coordinator, llm, folder: join(stateDir, `worker-${instance}`), onStart: session.keep },
    onLine: (line) => session.say(instance, line),
  });
  session.say(instance, `worker ${worker.publicKey.slice(0, 8)}… online with ${worker.model}${llm.kind === "toy" ? ", a toy" : ""}`);
  return coordinator;
}
