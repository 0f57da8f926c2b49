import { LIMITS } from "../../protocol/limits.ts";
import { isShallowJson, isWellFormedJson, utf8Length } from "../../protocol/text.ts";
import { canonicalize, outputHash, receiptText } from "../../receipt/receipt.ts";
import { type KeyPair, signText } from "../../receipt/ed25519.ts";

/** The output of a job: text, or an object. */
export type Output = string | Record<string, unknown>;

/** The text of a `job_complete` frame, or why this output can never be delivered. */
export type Sealed = { ok: true; frame: string } | { ok: false; error: "output_too_large" | "invalid_output"; message: string };

/**
 * Hashes and signs an output and packs it into a frame [WS10, RC1, RC2]. Members are sorted as in RFC 8785, so that the sent bytes and the hashed bytes are
 * the same. `completedAt` is ISO 8601.
 */
export async function seal(signer: Signer, job: { jobId: string; attempt: number }, output: Output, completedAt: string): Promise<Sealed> {
  const text = JSON.stringify(output);
  const bytes = utf8Length(text);
  if (bytes > LIMITS.outputBytes) return { ok: false, error: "output_too_large", message: `the output has ${bytes} bytes, the limit is ${LIMITS.outputBytes}` };
  // The frame adds one level, and the coordinator accepts frames of a depth of 32.
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

/** A worker's key. Its secret may be unreadable (WebCrypto in a browser). */
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
