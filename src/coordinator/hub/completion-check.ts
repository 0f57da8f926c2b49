import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto";
import * as z from "zod";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { type Receipt, ReceiptFields } from "../../protocol/receipt.ts";
import { isJsonObject, isWellFormedJson, parseIsoTime, utf8Length } from "../../protocol/text.ts";
import type { JobComplete } from "../../protocol/worker-messages.ts";
import { parseSignature, toBase64 } from "../../receipt/bytes.ts";
import { receiptText } from "../../receipt/canonical.ts";
import { sameHash } from "../../receipt/output-hash.ts";
import type { Verdict } from "../dispatch/index.ts";

/** A completion as the hub read it: what it is worth and what would be stored. */
export type CheckedCompletion = {
  verdict: Verdict;
  /** JSON text of the object that REST will return as `result` [JB7]. */
  result: string;
  /** The receipt as sent, its signature in base64; null where none is readable [RC4]. */
  receipt: (Receipt & { verified: boolean }) | null;
  /** What the worker said instead of a result, fit to be shown. */
  message?: string;
};

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
 * Whether `signature` is `publicKey`'s over the UTF-8 of `text`. The key must have passed `isPublicKey` (no small order) when it registered;
 * BoringSSL refuses S ≥ L. Synchronous on purpose: nothing can change between the check and what it decides.
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

/** Checks a completion by the rules for receipts, sizes and shapes [RC2, RC3, LM1, JB5]. `key` is the key that registered on the socket. */
export function checkCompletion(frame: JobComplete, key: string, now: number): CheckedCompletion {
  const text = JSON.stringify(frame.output);
  const result = typeof frame.output === "string" ? `{"output":${text}}` : text;
  if (utf8Length(text) > LIMITS.outputBytes) return { verdict: "output_too_large", result, receipt: null };
  const receipt = readReceipt(frame);
  const verified = receipt !== null && isWellFormedJson(frame.output) && isValid(receipt, frame.job_id, text, key, now);
  const read = { result, receipt: receipt && { ...receipt, verified } };
  const error = errorOf(frame.output);
  if (error !== null) return { verdict: "worker_error", ...read, ...workerMessage(error) };
  return { verdict: verified ? "valid" : "invalid_receipt", ...read };
}

/** Characters without a picture that could rewrite the line they stand in: controls, and those that turn the direction of text. */
const UNSEEN = /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** What a worker said about a failure, as `result.message` shows it to the seeker: bounded, one line, and nothing that a terminal obeys [JB5]. */
export function workerMessage(text: string | null | undefined): { message?: string } {
  // Four times the bound, so that what is removed does not count.
  const line = (text ?? "")
    .slice(0, 4 * LIMITS.messageChars)
    .toWellFormed()
    .replaceAll(/[\s\u0085]+/gu, " ")
    .replaceAll(UNSEEN, "")
    .trim();
  return line === "" ? {} : { message: [...line].slice(0, LIMITS.messageChars).join("") };
}

/** The receipt of a completion, wherever its signature was put [WS10]; null when it cannot be read. */
function readReceipt(frame: JobComplete): Receipt | null {
  const sent = SentReceipt.safeParse(frame.receipt);
  if (!sent.success) return null;
  const { signature: inside, ...fields } = sent.data;
  const signature = parseSignature(frame.receipt_signature ?? inside ?? "");
  return signature === null ? null : { ...fields, signature: toBase64(signature) };
}

function isValid(receipt: Receipt, jobId: string, outputText: string, key: string, now: number): boolean {
  if (receipt.job_id !== jobId || receipt.provider_pubkey.toLowerCase() !== key || receipt.payment_ref !== null) return false;
  const completedAt = parseIsoTime(receipt.completed_at);
  if (completedAt === null || Math.abs(now - completedAt) > TIMING.receiptSkew) return false;
  const hash = `sha256:${createHash("sha256").update(outputText, "utf8").digest("hex")}`;
  if (!sameHash(receipt.output_hash, hash)) return false;
  const signature = parseSignature(receipt.signature);
  return signature !== null && verifySync(receiptText(receipt), signature, key);
}

/** An object whose only member is a string `error` is a worker's way to say that it could not [JB5]. */
function errorOf(output: unknown): string | null {
  return isJsonObject(output) && Object.keys(output).length === 1 && typeof output.error === "string" ? output.error : null;
}
