import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";

// A word is an onset (high half of a byte) and an ending (low half): 256 words that are said as they are spelled.
const ONSETS = ["b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z"];
const ENDINGS = ["abo", "adi", "afu", "ako", "ela", "emi", "eno", "ero", "iba", "ido", "ilu", "ima", "osa", "oti", "uka", "una"];

/** Words of a fingerprint: 8 bytes, so that nobody makes a second key with the same ones by trying. */
const WORDS = 8;

/**
 * Eight words that stand for a public key (64 hex characters), for people to compare by eye or over the phone: the first 8 bytes of SHA-256 over
 * the UTF-8 of `compute-router/fingerprint/v1`, a line feed and the key in lower case, a word for each byte. SDK, CLI and page show the same ones.
 */
export function fingerprintWords(publicKey: string): string[] {
  const digest = sha256(utf8ToBytes(`compute-router/fingerprint/v1\n${publicKey.toLowerCase()}`));
  return Array.from(digest.subarray(0, WORDS), (byte) => `${ONSETS[byte >> 4]}${ENDINGS[byte & 15]}`);
}

/** The words of a public key (64 hex characters) in one line, as they are said on the phone. */
export function fingerprintOf(publicKey: string): string {
  return fingerprintWords(publicKey).join(" ");
}
