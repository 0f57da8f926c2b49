import { randomBytes, randomUUID } from "node:crypto";
import { linkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { toHex } from "../../receipt/bytes.ts";
import { type KeyPair, keyPair } from "../../receipt/ed25519.ts";

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
