import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { toHex } from "./bytes.ts";

/** `sha256:` and the lowercase hex of SHA-256 over the UTF-8 of `JSON.stringify` of the parsed output [RC2]. */
export function outputHash(output: unknown): string {
  return `sha256:${toHex(sha256(utf8ToBytes(JSON.stringify(output))))}`;
}

/** Whether a receipt's hash names `expected`; a bare-hex hash is read too [RC2]. */
export function sameHash(stated: string, expected: string): boolean {
  return stated === expected || `sha256:${stated}` === expected;
}
