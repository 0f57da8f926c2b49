import * as z from "zod";
import { Receipt } from "../../protocol/job.ts";
import { receiptText } from "../../receipt/receipt.ts";
import type { Verify } from "./identity.ts";

/** How a job ended for this worker. */
export const JobOutcome = z.enum(["waiting", "accepted", "rejected", "failed", "cancelled", "dropped"]);
export type JobOutcome = z.infer<typeof JobOutcome>;

/** One job in the worker's own history, as it is stored. */
export const StoredRecord = z.object({
  jobId: z.string(),
  attempt: z.int(),
  taskType: z.string(),
  /** Wall clock in ms since the epoch. */
  startedAt: z.number(),
  /** How long it took; null while the result is not there. */
  ms: z.number().nullable(),
  outcome: JobOutcome,
  /** The reason of a bad outcome. */
  error: z.string().nullable(),
  /** The receipt that this worker signed. The text of the job and its result are never stored. */
  receipt: Receipt.nullable(),
});
export type StoredRecord = z.infer<typeof StoredRecord>;
/** A stored record with the result of checking its receipt's signature; null without a receipt. */
export type JobRecord = StoredRecord & { signatureValid: boolean | null };

const Completion = z.object({ receipt: Receipt.omit({ signature: true }), receipt_signature: z.string() });

/** The receipt in a `job_complete` frame of this worker. */
export function receiptOf(frame: string): Receipt | null {
  const read = Completion.safeParse(JSON.parse(frame));
  return read.success ? { ...read.data.receipt, signature: read.data.receipt_signature } : null;
}

/** Checks the signature of a stored receipt from its stored bytes. */
export async function checked(record: StoredRecord, verify: Verify): Promise<JobRecord> {
  const { receipt } = record;
  if (receipt === null) return { ...record, signatureValid: null };
  return { ...record, signatureValid: await verify(receiptText(receipt), receipt.signature, receipt.provider_pubkey) };
}
