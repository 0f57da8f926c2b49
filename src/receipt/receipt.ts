// Receipts: the canonical bytes, the hash of an output, signing and verification. The worker makes one after the run; the hub and the clients check it.
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import type { Receipt, ReceiptFields } from "../protocol/job.ts";
import { toHex } from "./bytes.ts";
import { isPublicKey, type KeyPair, signText, verifyText } from "./ed25519.ts";

/**
 * The text whose UTF-8 a worker signs [RC1]: `JSON.stringify` of exactly these five fields in exactly this order.
 *
 * @param receipt the five fields; other members are ignored. A worker signs `payment_ref` as null; the coordinator may fill it in later [PY10]
 * @returns JSON text without spaces
 * @example
 * const signature = signText(receiptText(fields), key.secret);
 */
export function receiptText(receipt: ReceiptFields): string {
  const { job_id, provider_pubkey, output_hash, completed_at, payment_ref } = receipt;
  return JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref });
}

/**
 * Sorts the members of every object in a value, so that equal outputs have equal hashes. The workers of this package sort an output before they hash and
 * send it.
 *
 * @param value a parsed JSON value; it is not changed
 * @returns a copy with the members in the order of RFC 8785 section 3.2.3 (by UTF-16 code units); integer-like names come first, as ECMAScript requires
 * @example
 * outputHash(canonicalize({ b: 1, a: 2 })) === outputHash(canonicalize({ a: 2, b: 1 })); // true
 */
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

/**
 * The hash of an output, as a receipt states it [RC2].
 *
 * @param output the parsed output: an object, or the text itself
 * @returns `sha256:` and 64 lowercase hex digits: SHA-256 (FIPS 180-4) over the UTF-8 of `JSON.stringify(output)`
 * @example
 * outputHash({ sentiment: "positive", confidence: 1 }); // "sha256:…"
 */
export function outputHash(output: unknown): string {
  return `sha256:${toHex(sha256(utf8ToBytes(JSON.stringify(output))))}`;
}

/** True if a receipt's hash equals `expected`; a hash without the prefix `sha256:` counts too [RC2]. */
export function sameHash(stated: string, expected: string): boolean {
  return stated === expected || `sha256:${stated}` === expected;
}

/**
 * Makes a worker's receipt for an output [RC1, RC2].
 *
 * @param key the worker's key pair
 * @param jobId `job_id` of the assignment
 * @param output the output as the worker sends it: an object, or a text
 * @param completedAt ISO 8601 with a time zone, at most 5 minutes from the coordinator's clock [RC3]
 * @returns the five fields (`payment_ref` is null) and the signature in base64
 * @throws if the secret of `key` does not have 32 bytes
 * @example
 * const key = keyPair(crypto.getRandomValues(new Uint8Array(32)));
 * const receipt = signReceipt(key, jobId, { sentiment: "positive", confidence: 1 }, new Date().toISOString());
 */
export function signReceipt(key: KeyPair, jobId: string, output: unknown, completedAt: string): Receipt {
  const fields = receiptFields(key.publicKey, jobId, output, completedAt);
  return { ...fields, signature: signText(receiptText(fields), key.secret) };
}

/** What a worker signs about an output: the five fields of a receipt, as {@link signReceipt} makes them. */
export function receiptFields(publicKey: string, jobId: string, output: unknown, completedAt: string): ReceiptFields {
  return { job_id: jobId, provider_pubkey: publicKey, output_hash: outputHash(output), completed_at: completedAt, payment_ref: null };
}

/** Result of {@link verifyReceipt}; the reasons are stable codes. */
export type ReceiptCheck = { ok: true } | { ok: false; reason: "invalid_key" | "hash_mismatch" | "bad_signature" };

/**
 * Checks a receipt against the `result` of its job, as REST returns both [RC1, RC2]. It works offline. A valid receipt proves that the holder of
 * `provider_pubkey` signed this output for `receipt.job_id`. Compare that id with the job that you asked for, and the key with the worker that you trust.
 *
 * REST wraps a text output as `{ output }`, so the hash may be that of `result` or that of its only member `output`. The worker signs `payment_ref` as null,
 * so the check uses null there and ignores the settlement that REST fills in [PY10]. The signature is Ed25519 (RFC 8032), verified strictly: no small-order
 * key, S < L.
 *
 * @param receipt `receipt` of the job
 * @param result `result` of the job, parsed
 * @returns `{ ok: true }`, or `{ ok: false, reason }` with `invalid_key` (`provider_pubkey` is not a valid key), `hash_mismatch` (the receipt is for another
 *   output) or `bad_signature`
 * @throws TypeError if `receipt` is not an object with the members of a receipt
 * @example
 * const job = await router.get(jobId);
 * if (job.receipt !== null) {
 *   const check = verifyReceipt(job.receipt, job.result);
 *   console.log(check.ok && job.receipt.job_id === jobId ? "valid" : check);
 * }
 */
export function verifyReceipt(receipt: Receipt, result: unknown): ReceiptCheck {
  // Polling gives null where there is none, and JavaScript has no types.
  if (typeof receipt !== "object" || receipt === null) throw new TypeError("there is no receipt to verify");
  const key = receipt.provider_pubkey.toLowerCase();
  if (!isPublicKey(key)) return { ok: false, reason: "invalid_key" };
  if (!possibleOutputs(result).some((output) => sameHash(receipt.output_hash, outputHash(output)))) return { ok: false, reason: "hash_mismatch" };
  const signed = receiptText({ ...receipt, payment_ref: null });
  return verifyText(signed, receipt.signature, key) ? { ok: true } : { ok: false, reason: "bad_signature" };
}

/** The outputs that the worker may have hashed for this `result`, the whole first. */
function possibleOutputs(result: unknown): unknown[] {
  if (typeof result !== "object" || result === null) return [result];
  const members = Object.entries(result);
  const [only] = members;
  return members.length === 1 && only?.[0] === "output" ? [result, only[1]] : [result];
}
