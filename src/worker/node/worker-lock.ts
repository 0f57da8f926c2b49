// Locks that keep two processes of one machine from being the same worker, built from files whose names identify their process.
import { createHash, randomBytes } from "node:crypto";
import { closeSync, openSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { discard, makeFolder } from "./atomic-files.ts";
import { codeOf } from "./error-code.ts";

/** A lock, or a message that names the process that has it. */
export type Locking = { ok: true; release: () => void } | { ok: false; message: string };

/** A short name for one key and one coordinator, used in file names. */
export function workerId(url: string, publicKey: string): string {
  return createHash("sha256")
    .update(`${new URL(url).href}\n${publicKey}`)
    .digest("hex")
    .slice(0, 16);
}

/**
 * Keeps two processes of this machine from being the same worker by accident; the coordinator would replace one by the other. A lock whose process has ended,
 * also by kill -9, does not count.
 */
export function lockWorker(folder: string, id: string): Locking {
  const lock = takeFileLock(folder, `worker-${id}`);
  if (lock.ok) return lock;
  const { owner } = lock;
  return {
    ok: false,
    message: `${owner === null ? "another process" : `process ${owner}`} is already this worker at this coordinator; stop it, or give this one another key (--key FILE)`,
  };
}

/** The running processes that have the locks of workers, each with the names of its workers. */
export function workerProcesses(folder: string): { pid: number; ids: string[] }[] {
  const ids = new Map<number, string[]>();
  for (const file of namesIn(folder)) {
    const [, id = "", tag = ""] = /^worker-([^.]+)\.([\d-]+)\.[^.]+\.lock$/.exec(file) ?? [];
    const owner = readProcessTag(tag);
    if (owner !== null && isRunning(owner, join(folder, file))) ids.set(owner.pid, [...(ids.get(owner.pid) ?? []), id]);
  }
  return [...ids].map(([pid, names]) => ({ pid, ids: names }));
}

/** A lock, or the process that has it. The owner is null if it changed with every try. */
type FileLock = { ok: true; release: () => void } | { ok: false; owner: number | null };

/** Two processes that ask at the same moment both withdraw. Each tries this often. */
const TRIES = 8;
const PAUSE_MS = 25;

/**
 * Takes a lock with one owner per name and folder on this machine. A claim is an empty file `<name>.<process>.<random>.lock`. A process creates its claim
 * first and then looks for the claim of another running process. Of two processes, the later one sees the claim of the earlier one, so they cannot both have
 * the lock. The name of a claim is never used again. Deleting the claim of a dead process can therefore never delete that of a running one.
 */
export function takeFileLock(folder: string, name: string): FileLock {
  makeFolder(folder);
  let owner: number | null = null;
  for (let tries = 0; tries < TRIES; tries++) {
    const claim = `${name}.${processTag(thisProcess())}.${randomBytes(6).toString("hex")}.lock`;
    closeSync(openSync(join(folder, claim), "wx", 0o600));
    owner = rivalOf(folder, name, claim);
    if (owner === null) return { ok: true, release: () => discard(join(folder, claim)) };
    rmSync(join(folder, claim), { force: true });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.random() * PAUSE_MS);
  }
  return { ok: false, owner };
}

/** The process that has a lock, or null. */
export function lockOwner(folder: string, name: string): number | null {
  return rivalOf(folder, name, null);
}

/** The running process of another claim, or null. Deletes the claims of dead processes. */
function rivalOf(folder: string, name: string, mine: string | null): number | null {
  let rival: number | null = null;
  for (const file of namesIn(folder)) {
    if (file === mine || !file.startsWith(`${name}.`) || !file.endsWith(".lock")) continue;
    const owner = readProcessTag(file.slice(name.length + 1).split(".")[0] ?? "");
    if (owner === null) continue;
    if (isRunning(owner, join(folder, file))) rival = owner.pid;
    else discard(join(folder, file));
  }
  return rival;
}

/** The names in a folder; none if it does not exist or cannot be read. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** A process of this machine. It differs from a later process with the same number. */
type ProcessId = {
  pid: number;
  /** When it started, in a form that can only be compared (Linux); null if the system does not state it. */
  started: string | null;
};

/** This process. */
export function thisProcess(): ProcessId {
  return { pid: process.pid, started: startOfProcess(process.pid) };
}

/** A process as a part of a file name: `1234-5678`, or `1234-0` if its start is unknown. */
export function processTag({ pid, started }: ProcessId): string {
  return `${pid}-${started ?? "0"}`;
}

/** Parses the text of {@link processTag}; null for anything else. */
export function readProcessTag(tag: string): ProcessId | null {
  const [, pid, started] = /^([1-9]\d{0,9})-(\d{1,20})$/.exec(tag) ?? [];
  if (pid === undefined || started === undefined) return null;
  return { pid: Number(pid), started: started === "0" ? null : started };
}

/**
 * True if the process that made a file still runs. Numbers are reused, in a container after every restart, so the start must be the same too if the system
 * states it. Otherwise the file tells at least whether it was made since the system has started: after a power cut the number may belong to anything.
 */
export function isRunning({ pid, started }: ProcessId, file: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it exists and belongs to another user.
    if (codeOf(error) !== "EPERM") return false;
  }
  const now = startOfProcess(pid);
  // The system can also hide the start of the processes of other users.
  return started === null || now === null ? !isFromBeforeStart(file) : now === started;
}

/** The clock may have been corrected since the file was made. */
const CLOCK_DOUBT_MS = 60_000;

/** True if a file is older than the present start of the system. */
function isFromBeforeStart(file: string): boolean {
  try {
    return statSync(file).mtimeMs < Date.now() - uptime() * 1_000 - CLOCK_DOUBT_MS;
  } catch {
    return false;
  }
}

/** When a process started, in a form that can only be compared (Linux); null if there is none, or if the system does not state it. */
export function startOfProcess(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field may contain spaces and brackets. The start time is field 22.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}
