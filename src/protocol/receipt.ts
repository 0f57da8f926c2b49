import * as z from "zod";

/** A receipt's five fields, in the order in which they are signed [RC1]. */
export const ReceiptFields = z.object({
  job_id: z.string(),
  provider_pubkey: z.string(),
  output_hash: z.string(),
  completed_at: z.string(),
  payment_ref: z.string().nullable(),
});
export type ReceiptFields = z.infer<typeof ReceiptFields>;

export const Receipt = ReceiptFields.extend({
  signature: z.string().meta({ description: "ed25519 over the canonical bytes of the other five fields, base64 of 64 bytes." }),
}).meta({ id: "Receipt", description: "A worker's signed statement of what it delivered." });
/** A receipt as REST returns it: the five fields as signed (but for `payment_ref`, which the worker signs as null) and the signature in base64. */
export type Receipt = z.infer<typeof Receipt>;
