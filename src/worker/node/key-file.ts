// The key file of a worker: read, create and rotate the ed25519 seed with which it signs registrations and receipts.
import { randomBytes, randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fromHex, toHex } from "../../receipt/bytes.ts";
import { keyPair, type KeyPair } from "../../receipt/ed25519.ts";
import { makeFolder, placeOnce } from "./atomic-files.ts";
import { codeOf } from "./error-code.ts";
import { ownCommand } from "./program.ts";

/** Result of reading a key file. `message` tells what to do about an unusable file. */
export type KeyFileResult =
  | { ok: true; key: KeyPair; made: boolean }
  | { ok: false; reason: "missing" | "open_to_others" | "malformed" | "unreadable"; message: string };

/** The key file of a worker without `--key`. */
export function defaultKeyFile(folder: string): string {
  return join(folder, "worker.key");
}

/** Reads a key file: the 32-byte ed25519 seed (RFC 8032) as 64 hex characters in one line. Only its owner may be able to read it. */
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
    if (code === "ENOENT")
      return {
        ok: false,
        reason: "missing",
        message: `there is no key file ${file}; if the worker has another folder, use --config-dir DIR; to create a key: ${ownCommand("worker init")}`,
      };
    return { ok: false, reason: "unreadable", message: `cannot read the key file ${file} (${code})` };
  }
  const seed = fromHex(text.trim().toLowerCase());
  if (seed?.length !== 32)
    return { ok: false, reason: "malformed", message: `${file} is not a key file: it must contain 64 hex characters (an ed25519 seed) and nothing else` };
  return { ok: true, key: keyPair(seed), made: false };
}

/** Reads a key file, or creates it on the first run. Two first runs at the same time get the same key. */
export function readOrMakeKeyFile(file: string): KeyFileResult {
  const found = readKeyFile(file);
  if (found.ok || found.reason !== "missing") return found;
  const seed = new Uint8Array(randomBytes(32));
  try {
    makeFolder(dirname(file));
    return placeOnce(file, `${toHex(seed)}\n`) ? { ok: true, key: keyPair(seed), made: true } : readKeyFile(file);
  } catch (error) {
    return { ok: false, reason: "unreadable", message: `cannot create the key file ${file} (${codeOf(error)}); use --key FILE or --config-dir DIR` };
  }
}

/** The new key of a key file, and the file with the old key beside it. */
export type Rotation = { key: KeyPair; oldFile: string };

/** Replaces the key in a key file and keeps the old key in another file. The key file contains a complete key at every moment. Throws the system's error. */
export function rotateKeyFile(file: string, old: KeyPair): Rotation {
  const oldFile = `${file}.${old.publicKey.slice(0, 16)}`;
  const seed = new Uint8Array(randomBytes(32));
  const draft = `${file}.${randomUUID()}`;
  try {
    writeFileSync(draft, `${toHex(seed)}\n`, { mode: 0o600, flag: "wx" });
    keepOld(file, oldFile, old);
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  return { key: keyPair(seed), oldFile };
}

function keepOld(file: string, oldFile: string, old: KeyPair): void {
  try {
    linkSync(file, oldFile);
  } catch (error) {
    // A rotation that was killed before its end has kept the old key already.
    const kept = readKeyFile(oldFile);
    if (kept.ok && kept.key.publicKey === old.publicKey) return;
    // A file system without links gets a copy.
    if (codeOf(error) === "EEXIST" || !placeOnce(oldFile, `${toHex(old.secret)}\n`)) throw error;
  }
}
