// Starts the coordinators that the conformance tests see from outside.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { isPortFree } from "../../../scripts/coordinator-process.ts";
import { lockOwner, takeFileLock } from "../../../src/worker/node/worker-lock.ts";
import { startHere } from "../../support/coordinator-here.ts";
import { folderOfRun } from "../../support/bundle.ts";
import { Api } from "./api.ts";
import { pass, within } from "./wait.ts";

const FIRST_PORT = 4600;
const PORTS = 400;
const PORTS_PER_PROCESS = 40;
/** How long the shared coordinator may take to end what was cancelled. Another one costs about as much. */
const REST_MS = 1_000;

/** A running coordinator under test. */
export type Subject = {
  /** Its REST API. */
  api: Api;
  /** http://127.0.0.1:port */
  url: string;
  /** ws://127.0.0.1:port/ */
  socketUrl: string;
  /** 127.0.0.1:port */
  host: string;
  port: number;
  stateDir: string;
  /** The warnings and errors that it printed. */
  log: string[];
  stop: () => Promise<void>;
  kill: () => Promise<void>;
};

/** That of this process. */
let shared: Promise<Subject> | null = null;
const running: (() => Promise<void>)[] = [];
const folders = new Set<string>();

/** Ends the coordinators of this file; setup.ts calls it after the tests. */
export async function endCoordinators(): Promise<void> {
  await Promise.all([...running.splice(0).map((end) => end()), leaveShared()]);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  folders.clear();
}

/** Starts a coordinator with an empty state (or with `stateDir`); it stops after the tests of this file. */
export async function start(instance: "evm" | "svm", settings: Record<string, string> = { TESTNET_MODE: "true" }, reuse?: Subject): Promise<Subject> {
  const stateDir = reuse?.stateDir ?? mkdtempSync(join(tmpdir(), `conformance-${instance}-`));
  folders.add(stateDir);
  const subject = await launch(instance, settings, stateDir, reuse?.port);
  running.push(async () => {
    await subject.stop();
    if (process.env.CONFORMANCE_LOG) console.log(subject.log.join("\n"));
  });
  return subject;
}

/**
 * Like `start` of evm, but one for all files of this process that call this; it ends with the process. A start costs more than a second of CPU. It is for files
 * that neither stop it nor fill it. What they leave waiting is cancelled; where something goes on all the same, the next file gets another coordinator.
 */
export async function share(): Promise<Subject> {
  shared ??= launch("evm", { TESTNET_MODE: "true" }, folderOfRun("shared"));
  const subject = await shared;
  await within(
    10_000,
    async () => ((await subject.api.get("/v1/health")).body.workers_online === 0 ? true : undefined),
    () => "the workers of the last file to leave",
  );
  return subject;
}

/** Leaves it to the next file, unless a job of this one goes on there. */
async function leaveShared(): Promise<void> {
  const subject = await shared;
  if (subject === null) return;
  const said = subject.log.splice(0);
  if (process.env.CONFORMANCE_LOG) console.log(said.join("\n"));
  await subject.api.cancelAll();
  for (const deadline = performance.now() + REST_MS; ;) {
    if (openJobs(subject) === 0) return;
    if (performance.now() > deadline) break;
    await pass(50);
  }
  shared = null;
  await subject.stop();
}

async function launch(instance: "evm" | "svm", settings: Record<string, string>, stateDir: string, given?: number): Promise<Subject> {
  const port = given ?? (await pickPort());
  const log: string[] = [];
  const coordinator = await startHere({ instance, port, stateDir, settings, onLine: (line) => log.push(line) });
  return {
    api: new Api(coordinator.url),
    url: coordinator.url,
    socketUrl: `ws://127.0.0.1:${port}/`,
    host: `127.0.0.1:${port}`,
    port,
    stateDir,
    log,
    stop: () => coordinator.stop(),
    kill: () => coordinator.kill(),
  };
}

const PORT_LOCKS = join(tmpdir(), "compute-router-conformance-ports");

/**
 * A port that this process keeps until its end: a free port alone may be found by two processes at once, whose tests then share one coordinator; and a client
 * of this process may keep a connection to the coordinator that had the port before.
 */
async function pickPort(): Promise<number> {
  const first = (Number(process.env.VITEST_POOL_ID ?? 1) - 1) * PORTS_PER_PROCESS;
  for (let offset = 0; offset < PORTS; offset += 1) {
    const port = FIRST_PORT + ((first + offset) % PORTS);
    if (lockOwner(PORT_LOCKS, String(port)) !== null || !takeFileLock(PORT_LOCKS, String(port)).ok) continue;
    if (await isPortFree(port)) return port;
  }
  throw new Error(`no free port from ${FIRST_PORT} to ${FIRST_PORT + PORTS - 1}`);
}

/** Runs SQL on the coordinator's database, as an operator would with `wrangler d1 execute`, which costs 3 s of CPU. */
export function sql({ stateDir }: { stateDir: string }, command: string): void {
  const database = databaseOf(join(stateDir, "v3", "d1", "miniflare-D1DatabaseObject"));
  try {
    database.exec(command);
  } finally {
    database.close();
  }
}

/** How many jobs of the hub have not ended. */
function openJobs({ stateDir }: Subject): number {
  const database = databaseOf(join(stateDir, "v3", "do", "compute-router-evm-WorkerHub"));
  try {
    return database.prepare("SELECT id FROM jobs WHERE ended_at IS NULL").all().length;
  } finally {
    database.close();
  }
}

function databaseOf(folder: string): DatabaseSync {
  const file = readdirSync(folder).find((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite");
  if (file === undefined) throw new Error(`no database in ${folder}`);
  return new DatabaseSync(join(folder, file), { timeout: 5_000 });
}
