import { LIMITS } from "../../protocol/limits.ts";
import { type CommitRequest, type CommitResponse, type ResolvedPolicy, parseCommit } from "../../protocol/job.ts";
import type { NoTrustedWorker } from "../../protocol/errors.ts";
import type { CommitAnswer } from "../hub/rpc.ts";
import { findJob } from "../store/jobs.ts";
import { jobJson } from "../store/job-view.ts";
import { trustedKeys } from "../store/trust.ts";
import type { AppContext } from "./app-env.ts";
import { askHub } from "./ask-hub.ts";
import { readJsonBody, refuseBody } from "./body.ts";
import { fingerprint } from "./fingerprint.ts";
import { preferredWait, waitLeft } from "./prefer.ts";
import { RETRY_AFTER, refuse, refuseWith } from "./refuse.ts";

const IDEMPOTENCY_KEY = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.idempotencyKeyChars}}$`);

/** `POST /v1/jobs/commit/fast` and `/cheap`: parse, look up who is trusted, ask the hub once, answer [PY5]. The gate came before. */
export const commit =
  (policy: ResolvedPolicy) =>
  async (c: AppContext): Promise<Response> => {
    const body = await readJsonBody(c.req.raw);
    if (!body.ok) return refuseBody(c, body, "Required fields: job_type, payload, user_id");
    const reading = parseCommit(body.value);
    if (!reading.ok) return reading.reason === "too_large" ? refuse(c, "payload_too_large") : refuseWith(c, 400, reading.error);
    const key = c.req.header("Idempotency-Key");
    if (key !== undefined && !IDEMPOTENCY_KEY.test(key)) {
      return refuseWith(c, 400, `Invalid Idempotency-Key: must be 1 to ${LIMITS.idempotencyKeyChars} printable ASCII characters`);
    }

    const request = reading.commit;
    const payload = payloadForWorker(request, reading.payload);
    const wait = preferredWait(c.req.header("Prefer"));
    const input = {
      id: crypto.randomUUID(),
      jobType: request.job_type,
      policy,
      privacyClass: request.privacy_class,
      userId: request.user_id,
      trustedKeys: request.privacy_class === "PRIVATE" ? await trustedKeys(c.env.DB, request.user_id) : [],
      payload: JSON.stringify(payload),
      idempotency: key === undefined ? null : { key, fingerprint: await fingerprint(policy, request, payload) },
    };
    const left = waitLeft(wait);
    const answer = await askHub(c.env, (hub) => hub.commit({ ...input, wait: left() }));
    return answer.ok ? accepted(c, answer, wait) : refused(c, answer);
  };

/** The client's payload as it goes to the worker: an absent `job_type` is added first, all else stays as it is [WS8]. */
function payloadForWorker(request: CommitRequest, payload: Record<string, unknown>): Record<string, unknown> {
  return Object.hasOwn(payload, "job_type") ? payload : { job_type: request.job_type, ...payload };
}

/** A 201; with the job in it when waiting for it was asked for and done [API6]. */
async function accepted(c: AppContext, answer: Extract<CommitAnswer, { ok: true }>, wait: number): Promise<Response> {
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

function refused(c: AppContext, answer: Extract<CommitAnswer, { ok: false }>): Response {
  switch (answer.reason) {
    case "no_trusted_worker": {
      const body: NoTrustedWorker = { error: answer.reason, job_id: answer.jobId };
      return c.json(body, 422);
    }
    case "queue_full":
      return refuse(c, answer.reason, RETRY_AFTER.queue_full);
    case "idempotency_key_reused":
      return refuse(c, answer.reason);
    default:
      return answer satisfies never;
  }
}
