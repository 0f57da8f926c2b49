// The REST bodies and queries other than commit and job: errors, health, quote, the list of jobs, pairing, payment. The routes check and document themselves
// with these schemas.
import * as z from "zod";
import { JobStatus, JobType, Policy, ResolvedPolicy, UserId } from "./job.ts";
import { LIMITS } from "./limits.ts";
import { ModelName } from "./models.ts";
import { PAIRING_CODE } from "./text.ts";

export const ErrorBody = z
  .object({ error: z.string(), request_id: z.string().optional().meta({ description: "On 5xx only; the same as the x-request-id header." }) })
  .meta({ id: "Error" });
/** Body of every error [API1]. */
export type ErrorBody = z.infer<typeof ErrorBody>;

export const NoTrustedWorker = z.object({ error: z.literal("no_trusted_worker"), job_id: z.uuid() }).meta({ id: "NoTrustedWorker" });
/** Body of a 422: the refused job is stored as failed and can be polled [JB8]. */
export type NoTrustedWorker = z.infer<typeof NoTrustedWorker>;

export const NoSuchModel = z
  .object({ error: z.literal("no_such_model"), models: z.array(z.string()).meta({ description: "The models that connected workers offer now." }) })
  .meta({ id: "NoSuchModel" });
/** Body of a 404: no worker offers the model, nor did in the last minutes. No job was stored, and nothing was charged [JB10]. */
export type NoSuchModel = z.infer<typeof NoSuchModel>;

/** The expected refusals, each with its HTTP status [API1]. */
export const REFUSALS = {
  user_token_required: 401,
  not_found: 404,
  "Job not found": 404,
  method_not_allowed: 405,
  idempotency_key_reused: 409,
  payload_too_large: 413,
  rate_limited: 429,
  queue_full: 503,
  storage_full: 503,
  overloaded: 503,
  facilitator_unavailable: 503,
  too_many_held_payments: 503,
} as const;
/** An `error` text that belongs to exactly one status. */
export type Refusal = keyof typeof REFUSALS;

export const Health = z
  .object({
    status: z.literal("ok"),
    workers_online: z.int().min(0).meta({ description: "Registered workers with a live socket." }),
    network: z.string(),
    timestamp: z.iso.datetime(),
  })
  .meta({ id: "Health" });
/** Body of `GET /v1/health` [SPEC]. */
export type Health = z.infer<typeof Health>;

export const X402Resources = z
  .object({
    x402Version: z.literal(2),
    version: z.literal(1),
    kind: z.literal("resource-server"),
    network: z.string(),
    resources: z.array(z.url()).meta({ description: "The endpoints that ask for a payment; none if jobs are free here." }),
    instructions: z.string(),
  })
  .meta({ id: "X402Resources" });
/** Body of `GET /.well-known/x402` [API8]. */
export type X402Resources = z.infer<typeof X402Resources>;

/** Query of `GET /v1/quote`. An absent or empty `policy` means `AUTO` [API3]. An absent or empty `model` asks about no model [JB10]. */
export const QuoteQuery = z.object({
  job_type: JobType,
  policy: z.preprocess((value) => (value === undefined || value === "" ? "AUTO" : value), Policy),
  model: z.preprocess((value) => (value === "" ? undefined : value), ModelName.optional()),
});
export type QuoteQuery = z.infer<typeof QuoteQuery>;

export const Quote = z
  .object({
    price: z
      .string()
      .regex(/^\$\d+\.\d{3}$/)
      .meta({ examples: ["$0.010"] }),
    endpoint: z.enum(["/v1/jobs/commit/fast", "/v1/jobs/commit/cheap"]),
    policy_resolved: ResolvedPolicy,
    network: z.string(),
    expires_at: z.null().meta({ description: "Reserved for dynamic pricing; always null." }),
    model: z.string().optional().meta({ description: "The `model` that was asked about; present only then." }),
    workers: z.int().min(0).optional().meta({ description: "Connected workers that offer this `model`; present only with it." }),
  })
  .meta({ id: "Quote" });
/** What a job will cost and where to commit it [SPEC]. */
export type Quote = z.infer<typeof Quote>;

const LIMIT_RULE = `must be a whole number from 1 to ${LIMITS.jobsPerPage}`;

/** Query of `GET /v1/jobs` [JB14]. */
export const JobsQuery = z.object({
  user_id: UserId,
  limit: z
    .string()
    .refine((text) => /^[1-9]\d{0,3}$/.test(text) && Number(text) <= LIMITS.jobsPerPage, LIMIT_RULE)
    .optional(),
  before: z.string().refine(isCursor, "must be an ISO 8601 time in UTC, or the next of a page").optional(),
});
export type JobsQuery = z.infer<typeof JobsQuery>;

/** True for `2026-10-01T12:00:00.000Z`, and for that with a comma and the id of a job. */
function isCursor(text: string): boolean {
  const [time = "", id, ...more] = text.split(",");
  return more.length === 0 && z.iso.datetime().safeParse(time).success && (id === undefined || z.uuid().safeParse(id).success);
}

export const JobSummary = z
  .object({ id: z.uuid(), job_type: JobType, status: JobStatus, created_at: z.iso.datetime(), completed_at: z.iso.datetime().nullable() })
  .meta({ id: "JobSummary" });
/** A job of a list: never its payload, result or receipt. */
export type JobSummary = z.infer<typeof JobSummary>;

export const JobPage = z
  .object({
    jobs: z.array(JobSummary).meta({ description: "Newest first." }),
    next: z.string().nullable().meta({ description: "`before` for the page of older jobs; null if there are none." }),
  })
  .meta({ id: "JobPage" });
/** Body of `GET /v1/jobs` [JB14]. */
export type JobPage = z.infer<typeof JobPage>;

export const PairingCreate = z.object({ user_id: UserId }).meta({ id: "PairingCreate" });
/** Body of `POST /v1/trust/create`. */
export type PairingCreate = z.infer<typeof PairingCreate>;

export const PairingCode = z.object({ pairing_code: z.string().regex(PAIRING_CODE), expires_at: z.iso.datetime() }).meta({ id: "PairingCode" });
/** A fresh pairing code, valid for one hour, usable once [SPEC]. */
export type PairingCode = z.infer<typeof PairingCode>;

export const PairingClaim = z
  .object({
    pairing_code: z.string(),
    provider_pubkey: z
      .string()
      .regex(/^[0-9a-fA-F]{64}$/, "must be 64 hex characters")
      .transform((key) => key.toLowerCase()),
    signature: z
      .string()
      .nullish()
      .meta({ description: "Optional proof of the key: base64 ed25519 over four lines: `compute-router/pair/v1`, network, code and key." }),
  })
  .meta({ id: "PairingClaim" });
/** Body of `POST /v1/trust/claim` [TR4]. */
export type PairingClaim = z.infer<typeof PairingClaim>;

export const Paired = z.object({ user_id: z.string(), paired_at: z.iso.datetime() }).meta({ id: "Paired" });
/** Body of a successful claim. */
export type Paired = z.infer<typeof Paired>;

export const TrustList = z.object({ providers: z.array(z.object({ provider_pubkey: z.string(), paired_at: z.iso.datetime() })) }).meta({ id: "TrustList" });
/** The workers that a user has paired with, newest first. */
export type TrustList = z.infer<typeof TrustList>;

/** Why a code cannot be claimed, in the order of the checks [API4]. */
export type ClaimRefusal = "invalid_code" | "already_claimed" | "expired";

/** One way to pay, as the 402 body lists it: first the specification's fields, then the x402 fields for clients that read the body [PY4]. */
export const PaymentRequirement = z
  .object({
    scheme: z.literal("exact"),
    price: z.string(),
    network: z.string(),
    payTo: z.string(),
    asset: z.string().optional().meta({ description: "Token contract; on the EVM instance only." }),
    amount: z.string().meta({ description: "Atomic units of the token." }),
    maxTimeoutSeconds: z.int(),
    extra: z.record(z.string(), z.unknown()),
    maxAmountRequired: z.string(),
    resource: z.string(),
    description: z.string(),
    mimeType: z.literal("application/json"),
  })
  .meta({ id: "PaymentRequirement" });
export type PaymentRequirement = z.infer<typeof PaymentRequirement>;

export const PaymentRequired = z
  .object({
    error: z.string(),
    accepts: z.array(PaymentRequirement),
    x402Version: z.literal(2),
    resource: z.object({ url: z.string(), description: z.string(), mimeType: z.string(), serviceName: z.string(), tags: z.array(z.string()) }),
  })
  .meta({ id: "PaymentRequired" });
/** Body of every 402 [PY4]. */
export type PaymentRequired = z.infer<typeof PaymentRequired>;

/** What a payer has on the router's books, because a paid job failed. Amounts in atomic units of the token, of which USDC has a million to the dollar [PY9]. */
export type Credit = {
  /** The amount of this job: what was credited to the balance, or taken from it. */
  amount: string;
  /** CAIP-2 network and token, `eip155:10143/0x534b…`. */
  asset: string;
  /** What the payer's next jobs can be paid from. */
  balance: string;
};
