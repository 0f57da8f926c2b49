// The check that a coordinator owes its seekers, written for Node alone: the hash of the output and the signature of the worker, as RC1 and RC2 say.
import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto";

export type Receipt = { job_id: string; provider_pubkey: string; output_hash: string; completed_at: string; payment_ref: string | null; signature: string };

/** A worker's key, ready for many checks. */
export function publicKey(hex: string): KeyObject {
  return createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(hex, "hex").toString("base64url") } });
}

/** True if the receipt is about this output of this job and its worker signed it. */
export function isValid(receipt: Receipt, jobId: string, worker: string, key: KeyObject, output: unknown): boolean {
  const { job_id, provider_pubkey, output_hash, completed_at, payment_ref, signature } = receipt;
  if (job_id !== jobId || provider_pubkey !== worker) return false;
  if (Math.abs(Date.parse(completed_at) - Date.now()) > 300_000) return false;
  if (output_hash !== `sha256:${createHash("sha256").update(JSON.stringify(output)).digest("hex")}`) return false;
  const text = JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref });
  return verify(null, Buffer.from(text), key, Buffer.from(signature, "base64"));
}
