import { createPublicKey, verify } from "node:crypto";
import type { Receipt } from "./bench.ts";

/** The signature of a receipt as REST returns it, checked with the worker's null. */
export function isReceiptValid({ signature, ...receipt }: Receipt): boolean {
  const { job_id, provider_pubkey, output_hash, completed_at } = receipt;
  const signed = JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref: null });
  const key = createPublicKey({
    format: "der",
    type: "spki",
    key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(provider_pubkey, "hex")]),
  });
  return verify(null, Buffer.from(signed), key, Buffer.from(signature, "base64"));
}
