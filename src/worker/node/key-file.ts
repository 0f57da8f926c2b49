import { randomBytes, randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fromHex, toHex } from "../../receipt/bytes.ts";
import { keyPair, type KeyPair } from "../../receipt/ed25519.ts";
import { ownCommand } from "./command-name.ts";
import { makeFolder } from "./worker-config.ts";

/** A key file, read. `message` says what to do about one that cannot be used. */
export type KeyFileResult =
  | { ok: true; key: KeyPair; made: boolean }
  | { ok: false; reason: "missing" | "open_to_others" | "malformed" | "unreadable"; message: string };

/** Where the key of a worker is unless `--key` says otherwise. */
export function defaultKeyFile(folder: string): string {
  return join(folder, "worker.key");
}

/** Reads a key file: the 32-byte ed25519 seed (RFC 8032) as 64 hex characters in one line, readable by its owner only. */
export function readKeyFile(file: string): KeyFileResult {
  let text: string;
  try {
    const { mode } = statSync(file);
    if (process.platform !== "win32" && (mode & 0o077) !== 0) {
      return { ok: false, reason: "open_to_others", message: `others can read the key file ${file}; run: chmod 600 '${file}'` };
    }
    text = readFileSync(file, "utf8");
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return { ok: false, reason: "missing", message: `there is no key file ${file}; to make one: ${ownCommand("worker init")}` };
    return { ok: false, reason: "unreadable", message: `cannot read the key file ${file} (${code})` };
  }
  const seed = fromHex(text.trim().toLowerCase());
  if (seed?.length !== 32)
    return { ok: false, reason: "malformed", message: `${file} is no key file: it must hold 64 hex characters (an ed25519 seed) and nothing else` };
  return { ok: true, key: keyPair(seed), made: false };
}

/** Reads a key file, or makes it on the first run. Two first runs at once end up with one key. */
export function readOrMakeKeyFile(file: string): KeyFileResult {
  const found = readKeyFile(file);
  if (found.ok || found.reason !== "missing") return found;
  const seed = new Uint8Array(randomBytes(32));
  try {
    makeFolder(dirname(file));
    return placeOnce(file, `${toHex(seed)}\n`) ? { ok: true, key: keyPair(seed), made: true } : readKeyFile(file);
  } catch (error) {
    return { ok: false, reason: "unreadable", message: `cannot make the key file ${file} (${codeOf(error)}); use --key FILE or --config-dir DIR` };
  }
}

/** Makes a file of one owner with this content; false if there is one already. It is never there half written. */
export function placeOnce(file: string, content: string): boolean {
  const draft = `${file}.${randomUUID()}`;
  try {
    writeFileSync(draft, content, { mode: 0o600, flag: "wx" });
    // Unlike a rename, a link never replaces what is there.
    linkSync(draft, file);
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    // A file system without links: exclusive creation is all there is.
    if (codeOf(error) !== "EPERM" && codeOf(error) !== "ENOTSUP" && codeOf(error) !== "ENOSYS") throw error;
    return createExclusive(file, content);
  } finally {
    // After a write that failed too: a disk that is full leaves a file without content.
    rmSync(draft, { force: true });
  }
}

function createExclusive(file: string, content: string): boolean {
  try {
    writeFileSync(file, content, { mode: 0o600, flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** The code of a system error, as `ENOENT`. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "unknown error";
}

/** A key file that has a new key; the old one is beside it. */
export type Rotation = { key: KeyPair; oldFile: string };

/** Gives a key file a new key and keeps the old one in a file of its own. There is a whole key in the file at every moment. Throws the system's error. */
export function rotateKeyFile(file: string, old: KeyPair): Rotation {
  const oldFile = `${file}.${old.publicKey.slice(0, 16)}`;
  const seed = new Uint8Array(randomBytes(32));
  const draft = `${file}.${randomUUID()}`;
  try {
    writeFileSync(draft, `${toHex(seed)}\n`, { mode: 0o600, flag: "wx" });
    linkSync(file, oldFile);
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  return { key: keyPair(seed), oldFile };
}
