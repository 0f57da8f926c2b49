// Reads and checks the receipt of a completion, one rule after the other. On a job's way: verify receipt.
import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto";
import * as z from "zod";
import { type Receipt, ReceiptFields } from "../../protocol/job.ts";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { isJsonObject, isoTime, isWellFormedJson, parseIsoTime } from "../../protocol/text.ts";
import type { JobComplete } from "../../protocol/worker-messages.ts";
import { parseSignature, toBase64 } from "../../receipt/bytes.ts";
import { receiptText, sameHash } from "../../receipt/receipt.ts";

// SubjectPublicKeyInfo header of an Ed25519 key (RFC 8410), before the 32 key bytes.
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
const keys = new Map<string, KeyObject>();

function keyObject(publicKey: string): KeyObject {
  let key = keys.get(publicKey);
  if (key === undefined) {
    if (keys.size >= LIMITS.sockets) keys.clear();
    key = createPublicKey({ key: Buffer.concat([SPKI, Buffer.from(publicKey, "hex")]), format: "der", type: "spki" });
    keys.set(publicKey, key);
  }
  return key;
}

/**
 * True if `signature` is the signature of `publicKey` over the UTF-8 of `text`. The key must have passed `isPublicKey` (no small order) when it registered;
 * BoringSSL refuses S ≥ L. It is synchronous on purpose: nothing can change between the check and the decision.
 */
export function verifySync(text: string, signature: Uint8Array, publicKey: string): boolean {
  return verify(null, Buffer.from(text, "utf8"), keyObject(publicKey), signature);
}

const SentReceipt = ReceiptFields.extend({
  payment_ref: z
    .string()
    .nullish()
    .transform((ref) => ref ?? null),
  signature: z.string().nullish(),
});

/** The most characters of a message about a receipt. The expected text of a receipt fits. */
const FAULT_CHARS = 600;

/**
 * Reads and checks the receipt of a completion [RC1–RC3]. The rules are checked one after the other, so that the worker is told which one failed [WS10].
 * @param outputText The output as `JSON.stringify` writes it.
 * @param key The key that registered on the socket.
 * @returns The receipt as sent, with its signature in base64, or null if none can be read; and which check failed: its name, a colon, and what was
 *   expected, or null if none failed. The values that the worker sent are not repeated.
 */
export function checkReceipt(frame: JobComplete, outputText: string, key: string, now: number): { receipt: Receipt | null; fault: string | null } {
  const unreadable = (fault: string) => ({ receipt: null, fault });
  if (!isJsonObject(frame.receipt)) return unreadable(`missing: receipt, an object with ${FIELDS.join(", ")}`);
  const sent = SentReceipt.safeParse(frame.receipt);
  if (!sent.success) {
    const fields = new Set(sent.error.issues.map((issue) => `receipt.${String(issue.path[0])}`));
    return unreadable(`missing: ${[...fields].join(", ")}: expected text`);
  }
  const { signature: inside, ...fields } = sent.data;
  const text = frame.receipt_signature ?? inside ?? "";
  const signature = parseSignature(text);
  if (text === "") return unreadable("missing: receipt_signature, beside receipt");
  if (signature === null) return unreadable("signature: expected 64 bytes as base64");
  const receipt = { ...fields, signature: toBase64(signature) };
  return { receipt, fault: faultOf(receipt, signature, frame, outputText, key, now)?.slice(0, FAULT_CHARS) ?? null };
}

const FIELDS = ["job_id", "provider_pubkey", "output_hash", "completed_at", "payment_ref"] as const;

function faultOf(receipt: Receipt, signature: Uint8Array, frame: JobComplete, outputText: string, key: string, now: number): string | null {
  if (receipt.job_id !== frame.job_id) return `job_id: expected ${frame.job_id}`;
  if (receipt.provider_pubkey.toLowerCase() !== key) return `key: expected ${key}, which registered on this socket`;
  const completedAt = parseIsoTime(receipt.completed_at);
  if (completedAt === null || Math.abs(now - completedAt) > TIMING.receiptSkew) {
    return `time: expected completed_at as ISO 8601 within ${TIMING.receiptSkew / 60_000} min of ${isoTime(now)}`;
  }
  if (!isWellFormedJson(frame.output)) return "hash: expected an output of well-formed Unicode; a lone surrogate has no UTF-8";
  const hash = `sha256:${createHash("sha256").update(outputText, "utf8").digest("hex")}`;
  if (!sameHash(receipt.output_hash, hash)) return `hash: expected ${hash} of the output as JSON.stringify writes it`;
  // The worker does not know the payment of its job, so it must not sign one.
  if (receipt.payment_ref !== null) return "signature: expected a receipt whose payment_ref is null";
  return verifySync(receiptText(receipt), signature, key) ? null : `signature: expected that of ${key} over the UTF-8 of ${receiptText(receipt)}`;
}
