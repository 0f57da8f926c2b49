// Ed25519 keys, signatures and fingerprints. On a job's way: the worker signs here after the run, and the verify step and the clients check here.
import * as ed from "@noble/ed25519";
import { sha256, sha512 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { fromHex, parseSignature, toBase64, toHex } from "./bytes.ts";

// The synchronous functions of @noble/ed25519 need this hash.
ed.hashes.sha512 = sha512;

/** A worker's key: 32-byte RFC 8032 seed and its public key as 64 lowercase hex characters. */
export type KeyPair = { secret: Uint8Array; publicKey: string };

/**
 * The key pair of a seed (RFC 8032 section 5.1.5).
 *
 * @param secret 32 random bytes; keep them secret
 * @returns the seed, and its public key as 64 lowercase hex characters
 * @throws RangeError if `secret` does not have 32 bytes
 * @example
 * const key = keyPair(crypto.getRandomValues(new Uint8Array(32)));
 */
export function keyPair(secret: Uint8Array): KeyPair {
  return { secret, publicKey: toHex(ed.getPublicKey(secret)) };
}

/**
 * True if `publicKey` (64 lowercase hex) may identify a worker: a canonical point of the prime-order group.
 * With a small-order key everyone can sign every message, and WebCrypto does not refuse such a key.
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

/**
 * Signs a text with Ed25519 (RFC 8032). A worker signs its registration, its pairing and its receipts with it.
 *
 * @param text its UTF-8 is signed
 * @param secret the 32-byte seed
 * @returns the signature: base64 of 64 bytes
 * @throws if `secret` does not have 32 bytes
 * @example
 * const signature = signText(registerText({ network, host, nonce, pubkey: key.publicKey }), key.secret);
 */
export function signText(text: string, secret: Uint8Array): string {
  return toBase64(ed.sign(utf8ToBytes(text), secret));
}

/**
 * Checks a signature by the strict rules of RFC 8032: no small-order key, S < L.
 *
 * @param text its UTF-8 was signed
 * @param signature 64 bytes in base64 or hex; anything else is not valid
 * @param publicKey 64 lowercase hex characters; anything else is not valid
 * @returns true if the holder of the key signed the text
 * @example
 * const proven = verifyText(pairText({ network, code, pubkey }), signature, pubkey);
 */
export function verifyText(text: string, signature: string, publicKey: string): boolean {
  const bytes = parseSignature(signature);
  if (bytes === null || !isPublicKey(publicKey)) return false;
  return ed.verify(bytes, utf8ToBytes(text), fromHex(publicKey) ?? new Uint8Array(), { zip215: false });
}

// Each word has an onset (high half of a byte) and an ending (low half): 256 words that people pronounce as they are written.
const ONSETS = ["b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z"];
const ENDINGS = ["abo", "adi", "afu", "ako", "ela", "emi", "eno", "ero", "iba", "ido", "ilu", "ima", "osa", "oti", "uka", "una"];

/** Words of a fingerprint. They stand for 8 bytes, which is too many to find a second key with the same words by trial. */
const WORDS = 8;

/**
 * The eight words of a public key (64 hex characters), which people compare by eye or over the phone. They encode the first 8 bytes of SHA-256 over the UTF-8
 * of `compute-router/fingerprint/v1`, a line feed and the key in lower case: one word per byte. SDK, CLI and page show the same words.
 */
export function fingerprintWords(publicKey: string): string[] {
  const digest = sha256(utf8ToBytes(`compute-router/fingerprint/v1\n${publicKey.toLowerCase()}`));
  return Array.from(digest.subarray(0, WORDS), (byte) => `${ONSETS[byte >> 4]}${ENDINGS[byte & 15]}`);
}

/**
 * The fingerprint of a worker's key: eight words that people compare by eye or over the phone. docs/receipts.md describes how they are computed.
 *
 * @param publicKey 64 hex characters; case does not matter
 * @returns the words, separated by single spaces
 * @throws TypeError if it is not 64 hex characters: the words of anything else would look as good as those of a key
 * @example
 * const { publicKey } = await router.trust.waitForWorker(offer);
 * console.log(fingerprintOf(publicKey)); // the worker's owner sees the same words
 */
export function fingerprintOf(publicKey: string): string {
  if (!/^[0-9a-f]{64}$/i.test(publicKey)) throw new TypeError("the public key must be 64 hex characters");
  return fingerprintWords(publicKey).join(" ");
}

/** A public key in a short form that is easy to compare. */
export function shortKey(publicKey: string): string {
  return `${publicKey.slice(0, 4)}…${publicKey.slice(-4)}`;
}
