import { randomBytes } from "node:crypto";
import { closeSync, openSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { makeFolder } from "./config-folder.ts";
import { isRunning, processTag, readProcessTag, thisProcess } from "./process-id.ts";

/** A lock that was taken, or the process that has it (null: it keeps changing hands). */
export type FileLock = { ok: true; release: () => void } | { ok: false; holder: number | null };

/** Two that ask at the same moment both step back; this often they try again. */
const TRIES = 8;
const PAUSE_MS = 25;

/**
 * One holder per name and folder on this machine. A claim is an empty file `<name>.<process>.<random>.lock`: whoever asks makes one, and then
 * looks for another whose process runs. Of two that ask, the later to make its file sees the earlier one's, so both cannot have the lock. A
 * claim's name is never used again, so clearing away what a dead process left can hit no living one: there is nothing to take over, hence
 * nothing to race for.
 */
export function takeFileLock(folder: string, name: string): FileLock {
  makeFolder(folder);
  let holder: number | null = null;
  for (let tries = 0; tries < TRIES; tries++) {
    const claim = `${name}.${processTag(thisProcess())}.${randomBytes(6).toString("hex")}.lock`;
    closeSync(openSync(join(folder, claim), "wx", 0o600));
    holder = rivalOf(folder, name, claim);
    if (holder === null) return { ok: true, release: () => rmSync(join(folder, claim), { force: true }) };
    rmSync(join(folder, claim), { force: true });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.random() * PAUSE_MS);
  }
  return { ok: false, holder };
}

/** The process that has a lock, or null. */
export function lockHolder(folder: string, name: string): number | null {
  return rivalOf(folder, name, null);
}

/** Another living claim's process, clearing away the dead ones. */
function rivalOf(folder: string, name: string, mine: string | null): number | null {
  let rival: number | null = null;
  for (const file of namesIn(folder)) {
    if (file === mine || !file.startsWith(`${name}.`) || !file.endsWith(".lock")) continue;
    const owner = readProcessTag(file.slice(name.length + 1).split(".")[0] ?? "");
    if (owner === null) continue;
    if (isRunning(owner)) rival = owner.pid;
    else rmSync(join(folder, file), { force: true });
  }
  return rival;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
