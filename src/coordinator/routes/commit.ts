// The two commit endpoints: the first step of every job, up to the call of the hub.
import { addedPrompt, type CommitRequest, LlmPayload, parseCommit, REQUIRED_FIELDS, type ResolvedPolicy, TaskPayload } from "../../protocol/job.ts";
import { rawJsonMember, withFirstMember } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { wantedModel } from "../../protocol/models.ts";
import type { Result } from "../../protocol/result.ts";
import { utf8Length } from "../../protocol/text.ts";
import { type AppContext, refuse, refuseWith } from "../http/context.ts";
import { askHubToStore } from "../http/hub-client.ts";
import { clientOf, fingerprint, preferredWait, provesUser, readJsonBody, readUserToken, refuseBody, waitLeft } from "../http/request.ts";
import type { AcceptedJob, CommitInput } from "../hub/rpc.ts";
import { noteUse, trustOf } from "../store/trust.ts";
import { answerAccepted, answerRefused } from "./commit-answers.ts";
import { newJobId } from "./job-id.ts";
import { type HubCommit, keyInPayment, paidCommit } from "./paid-commit.ts";

const IDEMPOTENCY_KEY = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.idempotencyKeyChars}}$`);

/**
 * `POST /v1/jobs/commit/fast` and `/cheap`: parses the commit, looks up the paired workers of a PRIVATE job, and hands the job to the hub [PY5].
 * The payment gate came before. If jobs must be paid, `paidCommit` continues from here.
 */
export const commit =
  (policy: ResolvedPolicy) =>
  async (c: AppContext): Promise<Response> => {
    const body = await readJsonBody(c.req.raw);
    if (!body.ok) return refuseBody(c, body.reason, REQUIRED_FIELDS);
    const parsed = parseCommit(body.value.json);
    if (!parsed.ok) return parsed.reason === "too_large" ? refuse(c, "payload_too_large") : refuseWith(c, 400, parsed.error);
    const { commit: request, payload } = parsed;
    const text = payloadForWorker(request, payload, body.value.text);
    const bound = () => ({ request, payload: comparable(request, payload) });
    const wait = preferredWait(c.req.header("Prefer"));
    const accepted = await accept(c, { policy, request, payload: text, bound, wait });
    return accepted.ok ? await answerAccepted(c, accepted.value, wait) : accepted.reason;
  };

/** A valid commit. `payload` is the text for the worker; `bound` gives what an idempotency key and a payment are bound to [API5, PY6]; `wait` is in seconds. */
export type ValidCommit = {
  policy: ResolvedPolicy;
  request: CommitRequest;
  payload: string;
  bound: () => { request: CommitRequest; payload: Record<string, unknown> };
  wait: number;
};

/** Hands a valid commit to the hub, free or paid. Without a job the reason is the answer. */
export async function accept(c: AppContext, { policy, request, payload, bound, wait }: ValidCommit): Promise<Result<AcceptedJob, Response>> {
  // The row of a job must fit into those of the platform, with its result: 2 MB [LM1].
  if (utf8Length(payload) > LIMITS.payloadBytes) return { ok: false, reason: refuse(c, "payload_too_large") };
  const header = c.req.header("Idempotency-Key");
  if (header !== undefined && !IDEMPOTENCY_KEY.test(header)) {
    return { ok: false, reason: refuseWith(c, 400, `Idempotency-Key must be 1 to ${LIMITS.idempotencyKeyChars} printable ASCII characters`) };
  }
  const settings = c.get("settings");
  const { testnetMode } = settings;
  const key = idempotencyKey(c);
  const binding = key === null && testnetMode ? null : bound();
  const print = binding === null ? "" : await fingerprint(policy, binding.request, binding.payload);
  const trusted = request.privacy_class === "PRIVATE" ? await trustedKeys(c, request.user_id) : { ok: true as const, value: [] };
  if (!trusted.ok) return trusted;
  const input = {
    id: newJobId(Date.now()),
    jobType: request.job_type,
    policy,
    privacyClass: request.privacy_class,
    userId: request.user_id,
    trustedKeys: trusted.value,
    client: clientOf(c.req.raw, settings),
    payload,
    idempotency: key === null ? null : { key, fingerprint: print },
    ...kindOf(request),
  };
  const left = waitLeft(wait);
  const hubCommit: HubCommit = () => ({ ...input, wait: left() });
  if (!testnetMode) {
    const paying = paidCommit(c, hubCommit, policy, print);
    // It goes on to its end even if the client leaves: otherwise the payment would stay reserved for a minute, or the hub would not be told what became of it
    // [PY5, PY7].
    c.executionCtx.waitUntil(paying.catch(() => {}));
    return await paying;
  }
  const answer = await askHubToStore(c.env, (hub, again) => hub.commit({ ...hubCommit(), again }));
  return answer.ok ? { ok: true, value: answer } : { ok: false, reason: answerRefused(c, answer) };
}

/** Returns the idempotency key of a request: the header, or, where jobs cost money, what its payment brings; null without one [API5]. */
export function idempotencyKey(c: AppContext): string | null {
  return c.req.header("Idempotency-Key") ?? (c.get("settings").testnetMode ? null : keyInPayment(c));
}

/** Returns what dispatch must know of a payload: the type of a TASK, or the model and the form of an LLM_INFER [RC6, JB10, JB12]. */
function kindOf({ job_type, payload }: CommitRequest): Pick<CommitInput, "taskType" | "model" | "isChat"> {
  if (job_type === "TASK") return { taskType: payload.task_type };
  const model = wantedModel(payload.model);
  return { ...(model !== undefined && { model }), ...((payload.messages?.length ?? 0) > 1 && { isChat: true }) };
}

/** Returns the keys that may run a user's PRIVATE jobs, newest first; or the answer to a request without the user's token [TR2]. */
async function trustedKeys(c: AppContext, userId: string): Promise<Result<string[], Response>> {
  const token = readUserToken(c.req.header("X-User-Token"), userId);
  if (!token.ok) return { ok: false, reason: refuseWith(c, 400, token.reason) };
  const { pairings, tokenHash, usedAt } = await trustOf(c.env.DB, userId);
  if (!provesUser(token.value, tokenHash)) return { ok: false, reason: refuse(c, "user_token_required") };
  const keys = pairings.map((pairing) => pairing.providerPubkey);
  await noteUse(c.env.DB, { userId, keys, usedAt, requestId: c.get("requestId") });
  return { ok: true, value: keys };
}

/** Returns the payload for the worker: the text that the client wrote. `prompt` and `job_type` are added as first members where they are absent [WS8, JB12]. */
export function payloadForWorker(request: CommitRequest, payload: Record<string, unknown>, body: string): string {
  let text = rawJsonMember(body, "payload") ?? JSON.stringify(payload);
  const prompt = addedPrompt(request);
  if (prompt !== null) text = withFirstMember(text, "prompt", prompt);
  return payload.job_type == null ? withFirstMember(text, "job_type", request.job_type) : text;
}

/** Returns the payload by which two commits are compared: with `job_type`, and without members that are null, since null counts as absent [API2]. */
function comparable({ job_type }: CommitRequest, payload: Record<string, unknown>): Record<string, unknown> {
  const { shape } = job_type === "TASK" ? TaskPayload : LlmPayload;
  const present = Object.entries(payload).filter(([name, value]) => value !== null || !Object.hasOwn(shape, name));
  return { ...Object.fromEntries(present), job_type };
}
