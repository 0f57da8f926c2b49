import type { Receipt, ReceiptFields } from "../protocol/job.ts";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { toHex } from "./bytes.ts";
import { isPublicKey, type KeyPair, signText, verifyText } from "./ed25519.ts";

/**
 * The text whose UTF-8 a worker signs [RC1]: `JSON.stringify` of exactly these five fields in exactly this order.
 *
 * @param receipt the five fields; other members are left out. A worker signs `payment_ref` as null, whatever the coordinator fills in later [PY10]
 * @returns JSON text without spaces
 */
export function receiptText(receipt: ReceiptFields): string {
  const { job_id, provider_pubkey, output_hash, completed_at, payment_ref } = receipt;
  return JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref });
}

/**
 * Sorts the members of every object in a value, so that equal outputs have equal hashes. Our own workers do so before they hash and send an output.
 *
 * @param value a parsed JSON value; it is not changed
 * @returns a copy with the members in the order of RFC 8785 section 3.2.3 (by UTF-16 code units); integer-like names stay first, as ECMAScript has it
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
 */
export function outputHash(output: unknown): string {
  return `sha256:${toHex(sha256(utf8ToBytes(JSON.stringify(output))))}`;
}

/** Whether a receipt's hash names `expected`; a bare-hex hash is read too [RC2]. */
export function sameHash(stated: string, expected: string): boolean {
  return stated === expected || `sha256:${stated}` === expected;
}

/**
 * Makes a worker's receipt for an output [RC1, RC2].
 *
 * @param key the worker's key pair
 * @param jobId `job_id` of the assignment
 * @param output the output as it is sent: an object, or a text
 * @param completedAt ISO 8601 with a time zone, at most 5 minutes from the coordinator's clock [RC3]
 * @returns the five fields, `payment_ref` null, and the signature in base64
 * @example
 * const key = keyPair(crypto.getRandomValues(new Uint8Array(32)));
 * const receipt = signReceipt(key, jobId, { sentiment: "positive", confidence: 1 }, new Date().toISOString());
 */
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

/** Result of {@link verifyReceipt}; the reasons are stable codes. */
export type ReceiptCheck = { ok: true } | { ok: false; reason: "invalid_key" | "hash_mismatch" | "bad_signature" };

/**
 * Checks a receipt against the `result` of its job, as REST returns both [RC1, RC2]. Works offline. A valid receipt proves that the holder of
 * `provider_pubkey` signed this output for `receipt.job_id`. Compare that id with the job that you asked for, and the key with the worker that you trust.
 *
 * A text output comes back wrapped as `{ output }`, so the hash may be of `result` or of its only member `output`. The worker signed `payment_ref` as
 * null, so the check puts null there, whatever settlement REST names [PY10]. The signature is Ed25519 (RFC 8032), verified strictly: no small-order
 * key, S < L.
 *
 * @param receipt `receipt` of the job
 * @param result `result` of the job, parsed
 * @returns `{ ok: true }`, or `{ ok: false, reason }` with `invalid_key` (`provider_pubkey` is no key that may sign), `hash_mismatch` (it is another
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
