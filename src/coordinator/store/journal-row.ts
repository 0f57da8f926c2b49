import * as z from "zod";
import type { JobStatus } from "../../protocol/job.ts";
import { Receipt } from "../../protocol/receipt.ts";
import { readJson } from "../../protocol/text.ts";

/** A job's row on its way to D1. */
export type JournalRow = {
  id: string;
  job_type: string;
  /** Null for an LLM_INFER, and in rows of before it was written down. */
  task_type: string | null;
  policy: string;
  privacy_class: string;
  user_id: string;
  payload: string;
  payload_bytes: number;
  created_at: number;
  rev: number;
  status: JobStatus;
  attempt: number;
  provider_pubkey: string | null;
  holders: string;
  snapshot: string | null;
  result: string | null;
  receipt: string | null;
  completed_at: number | null;
  ended_at: number | null;
  synced_rev: number;
};

const StoredReceipt = Receipt.extend({ verified: z.boolean() });
/** A receipt as it is stored: with whether it was valid. */
export type StoredReceipt = z.infer<typeof StoredReceipt>;

/** The receipt of a stored row; null where there is none that can be read: the result counts all the same. */
export function storedReceipt(row: Pick<JournalRow, "receipt">): StoredReceipt | null {
  const json = row.receipt === null ? null : readJson(row.receipt);
  return json?.ok ? (StoredReceipt.safeParse(json.value).data ?? null) : null;
}
