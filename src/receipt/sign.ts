import type { Receipt } from "../protocol/receipt.ts";
import { receiptText } from "./canonical.ts";
import { type KeyPair, signText } from "./ed25519.ts";
import { outputHash } from "./output-hash.ts";

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
