import * as ed from "@noble/ed25519";
import { sha512 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { fromHex, parseSignature, toBase64, toHex } from "./bytes.ts";

// The synchronous half of @noble/ed25519 takes its hash from here.
ed.hashes.sha512 = sha512;

/** A worker's key: 32-byte RFC 8032 seed and its public key as 64 lowercase hex characters. */
export type KeyPair = { secret: Uint8Array; publicKey: string };

/** The key pair of a 32-byte seed. */
export function keyPair(secret: Uint8Array): KeyPair {
  return { secret, publicKey: toHex(ed.getPublicKey(secret)) };
}

/**
 * Whether `publicKey` (64 lowercase hex) may stand for a worker: a canonical point of the prime-order group.
 * A small-order key "signs" every message without a secret, and WebCrypto does not refuse it.
 */
export function isPublicKey(publicKey: string): boolean {
  const bytes = fromHex(publicKey);
  if (bytes?.length !== 32) return false;
  try {
    const point = ed.Point.fromBytes(bytes, false);
    return !point.isSmallOrder() && point.isTorsionFree();
  } catch {
    return false;
  }
}

/** Signs the UTF-8 of `text`; base64 of 64 bytes. */
export function signText(text: string, secret: Uint8Array): string {
  return toBase64(ed.sign(utf8ToBytes(text), secret));
}

/** Whether `signature` (base64 or hex) is `publicKey`'s over the UTF-8 of `text`, by RFC 8032 rules: no small order, S < L. */
export function verifyText(text: string, signature: string, publicKey: string): boolean {
  const bytes = parseSignature(signature);
  if (bytes === null || !isPublicKey(publicKey)) return false;
  return ed.verify(bytes, utf8ToBytes(text), fromHex(publicKey) ?? new Uint8Array(), { zip215: false });
}
