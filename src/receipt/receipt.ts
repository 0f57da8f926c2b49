import type { Receipt, ReceiptFields } from "../protocol/job.ts";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { toHex } from "./bytes.ts";
import { isPublicKey, type KeyPair, signText, verifyText } from "./ed25519.ts";

/**
 * The text whose UTF-8 a worker signs [RC1]: `JSON.stringify` of exactly these five fields in exactly this order.
 * `payment_ref` is null from the worker, whatever the coordinator fills in later [PY10].
 */
export function receiptText(receipt: ReceiptFields): string {
  const { job_id, provider_pubkey, output_hash, completed_at, payment_ref } = receipt;
  return JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref });
}

/** A parsed JSON value with the members of every object in RFC 8785 order (by UTF-16 code units). */
export function canonicalize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonicalize);
  if (typeof value !== "object" || value === null) return value;
  const sorted: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    // Assignment to __proto__ would set the prototype and lose the member.
    Object.defineProperty(sorted, name, { value: canonicalize(member), enumerable: true, configurable: true, writable: true });
  }
  return sorted;
}

/** `sha256:` and the lowercase hex of SHA-256 over the UTF-8 of `JSON.stringify` of the parsed output [RC2]. */
export function outputHash(output: unknown): string {
  return `sha256:${toHex(sha256(utf8ToBytes(JSON.stringify(output))))}`;
}

/** Whether a receipt's hash names `expected`; a bare-hex hash is read too [RC2]. */
export function sameHash(stated: string, expected: string): boolean {
  return stated === expected || `sha256:${stated}` === expected;
}

/** A worker's receipt for `output`, finished at `completedAt` (ISO 8601) [RC1, RC2]. */
export function signReceipt(key: KeyPair, jobId: string, output: unknown, completedAt: string): Receipt {
  const fields = {
    job_id: jobId,
    provider_pubkey: key.publicKey,
    output_hash: outputHash(output),
    completed_at: completedAt,
    payment_ref: null,
  };
  return { ...fields, signature: signText(receiptText(fields), key.secret) };
}

/** What checking a receipt found; the reasons are stable codes. */
export type ReceiptCheck = { ok: true } | { ok: false; reason: "invalid_key" | "hash_mismatch" | "bad_signature" };

/**
 * Checks a receipt against the `result` of its job as REST returns both [RC1, RC2]. Works offline.
 * A string output comes back wrapped as `{ output }`, so the hash may be of `result` or of its only member `output`.
 * The worker signed `payment_ref` as null, so that is what is checked, whatever settlement REST names there [PY10].
 */
export function verifyReceipt(receipt: Receipt, result: unknown): ReceiptCheck {
  const key = receipt.provider_pubkey.toLowerCase();
  if (!isPublicKey(key)) return { ok: false, reason: "invalid_key" };
  if (!readings(result).some((output) => sameHash(receipt.output_hash, outputHash(output)))) return { ok: false, reason: "hash_mismatch" };
  const signed = receiptText({ ...receipt, payment_ref: null });
  return verifyText(signed, receipt.signature, key) ? { ok: true } : { ok: false, reason: "bad_signature" };
}

/** The outputs that a `result` may stand for, the whole first. */
function readings(result: unknown): unknown[] {
  if (typeof result !== "object" || result === null) return [result];
  const members = Object.entries(result);
  const [only] = members;
  return members.length === 1 && only?.[0] === "output" ? [result, only[1]] : [result];
}
