// The folder with the state of a coordinator, held by the process whose workerd writes it: no other one may write there at the same time.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { codeOf } from "../src/worker/node/error-code.ts";
import { isRunning, processTag, readProcessTag, startOfProcess } from "../src/worker/node/worker-lock.ts";

/** How long another coordinator may need to leave the folder: a stop takes 5 s while workers stay connected, and its supervisor may start it again at once. */
export const LEAVING_MS = 8_000;
/** How long the system may need to end a killed process. */
const ENDING_MS = 5_000;
const LOOK_MS = 20;
/** https://www.sqlite.org/rescode.html#busy */
const SQLITE_BUSY = 5;

/** The folder for temporary files in a state folder. No folder of a user has this name, so it can be deleted. */
export function temporaryFolderOf(stateDir: string): string {
  return join(stateDir, "coordinator.tmp");
}

/** What is said while another coordinator holds a folder. */
export function waitingFor(stateDir: string): string {
  return `another coordinator uses ${stateDir}: waiting up to ${LEAVING_MS / 1000} s until it has left`;
}

/** Kept here, because a database that nobody uses is closed. */
const held: DatabaseSync[] = [];

/**
 * Holds a state folder for as long as this process lives. It is a file lock of the operating system, so it also keeps out a process of another container, which
 * has other process numbers.
 * `say` gets a line if it has to wait.
 * @throws if another process holds it, or if its lock cannot be opened
 */
export function holdFolder(stateDir: string, say: (line: string) => void = () => {}, patienceMs: number = LEAVING_MS): void {
  if (tryToHold(stateDir, 0)) return;
  // SQLite waits without a sign of life.
  say(waitingFor(stateDir));
  if (!tryToHold(stateDir, patienceMs)) throw new Error(`${stateDir} is in use by another coordinator: stop it, or choose another state folder (--state DIR)`);
}

/** False if another process still holds the folder when the time is over. */
function tryToHold(stateDir: string, patienceMs: number): boolean {
  const file = join(stateDir, "coordinator.sqlite");
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { timeout: patienceMs });
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database?.close();
    if (error instanceof Error && "errcode" in error && error.errcode === SQLITE_BUSY) return false;
    // SQLite does not say which file it is about.
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`cannot lock ${file}: ${reason}; choose another state folder (--state DIR)`, { cause: error });
  }
  held.push(database);
  return true;
}

/** Notes the workerd of a folder that this process holds, for {@link endOrphan}. */
export function noteRuntime(stateDir: string, pid: number): void {
  writeFileSync(runtimeFile(stateDir), processTag({ pid, started: startOfProcess(pid) }));
}

/**
 * Ends the workerd that an earlier coordinator has left in a folder that this process holds. It remains when all Node processes are killed at once, and it
 * would go on writing. This is done only where the system states when a process started, because the number can belong to another process now.
 */
export async function endOrphan(stateDir: string): Promise<void> {
  const file = runtimeFile(stateDir);
  const orphan = existsSync(file) ? readProcessTag(readFileSync(file, "utf8")) : null;
  if (orphan === null || orphan.started === null) return;
  const deadline = Date.now() + ENDING_MS;
  while (isRunning(orphan, file)) {
    if (Date.now() > deadline) throw new Error(`the workerd of an earlier coordinator (process ${orphan.pid}) still writes to ${stateDir}: end it`);
    try {
      process.kill(orphan.pid, "SIGKILL");
    } catch (error) {
      // It has just ended, as one that was killed with its parents.
      if (codeOf(error) !== "ESRCH") throw error;
    }
    await delay(LOOK_MS);
  }
}

function runtimeFile(stateDir: string): string {
  return join(stateDir, "coordinator.workerd");
}
