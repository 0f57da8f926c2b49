import { createHash } from "node:crypto";
import { takeFileLock } from "./file-lock.ts";

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
 * A lock whose process is gone, also by kill -9, is no lock.
 */
export function lockWorker(folder: string, id: string): Locking {
  const lock = takeFileLock(folder, `worker-${id}`);
  if (lock.ok) return lock;
  const { holder } = lock;
  return {
    ok: false,
    message: `${holder === null ? "another process" : `process ${holder}`} is already this worker at this coordinator; stop it, or give this one another key (--key FILE)`,
  };
}
