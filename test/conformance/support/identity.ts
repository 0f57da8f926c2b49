// Keys, signatures and receipts of workers for the conformance tests, made with node:crypto alone.
import { createHash, generateKeyPairSync, type KeyObject, createPublicKey, sign, verify } from "node:crypto";
import type { Fields } from "./api.ts";

/** A worker's ed25519 key. */
export type Identity = { pubkey: string; key: KeyObject };

export function newIdentity(): Identity {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  return { pubkey: publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex"), key: privateKey };
}

/** Signs the UTF-8 of `text` with ed25519; returns base64. */
export function signText({ key }: Identity, text: string): string {
  return sign(null, Buffer.from(text, "utf8"), key).toString("base64");
}

/** True if a base64 signature over `text` is from this key. */
export function verifyText(pubkey: string, text: string, signature: string): boolean {
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(pubkey, "hex")]);
  return verify(null, Buffer.from(text, "utf8"), createPublicKey({ key: der, format: "der", type: "spki" }), Buffer.from(signature, "base64"));
}

export function sha256(text: string): string {
  return createHash("sha256").update(Buffer.from(text, "utf8")).digest("hex");
}

/** [RC2] */
export function outputHash(output: unknown): string {
  return `sha256:${sha256(JSON.stringify(output))}`;
}

/** Returns the text that a receipt's signature covers [RC1]. */
export function receiptText(receipt: Fields): string {
  const { job_id, provider_pubkey, output_hash, completed_at, payment_ref } = receipt;
  return JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref });
}

/** Returns a receipt with its signature [RC1]; `changes` are signed too. */
export function receiptFor(identity: Identity, jobId: string, output: unknown, changes: Fields = {}): { receipt: Fields; receipt_signature: string } {
  const receipt = {
    job_id: jobId,
    provider_pubkey: identity.pubkey,
    output_hash: outputHash(output),
    completed_at: new Date().toISOString(),
    payment_ref: null,
    ...changes,
  };
  return { receipt, receipt_signature: signText(identity, receiptText(receipt)) };
}

/** Returns the text that a worker signs to register [WS3]. */
export function registerText(challenge: Fields, pubkey: string): string {
  return `compute-router/register/v1\n${String(challenge.network)}\n${String(challenge.host)}\n${String(challenge.nonce)}\n${pubkey}`;
}

/** The order of ed25519's base point. */
const L = 2n ** 252n + 27742317777372353535851937790883648493n;

/** The same signature with S + L: a lax verifier accepts it. */
export function malleable(signature: string): string {
  const bytes = Buffer.from(signature, "base64");
  let s = 0n;
  for (let index = 63; index >= 32; index -= 1) s = (s << 8n) | BigInt(bytes[index] ?? 0);
  s += L;
  for (let index = 32; index < 64; index += 1) {
    bytes[index] = Number(s & 255n);
    s >>= 8n;
  }
  return bytes.toString("base64");
}
