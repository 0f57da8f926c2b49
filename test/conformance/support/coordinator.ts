// Starts the coordinators that the conformance tests see from outside.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { isPortFree } from "../../../scripts/coordinator-process.ts";
import { lockOwner, takeFileLock } from "../../../src/worker/node/worker-lock.ts";
import { startHere } from "../../support/coordinator-here.ts";
import { Api } from "./api.ts";

const FIRST_PORT = 4600;
const PORTS = 400;
const PORTS_PER_PROCESS = 40;

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

const running: (() => Promise<void>)[] = [];
const folders = new Set<string>();

/** Ends the coordinators of this file; setup.ts calls it after the tests. */
export async function endCoordinators(): Promise<void> {
  await Promise.all(running.splice(0).map((end) => end()));
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  folders.clear();
}

/** Starts a coordinator with an empty state (or with `stateDir`); it stops after the tests of this file. */
export async function start(instance: "evm" | "svm", settings: Record<string, string> = { TESTNET_MODE: "true" }, reuse?: Subject): Promise<Subject> {
  const stateDir = reuse?.stateDir ?? mkdtempSync(join(tmpdir(), `conformance-${instance}-`));
  folders.add(stateDir);
  const port = reuse?.port ?? (await pickPort());
  const log: string[] = [];
  const coordinator = await startHere({ instance, port, stateDir, settings, onLine: (line) => log.push(line) });
  running.push(async () => {
    await coordinator.stop();
    if (process.env.CONFORMANCE_LOG) console.log(log.join("\n"));
  });
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
 * A port that this process keeps until its end: a free port alone may be found by two processes at once, whose tests then share one coordinator; and a client of
 * this process may keep a connection to the coordinator that had the port before.
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
  const folder = join(stateDir, "v3", "d1", "miniflare-D1DatabaseObject");
  const file = readdirSync(folder).find((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite");
  if (file === undefined) throw new Error(`no database in ${folder}`);
  const database = new DatabaseSync(join(folder, file), { timeout: 5_000 });
  try {
    database.exec(command);
  } finally {
    database.close();
  }
}
