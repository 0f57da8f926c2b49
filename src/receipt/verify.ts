import type { Receipt } from "../protocol/receipt.ts";
import { receiptText } from "./canonical.ts";
import { isPublicKey, verifyText } from "./ed25519.ts";
import { outputHash, sameHash } from "./output-hash.ts";

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
