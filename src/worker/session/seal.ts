import { LIMITS } from "../../protocol/limits.ts";
import { isShallowJson, isWellFormedJson, utf8Length } from "../../protocol/text.ts";
import { canonicalize, outputHash, receiptText } from "../../receipt/receipt.ts";
import { type KeyPair, signText } from "../../receipt/ed25519.ts";

/** What a job produced: text, or an object. */
export type Output = string | Record<string, unknown>;

/** The text of a `job_complete` frame, or why this output can never be delivered. */
export type Sealed = { ok: true; frame: string } | { ok: false; error: "output_too_large" | "invalid_output"; message: string };

/**
 * Hashes, signs and packs an output [WS10, RC1, RC2]. Members are sorted as RFC 8785 does, so that the bytes sent and the bytes hashed are
 * one reading. `completedAt` is ISO 8601.
 */
export async function seal(signer: Signer, job: { jobId: string; attempt: number }, output: Output, completedAt: string): Promise<Sealed> {
  const text = JSON.stringify(output);
  const bytes = utf8Length(text);
  if (bytes > LIMITS.outputBytes) return { ok: false, error: "output_too_large", message: `${bytes} bytes of output, at most ${LIMITS.outputBytes} are taken` };
  // The frame is one level around the output, and frames are read to a depth of 32.
  if (!isShallowJson(text, LIMITS.jsonDepth - 1)) return { ok: false, error: "invalid_output", message: "the output nests too deeply" };
  if (!isWellFormedJson(output)) return { ok: false, error: "invalid_output", message: "the output is not well-formed Unicode" };
  const sorted = canonicalize(JSON.parse(text));
  const receipt = {
    job_id: job.jobId,
    provider_pubkey: signer.publicKey,
    output_hash: outputHash(sorted),
    completed_at: completedAt,
    payment_ref: null,
  };
  const signature = await signer.sign(receiptText(receipt));
  const frame = {
    type: "job_complete",
    job_id: job.jobId,
    attempt: job.attempt,
    output: sorted,
    output_hash: receipt.output_hash,
    receipt,
    receipt_signature: signature,
  };
  return { ok: true, frame: JSON.stringify(frame) };
}

/** A worker's key, which may be one that cannot be read out (WebCrypto in a browser). */
export type Signer = {
  /** 64 lowercase hex characters. */
  readonly publicKey: string;
  /** Base64 ed25519 signature over the UTF-8 of `text`. */
  sign(text: string): string | Promise<string>;
};

/** A signer that holds its seed in memory. */
export function seedSigner(key: KeyPair): Signer {
  return { publicKey: key.publicKey, sign: (text) => signText(text, key.secret) };
}
