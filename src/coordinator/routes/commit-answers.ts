// The answers to a commit, free or paid: a 201 with the job, or why the hub did not accept it; and the headers of a settled payment, which a poll has too. On a
// job's way: the end of commit.
import { utf8ToBytes } from "@noble/hashes/utils.js";
import type { CommitResponse } from "../../protocol/job.ts";
import type { NoSuchModel as NoSuchModelBody, NoTrustedWorker } from "../../protocol/rest.ts";
import { RETRY_AFTER } from "../../protocol/times.ts";
import { toBase64 } from "../../receipt/bytes.ts";
import { answerJson, answerText, type AppContext, refuse } from "../http/context.ts";
import type { AcceptedJob, NoSuchModelRefusal, StorageRefusal } from "../hub/rpc.ts";
import { findJob, jobJson } from "../store/jobs.ts";

/** Answers 201, with the token that cancels the job [JB13]. If the client asked to wait, the body has the job too [API6]. */
export async function answerAccepted(c: AppContext, answer: AcceptedJob, wait: number): Promise<Response> {
  const token = answer.cancelToken === undefined ? {} : { "X-Cancel-Token": answer.cancelToken };
  const job = wait === 0 ? null : (answer.job ?? (await storedJob(c, answer.jobId)));
  if (job === null) return answerJson(c, { job_id: answer.jobId } satisfies CommitResponse, 201, token);
  return answerText(c, `{"job_id":${JSON.stringify(answer.jobId)},"job":${job}}`, 201, { ...token, "Preference-Applied": `wait=${wait}` });
}

/** Reads from D1 a job that the hub no longer has. The commit has happened, so a fault of D1 must not fail the answer. */
async function storedJob(c: AppContext, id: string): Promise<string | null> {
  const row = await findJob(c.env.DB, id).catch(() => null);
  return row === null ? null : jobJson(row);
}

/** Why the hub did not accept the job. */
type Refused =
  | { reason: "queue_full" | "overloaded" | "idempotency_key_reused" | "too_many_held_payments" }
  | StorageRefusal
  | NoSuchModelRefusal
  | { reason: "no_trusted_worker"; jobId: string };

/** Answers a commit that the hub did not accept [API1, JB8]. */
export function answerRefused(c: AppContext, answer: Refused): Response {
  switch (answer.reason) {
    case "no_trusted_worker": {
      const body: NoTrustedWorker = { error: answer.reason, job_id: answer.jobId };
      return answerJson(c, body, 422);
    }
    case "no_such_model": {
      const body: NoSuchModelBody = { error: answer.reason, models: answer.models };
      return answerJson(c, body, 404);
    }
    case "queue_full":
    case "storage_full":
    case "overloaded":
    case "too_many_held_payments":
      return refuse(c, answer.reason, RETRY_AFTER[answer.reason]);
    case "rate_limited":
      return refuse(c, answer.reason, answer.retryAfter);
    case "idempotency_key_reused":
      return refuse(c, answer.reason);
    default:
      return answer satisfies never;
  }
}

/** The headers of a settled payment, under both names. `settlement` is JSON text of the facilitator's SettleResponse; null if there is none [PY4]. */
export function settlementHeaders(settlement: string | null): Record<string, string> {
  if (settlement === null) return {};
  const value = toBase64(utf8ToBytes(settlement));
  return { "PAYMENT-RESPONSE": value, "X-PAYMENT-RESPONSE": value };
}

/** Sets these headers for an answer that is made later. */
export function setSettlement(c: AppContext, settlement: string | null): void {
  for (const [name, value] of Object.entries(settlementHeaders(settlement))) c.header(name, value);
}
