import * as z from "zod";

export const ErrorBody = z
  .object({ error: z.string(), request_id: z.string().optional().meta({ description: "On 5xx only; the same as the x-request-id header." }) })
  .meta({ id: "Error" });
/** Body of every error [API1]. */
export type ErrorBody = z.infer<typeof ErrorBody>;

export const NoTrustedWorker = z.object({ error: z.literal("no_trusted_worker"), job_id: z.uuid() }).meta({ id: "NoTrustedWorker" });
/** Body of a 422: the refused job is stored as failed and can be polled [JB8]. */
export type NoTrustedWorker = z.infer<typeof NoTrustedWorker>;

/** Expected refusals and the HTTP status each is answered with [API1]. */
export const REFUSALS = {
  user_token_required: 401,
  not_found: 404,
  "Job not found": 404,
  method_not_allowed: 405,
  idempotency_key_reused: 409,
  payload_too_large: 413,
  rate_limited: 429,
  queue_full: 503,
  overloaded: 503,
  facilitator_unavailable: 503,
  too_many_held_payments: 503,
} as const;
/** An `error` text that stands for exactly one status. */
export type Refusal = keyof typeof REFUSALS;
