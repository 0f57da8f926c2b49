// The frames of the socket as the worker reads and writes them: parses those of the coordinator, and builds `register`.
import * as z from "zod";
import type { JobType } from "../../protocol/job.ts";
import { isJsonObject, readJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { Tier } from "../../protocol/worker-messages.ts";

// More tolerant than the protocol's schemas: a coordinator that implements only the specification sends `job_assign` with five fields and few other frames.
const attempt = z
  .int()
  .min(1)
  .nullish()
  .transform((value) => value ?? 1);

const Assign = z.object({
  type: z.literal("job_assign"),
  job_id: z.string().min(1).max(128),
  // Any text, because the worker rejects an unknown type instead of ignoring the frame.
  job_type: z.string(),
  payload: z.custom<Record<string, unknown>>(isJsonObject),
  attempt,
  deadline: z.string().nullish(),
});
/** A job for this worker [WS8]. */
export type Assign = z.infer<typeof Assign>;

const RegisterAck = z.object({
  type: z.literal("register_ack"),
  status: z.string().nullish(),
  worker_id: z.string().nullish(),
  authenticated: z.boolean().nullish(),
  tier: Tier.nullish().catch(null),
  heartbeat_interval_ms: z.number().nullish().catch(null),
  time: z.string().nullish().catch(null),
  error: z.string().nullish(),
  retry_after_s: z.number().nullish().catch(null),
});
/** The answer to a registration [WS4]. */
export type RegisterAck = z.infer<typeof RegisterAck>;

const Frame = z.discriminatedUnion("type", [
  z.object({ type: z.literal("challenge"), nonce: z.string().min(1).max(256), network: z.string().min(1).max(256), host: z.string().min(1).max(512) }),
  RegisterAck,
  z.object({ type: z.literal("heartbeat_ack") }),
  Assign,
  z.object({
    type: z.literal("job_complete_ack"),
    job_id: z.string(),
    status: z.string(),
    error: z.string().nullish(),
    message: z.string().nullish().catch(null),
  }),
  z.object({ type: z.literal("job_cancel"), job_id: z.string(), attempt: z.int().nullish(), reason: z.string().nullish() }),
  z.object({ type: z.literal("tier"), tier: Tier }),
  z.object({ type: z.literal("drained") }),
  z.object({ type: z.literal("error"), code: z.string(), message: z.string().nullish(), retry_after_s: z.number().nullish().catch(null) }),
]);
/** A frame from a coordinator that this worker understands. */
export type ReceivedFrame = z.infer<typeof Frame>;

/** Parses a frame of a coordinator; null for an unknown or malformed frame, which a worker ignores. */
export function readCoordinatorFrame(text: string): ReceivedFrame | null {
  const json = readJson(text);
  if (!json.ok) return null;
  const frame = Frame.safeParse(json.value);
  return frame.success ? frame.data : null;
}

/** What a worker announces about itself [WS3]. */
export type Profile = {
  providerType: "DESKTOP" | "MOBILE";
  capabilities: readonly JobType[];
  models: readonly string[];
  /** Tokens that prompt and answer may have together, if the runtime states it. */
  context?: number;
  engine?: string;
  name?: string;
  version?: string;
};

/** What a `register` frame carries besides the profile. */
type Registering = {
  publicKey: string;
  profile: Profile;
  signature?: string;
  /** Missing if a registered worker announces a change; its lease then stays unchanged. */
  resume?: readonly { job_id: string; attempt: number }[];
};

/**
 * The text of a `register` frame. Values that are too long for the coordinator are cut, so that it does not refuse the registration; it leaves out models
 * itself.
 */
export function registerFrame({ publicKey, profile, signature, resume }: Registering): string {
  const { providerType, capabilities, models, context, engine, name, version } = profile;
  return JSON.stringify({
    type: "register",
    provider_pubkey: publicKey,
    provider_type: providerType,
    capabilities,
    models: models.slice(0, LIMITS.modelsPerWorker),
    context,
    engine: engine?.slice(0, LIMITS.workerTextChars),
    name: name?.slice(0, LIMITS.workerTextChars),
    version: version?.slice(0, LIMITS.workerTextChars),
    features: ["ack", ...(capabilities.includes("LLM_INFER") ? ["chat"] : [])],
    signature,
    resume: resume?.slice(0, LIMITS.resumedJobs),
  });
}
