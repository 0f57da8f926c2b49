// The messages on a worker's socket, from `register` through `job_assign` to `job_complete_ack`, and the texts that a worker signs. Both ends parse with it.
import * as z from "zod";
import { describeIssues } from "./issues.ts";
import { absent, JobType, PrivacyClass, ResolvedPolicy } from "./job.ts";
import { isJsonObject, readJson } from "./json.ts";
import { LIMITS } from "./limits.ts";

/** The exact heartbeat text. Cloudflare answers it without waking the hub [WS6]. */
export const HEARTBEAT = '{"type":"heartbeat"}';
/** Cloudflare's answer to {@link HEARTBEAT}. */
export const HEARTBEAT_ACK = '{"type":"heartbeat_ack"}';

/** Close codes of a worker socket and what a worker does about them [WS4]. */
export const CLOSE = {
  /** The worker has drained, or it closed the socket itself. */
  normal: 1000,
  /** A frame over the size limit. */
  tooBig: 1009,
  /** The coordinator restarts: reconnect. */
  restart: 1012,
  /** A newer socket of this key replaced this one: do not reconnect. */
  replaced: 4001,
  /** Parked: reconnect after `retry_after_s`. */
  parked: 4003,
  /** Silent or flooding: reconnect with jitter. */
  silent: 4008,
  /** The worker's frames are malformed: fix the worker before it reconnects. */
  badMessage: 4400,
  /** The registration must be signed, or its signature is wrong. */
  unauthorized: 4401,
  /** The registration is not signed, and another socket of this key is alive: reconnect after a while [WS7]. */
  alreadyConnected: 4409,
} as const;

export const Tier = z.enum(["Open", "Verified", "Sentinel"]);
/** Stake tier of a worker [SPEC]. */
export type Tier = z.infer<typeof Tier>;

const jobId = z.string().min(1).max(128);
const attempt = z.int().min(1);

/** The most models whose context one registration tells. */
const MODELS = 256;

/**
 * If an object has too many members, none of them is checked: a stranger sends it, and a frame has room for a hundred
 * thousand.
 */
function fewModels(given: unknown, context: z.RefinementCtx): unknown {
  if (isJsonObject(given) && Object.keys(given).length > MODELS) context.addIssue(`must have at most ${MODELS} members`);
  return given;
}

export const Register = z
  .object({
    type: z.literal("register"),
    provider_pubkey: z
      .string()
      .regex(/^[0-9a-fA-F]{64}$/)
      .transform((key) => key.toLowerCase()),
    provider_type: z.preprocess((kind) => (kind === "SEEKER" ? "MOBILE" : kind), z.enum(["DESKTOP", "MOBILE"])),
    capabilities: z.array(z.string()).max(64),
    signature: absent(z.string()),
    // Of any number and length: the hub keeps those that fit, and leaves the others out. The check ends at the first name that is no text [JB10].
    models: absent(
      z
        .custom<string[]>((given) => Array.isArray(given) && given.every((name) => typeof name === "string"), "must be a list of texts")
        .meta({ type: "array", items: { type: "string" } }),
    ),
    context: absent(
      z.union(
        [z.int().min(0), z.preprocess(fewModels, z.record(z.string().max(256), z.int().min(0)))],
        `must be a whole number, or an object of at most ${MODELS} of them`,
      ),
    ),
    engine: absent(z.string().max(LIMITS.workerTextChars)),
    name: absent(z.string().max(LIMITS.workerTextChars)),
    version: absent(z.string().max(LIMITS.workerTextChars)),
    features: absent(z.array(z.string().max(64)).max(64)),
    resume: absent(z.array(z.object({ job_id: jobId, attempt })).max(LIMITS.resumedJobs)),
  })
  .meta({ id: "register" });
/** A worker announces itself [WS3]. */
export type Register = z.infer<typeof Register>;

/** The worker has the job and starts it [WS9]. */
export const JobAck = z.object({ type: z.literal("job_ack"), job_id: jobId, attempt }).meta({ id: "job_ack" });
export const JobProgress = z
  .object({ type: z.literal("job_progress"), job_id: jobId, attempt, seq: z.int().min(0), delta: z.string() })
  .meta({ id: "job_progress" });
/** Text of an attempt as the worker generates it [WS9]. */
export type JobProgress = z.infer<typeof JobProgress>;
/** The attempt ended without a result [WS9]. */
export const JobFailed = z
  .object({ type: z.literal("job_failed"), job_id: jobId, attempt, error: z.string(), message: absent(z.string()), retryable: z.boolean() })
  .meta({ id: "job_failed" });
/** Values of `job_failed.error` that become the cause of the failure; every other value becomes `worker_error` [JB5]. */
export const WorkerFailure = z.enum(["worker_error", "context_length_exceeded", "content_refused", "output_too_large"]).catch("worker_error");
/** Why an attempt failed, as its worker reports it. */
export type WorkerFailure = z.infer<typeof WorkerFailure>;
/** The worker does not take the job [WS9]. */
export const JobReject = z.object({ type: z.literal("job_reject"), job_id: jobId, reason: z.string() }).meta({ id: "job_reject" });
export const JobComplete = z
  .object({
    type: z.literal("job_complete"),
    job_id: jobId,
    attempt: absent(attempt),
    // Passed through unchanged: a copy by zod would lose a member named __proto__, and then the hash would differ.
    output: z
      .custom<string | Record<string, unknown>>((output) => typeof output === "string" || isJsonObject(output), "must be a string or an object")
      .meta({ type: ["string", "object"] }),
    output_hash: absent(z.string()),
    receipt: z.unknown().optional().meta({ type: "object" }),
    receipt_signature: absent(z.string()),
  })
  .meta({ id: "job_complete" });
/** A finished job [WS10]. The receipt check reads `receipt` later, because the policy `record` accepts any. */
export type JobComplete = z.infer<typeof JobComplete>;
/** The worker wants to leave: it gets no more jobs [WS11]. */
export const Drain = z.object({ type: z.literal("drain") }).meta({ id: "drain" });
/** A sign of life; {@link HEARTBEAT} is its usual text [WS6]. */
export const Heartbeat = z.object({ type: z.literal("heartbeat") }).meta({ id: "heartbeat" });

const AfterRegister = z.discriminatedUnion("type", [JobAck, JobProgress, JobFailed, JobReject, JobComplete, Drain, Heartbeat]);

/** Every frame a worker may send, for the documentation. */
export const WORKER_FRAMES = { Register, JobAck, JobProgress, JobFailed, JobReject, JobComplete, Drain, Heartbeat } as const;

/** A valid frame of a worker. */
export type WorkerFrame = Register | z.infer<typeof AfterRegister>;

/** Result of {@link parseWorkerFrame}. The coordinator answers a bad `register` with `register_ack`, and any other bad frame with `error` [WS1, WS4]. */
type FrameResult = { ok: true; frame: WorkerFrame } | { ok: false; reason: "not_json" | "bad_message" | "invalid_key" | "invalid_register"; message: string };

/** Parses one text frame of a worker [WS1]. */
export function parseWorkerFrame(text: string): FrameResult {
  const json = readJson(text);
  if (!json.ok && json.reason === "invalid_json") return { ok: false, reason: "not_json", message: "not JSON" };
  if (!json.ok) return { ok: false, reason: "bad_message", message: "JSON nests too deeply" };
  if (!isJsonObject(json.value)) return { ok: false, reason: "bad_message", message: "not a JSON object" };
  const { type } = json.value;
  if (typeof type !== "string") return { ok: false, reason: "bad_message", message: "field type is missing" };
  if (type === "register") {
    const register = Register.safeParse(json.value);
    if (register.success) return { ok: true, frame: register.data };
    const badKey = register.error.issues.some((issue) => issue.path[0] === "provider_pubkey");
    return { ok: false, reason: badKey ? "invalid_key" : "invalid_register", message: describeIssues(register.error, json.value) };
  }
  const frame = AfterRegister.safeParse(json.value);
  if (frame.success) return { ok: true, frame: frame.data };
  const known = AfterRegister.options.some((option) => option.shape.type.value === type);
  return { ok: false, reason: "bad_message", message: known ? describeIssues(frame.error, json.value) : "unknown type" };
}

/** True if a frame looks like `job_progress`. It tests the text only, because it serves during floods, when parsing each frame would cost too much. */
export function isProgress(data: string | ArrayBuffer): boolean {
  return typeof data === "string" && /"type"\s*:\s*"job_progress"/.test(data);
}

/** True if a frame looks like `job_complete`; like {@link isProgress} it tests the text only. */
export function isCompletion(data: string): boolean {
  return /"type"\s*:\s*"job_complete"/.test(data);
}

/**
 * The job of a `job_complete` whose first members are `type` and `job_id`, as workers usually write it; null for every other text. It reads only the
 * beginning, so that a result of a megabyte need not be parsed to learn whose it is.
 */
export function completedJob(data: string): string | null {
  return /^\s{0,8}\{\s{0,8}"type"\s?:\s?"job_complete"\s?,\s{0,8}"job_id"\s?:\s?"([^"\\]{1,128})"/.exec(data)?.[1] ?? null;
}

/** True for a registration, including a malformed one. */
export function isRegistration(result: FrameResult): boolean {
  return result.ok ? result.frame.type === "register" : result.reason === "invalid_key" || result.reason === "invalid_register";
}

/** Why the coordinator refuses a registration [WS4]. */
export type RegisterRefusal = "invalid_key" | "invalid_register" | "invalid_signature" | "auth_required" | "already_connected" | "parked";

/** Why the coordinator refuses a completion [WS10]. */
export type CompletionRefusal = "not_assigned" | "unknown_job" | "already_terminal" | "invalid_receipt" | "output_too_large";

/** The first frame of the coordinator: what a worker signs to prove its key [WS2]. */
export const Challenge = z.object({ type: z.literal("challenge"), nonce: z.string(), network: z.string(), host: z.string() }).meta({ id: "challenge" });
/** The answer to `register`: accepted with a tier, or refused with a reason [WS4]. */
export const RegisterAck = z
  .discriminatedUnion("status", [
    z.object({
      type: z.literal("register_ack"),
      status: z.literal("ok"),
      worker_id: z.string(),
      authenticated: z.boolean(),
      tier: Tier,
      heartbeat_interval_ms: z.number(),
      time: z.string(),
    }),
    z.object({ type: z.literal("register_ack"), status: z.literal("error"), error: z.string(), retry_after_s: z.number().optional() }),
  ])
  .meta({ id: "register_ack" });
/** The answer to a heartbeat [WS6]. */
export const HeartbeatAck = z.object({ type: z.literal("heartbeat_ack"), status: z.literal("ok").optional() }).meta({ id: "heartbeat_ack" });
export const JobAssign = z
  .object({
    type: z.literal("job_assign"),
    job_id: z.string(),
    job_type: JobType,
    payload: z.record(z.string(), z.unknown()),
    policy: ResolvedPolicy,
    privacy_class: PrivacyClass,
    attempt: z.int(),
    deadline: z.string(),
  })
  .meta({ id: "job_assign" });
/** A job for this worker [WS8]. */
export type JobAssign = z.infer<typeof JobAssign>;
/** The answer to `job_complete`. After it the worker forgets the result [WS10]. */
export const JobCompleteAck = z
  .object({
    type: z.literal("job_complete_ack"),
    job_id: z.string(),
    status: z.enum(["accepted", "duplicate", "rejected"]),
    error: z.string().optional(),
    message: z.string().optional(),
  })
  .meta({ id: "job_complete_ack" });
/** The worker's stake tier has changed [ST2]. */
export const TierChange = z.object({ type: z.literal("tier"), tier: Tier }).meta({ id: "tier" });
/** The worker must stop this attempt; its result no longer counts [WS11]. */
export const JobCancel = z.object({ type: z.literal("job_cancel"), job_id: z.string(), attempt: z.int(), reason: z.string() }).meta({ id: "job_cancel" });
/** The answer to `drain`, when the worker no longer has a job [WS11]. */
export const Drained = z.object({ type: z.literal("drained") }).meta({ id: "drained" });
/** The answer to a frame that the coordinator cannot use [WS1]. */
export const ErrorFrame = z
  .object({ type: z.literal("error"), code: z.string(), message: z.string(), retry_after_s: z.number().optional() })
  .meta({ id: "error" });

/** Every frame the coordinator may send, for the documentation. */
export const COORDINATOR_FRAMES = { Challenge, RegisterAck, HeartbeatAck, JobAssign, JobCompleteAck, JobCancel, TierChange, Drained, ErrorFrame } as const;

/** A frame from the coordinator to a worker. A worker ignores unknown types. */
export type CoordinatorFrame = z.infer<(typeof COORDINATOR_FRAMES)[keyof typeof COORDINATOR_FRAMES]>;

/**
 * The text that a worker signs to register [WS3]: five lines without a final line feed.
 *
 * @param fields `network`, `host` and `nonce` as the `challenge` frame states them; `pubkey` is the worker's key, 64 lowercase hex characters
 * @returns the text; the worker signs its UTF-8 with Ed25519
 * @example
 * const { network, host, nonce } = Challenge.parse(frame);
 * const signature = signText(registerText({ network, host, nonce, pubkey: key.publicKey }), key.secret);
 */
export function registerText(fields: { network: string; host: string; nonce: string; pubkey: string }): string {
  return `compute-router/register/v1\n${fields.network}\n${fields.host}\n${fields.nonce}\n${fields.pubkey}`;
}

/**
 * The text that a worker signs to claim a pairing code [TR4]: four lines without a final line feed.
 *
 * @param fields `network` as `GET /v1/health` states it, the pairing code, and the worker's key (64 lowercase hex characters)
 * @returns the text; the worker signs its UTF-8 with Ed25519
 * @example
 * const { network } = await router.health();
 * const signature = signText(pairText({ network, code: "3FA9C1", pubkey: key.publicKey }), key.secret);
 * await router.trust.claim({ pairing_code: "3FA9C1", provider_pubkey: key.publicKey, signature });
 */
export function pairText(fields: { network: string; code: string; pubkey: string }): string {
  return `compute-router/pair/v1\n${fields.network}\n${fields.code}\n${fields.pubkey}`;
}

/** The smallest stake of each tier above Open, in token units [SPEC]. */
const TIER_STAKE = { Verified: 100, Sentinel: 1_000 } as const satisfies Record<Exclude<Tier, "Open">, number>;

/** The tier of a stake of `amount` token units [SPEC]. NaN is Open. */
export function tierOf(amount: number): Tier {
  if (amount >= TIER_STAKE.Sentinel) return "Sentinel";
  return amount >= TIER_STAKE.Verified ? "Verified" : "Open";
}

/** The tier of a stake in `atoms` of a token with `decimals` [SPEC]. The result is exact; in floating point 99.999999999999999999 would be 100. */
export function tierOfAtoms(atoms: bigint, decimals: number): Tier {
  const whole = atoms / 10n ** BigInt(decimals);
  return tierOf(whole > BigInt(TIER_STAKE.Sentinel) ? TIER_STAKE.Sentinel : Number(whole));
}
