import { RETRY_AFTER } from "../../protocol/limits.ts";
import type { NoTrustedWorker } from "../../protocol/rest.ts";
import type { CommitResponse } from "../../protocol/job.ts";
import type { CommitInput } from "../hub/rpc.ts";
import { findJob, jobJson } from "../store/jobs.ts";

import type { AppContext } from "../http/context.ts";
import { refuse } from "../http/errors.ts";

/** A commit that has been read. `now` is it with what is left of its wait, for each time that the hub is asked. */
export type Commit = { wait: number; now: () => CommitInput };

/** Why the hub took no job. */
type Refused = { reason: "queue_full" | "overloaded" | "idempotency_key_reused" | "too_many_held_payments" } | { reason: "no_trusted_worker"; jobId: string };

/** A 201; with the job in it when waiting for it was asked for and done [API6]. */
export async function accepted(c: AppContext, answer: { jobId: string; job: string | null }, wait: number): Promise<Response> {
  const body: CommitResponse = { job_id: answer.jobId };
  if (wait === 0) return c.json(body, 201);
  const job = answer.job ?? (await storedJob(c, answer.jobId));
  if (job === null) return c.json(body, 201);
  c.header("Preference-Applied", `wait=${wait}`);
  c.header("Content-Type", "application/json");
  return c.body(`{"job_id":${JSON.stringify(answer.jobId)},"job":${job}}`, 201);
}

/** A job that an idempotency key named and the hub has handed on. The commit has happened, so no fault of the store may fail the answer. */
async function storedJob(c: AppContext, id: string): Promise<string | null> {
  const row = await findJob(c.env.DB, id).catch(() => null);
  return row === null ? null : jobJson(row);
}

/** The answer to a commit that stored no job to wait for [API1, JB8]. */
export function refused(c: AppContext, answer: Refused): Response {
  switch (answer.reason) {
    case "no_trusted_worker": {
      const body: NoTrustedWorker = { error: answer.reason, job_id: answer.jobId };
      return c.json(body, 422);
    }
    case "queue_full":
    case "overloaded":
    case "too_many_held_payments":
      return refuse(c, answer.reason, RETRY_AFTER[answer.reason]);
    case "idempotency_key_reused":
      return refuse(c, answer.reason);
    default:
      return answer satisfies never;
  }
}
