import type { CommitResponse } from "../../protocol/job.ts";
import { RETRY_AFTER } from "../../protocol/limits.ts";
import type { NoSuchModel as NoSuchModelBody, NoTrustedWorker } from "../../protocol/rest.ts";
import type { AppContext } from "../http/context.ts";
import { refuse } from "../http/errors.ts";
import type { CommitInput, NoSuchModel, StorageRefusal } from "../hub/rpc.ts";
import { findJob, jobJson } from "../store/jobs.ts";

/** A commit that was read and validated. `input()` gives it for one call of the hub: a later call waits only for the rest of `wait` (seconds). */
export type Commit = { wait: number; input: () => CommitInput };

/** Why the hub did not accept the job. */
type Refused =
  | { reason: "queue_full" | "overloaded" | "idempotency_key_reused" | "too_many_held_payments" }
  | StorageRefusal
  | NoSuchModel
  | { reason: "no_trusted_worker"; jobId: string };

/** Answers 201, with the token that cancels the job [JB13]. If the client asked to wait, the body has the job too [API6]. */
export async function accepted(c: AppContext, answer: { jobId: string; job: string | null; cancelToken?: string }, wait: number): Promise<Response> {
  if (answer.cancelToken !== undefined) c.header("X-Cancel-Token", answer.cancelToken);
  const body: CommitResponse = { job_id: answer.jobId };
  if (wait === 0) return c.json(body, 201);
  const job = answer.job ?? (await storedJob(c, answer.jobId));
  if (job === null) return c.json(body, 201);
  c.header("Preference-Applied", `wait=${wait}`);
  c.header("Content-Type", "application/json");
  return c.body(`{"job_id":${JSON.stringify(answer.jobId)},"job":${job}}`, 201);
}

/** Reads from D1 a job that the hub no longer has. The commit has happened, so a fault of D1 must not fail the answer. */
async function storedJob(c: AppContext, id: string): Promise<string | null> {
  const row = await findJob(c.env.DB, id).catch(() => null);
  return row === null ? null : jobJson(row);
}

/** Answers a commit that the hub did not accept [API1, JB8]. */
export function refused(c: AppContext, answer: Refused): Response {
  switch (answer.reason) {
    case "no_trusted_worker": {
      const body: NoTrustedWorker = { error: answer.reason, job_id: answer.jobId };
      return c.json(body, 422);
    }
    case "no_such_model": {
      const body: NoSuchModelBody = { error: answer.reason, models: answer.models };
      return c.json(body, 404);
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
