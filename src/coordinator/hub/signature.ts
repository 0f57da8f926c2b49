import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { LIMITS } from "../../protocol/limits.ts";

/** The SubjectPublicKeyInfo header of an Ed25519 key (RFC 8410), before the 32 key bytes. */
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
/** The keys of workers, by their hex text. Bounded. */
const keys = new Map<string, KeyObject>();

function keyObject(publicKey: string): KeyObject {
  let key = keys.get(publicKey);
  if (key === undefined) {
    if (keys.size >= LIMITS.sockets) keys.clear();
    key = createPublicKey({ key: Buffer.concat([SPKI, Buffer.from(publicKey, "hex")]), format: "der", type: "spki" });
    keys.set(publicKey, key);
  }
  return key;
}

/**
 * True if `signature` is the signature of `publicKey` over the UTF-8 of `text`. The key must have passed `isPublicKey` (no small order) when it registered;
 * BoringSSL refuses S ≥ L. It is synchronous on purpose: nothing can change between the check and the decision.
 */
export function verifySync(text: string, signature: Uint8Array, publicKey: string): boolean {
  return verify(null, Buffer.from(text, "utf8"), keyObject(publicKey), signature);
}
