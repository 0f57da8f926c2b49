import type { ReceiptFields } from "../protocol/receipt.ts";

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
