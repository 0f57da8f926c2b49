import { createHash, randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { codeOf, placeOnce } from "./key-file.ts";

const Holder = z.object({ pid: z.int().positive(), started: z.string().nullable() });
type Holder = z.infer<typeof Holder>;

/** A lock that was taken, or who has it. */
export type Locking = { ok: true; release: () => void } | { ok: false; message: string };

/** A short name for one key at one coordinator, used in file names. */
export function workerId(url: string, publicKey: string): string {
  return createHash("sha256")
    .update(`${new URL(url).href}\n${publicKey}`)
    .digest("hex")
    .slice(0, 16);
}

/**
 * Keeps two processes of this machine from being the same worker by accident: the coordinator would replace one by the other.
 * A lock whose process is gone, also by kill -9, is taken over.
 */
export function lockWorker(folder: string, id: string): Locking {
  const file = join(folder, `worker-${id}.lock`);
  const mine = JSON.stringify({ pid: process.pid, started: startOf(process.pid) });
  for (let tries = 0; tries < 3; tries++) {
    if (placeOnce(file, mine)) return { ok: true, release: () => release(file, mine) };
    const text = contentOf(file);
    const holder = readHolder(text);
    if (holder !== null && isAlive(holder)) {
      return {
        ok: false,
        message: `process ${holder.pid} is already this worker at this coordinator; stop it, or give this one another key (--key FILE). Lock: ${file}`,
      };
    }
    takeAway(file, text);
  }
  return { ok: false, message: `cannot take the lock ${file}; if no other worker runs, delete it` };
}

function release(file: string, mine: string): void {
  if (contentOf(file) === mine) rmSync(file, { force: true });
}

/** Removes a stale lock; one that somebody made meanwhile is put back. */
function takeAway(file: string, stale: string | null): void {
  const aside = `${file}.${randomUUID()}`;
  try {
    renameSync(file, aside);
    if (contentOf(aside) !== stale) linkSync(aside, file);
  } catch (error) {
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "EEXIST") throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

function contentOf(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

function readHolder(text: string | null): Holder | null {
  try {
    return Holder.parse(JSON.parse(text ?? ""));
  } catch {
    return null;
  }
}

function isAlive({ pid, started }: Holder): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and belongs to somebody else.
    return codeOf(error) === "EPERM";
  }
  // Process ids come again, in a container after every restart: where the system tells, the start must be the same too.
  return started === null || startOf(pid) === started;
}

/** When a process started, in a form that only compares (Linux); null elsewhere. */
function startOf(pid: number): string | null {
  const stat = contentOf(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The second field may hold spaces and brackets; the start time is field 22.
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
}
