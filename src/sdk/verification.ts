import type { Job } from "../protocol/job.ts";
import { type ReceiptCheck, verifyReceipt } from "../receipt/verify.ts";

/**
 * What the client's own check of a result found. `no_receipt`: the router sent none; `no_result`: it is past its retention; `job_mismatch`:
 * the receipt is of another job; `fallback`: the result is not the router's; the others are verifyReceipt's.
 */
export type Verification =
  | { ok: true }
  | { ok: false; reason: "no_receipt" | "no_result" | "job_mismatch" | "fallback" | Extract<ReceiptCheck, { ok: false }>["reason"] };

/** Checks the receipt of a completed job: that it is this job's, and that its worker signed this result [RC1, RC2, RC4]. */
export function verifyJob({ id, result, receipt }: Job): Verification {
  if (receipt === null) return { ok: false, reason: "no_receipt" };
  if (result === null) return { ok: false, reason: "no_result" };
  // A router could answer with the genuine receipt and result of another job.
  if (receipt.job_id !== id) return { ok: false, reason: "job_mismatch" };
  return verifyReceipt(receipt, result);
}
