import type { JobType, PrivacyClass, ResolvedPolicy, TaskType } from "../../protocol/job.ts";
import type { ModelList } from "../../protocol/models.ts";

/** A validated commit, as the router hands it to the hub. */
export type CommitInput = {
  /** The job's id, chosen by the router: a second delivery of one commit has the same id and gets the same answer. */
  id: string;
  jobType: JobType;
  /** Of a TASK; left out for an LLM_INFER. */
  taskType?: TaskType;
  policy: ResolvedPolicy;
  privacyClass: PrivacyClass;
  userId: string;
  /** Public keys of the workers paired with the user, newest first, for a PRIVATE job; else empty. */
  trustedKeys: string[];
  /** JSON text of the payload for the worker, `job_type` included [WS8]. */
  payload: string;
  /** `Idempotency-Key` and a fingerprint of the endpoint and the validated fields [API5]. */
  idempotency: { key: string; fingerprint: string } | null;
  /** Seconds to hold the answer for the job's end, 0 for none [API6]. */
  wait: number;
  /** A second delivery: the first was lost on the way, and the job may have ended and left for D1 since. */
  again?: boolean;
};

/** The hub's answer to a commit. `job` is JSON text of the Job, there when a wait was asked for. */
export type CommitAnswer =
  | { ok: true; jobId: string; job: string | null }
  | { ok: false; reason: "no_trusted_worker"; jobId: string }
  | { ok: false; reason: "queue_full" | "overloaded" | "idempotency_key_reused" };

/** A payment as the router read it from the request: its terms are ours, checked, and nobody has been asked about it yet [PY3]. */
export type PaymentInput = {
  /** One real payment: `network:asset:from:nonce` lower-cased on EVM, SHA-256 hex of the compiled transaction message on SVM [PY6]. */
  key: string;
  /** SHA-256 hex of the whole payload: the same authorization under another signature is not the same payload [PY6]. */
  digest: string;
  /** SHA-256 hex of endpoint and validated fields: what the payment was sent for [PY6]. */
  binding: string;
  /** Who pays, as the payload says; null where only the facilitator can tell (SVM). */
  payer: string | null;
  /** CAIP-2 network and token, `eip155:10143/0x534b…`. */
  asset: string;
  /** Atomic units of the token. */
  amount: string;
  /** When the authorization dies, ms since the epoch: EVM `validBefore`, SVM 120 s from now. */
  expiresAt: number;
  /** JSON text of the v2 payment payload with our terms in it, for the facilitator. Held until settled or void, then erased [PY9]. */
  payload: string;
  /** JSON text of our payment requirements, for the facilitator. */
  requirements: string;
};

/** The hub's answer before anyone is asked about a payment. */
export type ReserveAnswer =
  /** Have it verified, then `submit`. Dropped after 60 s without [PY5]. */
  | { state: "reserved" }
  /** This payment failed its job after it was settled: `submit` starts one new job for it, without another payment or verification [PY9]. */
  | { state: "credit" }
  /** The same payment or idempotency key for the same thing again: answer 201 with this job. */
  | { state: "known"; jobId: string; job: string | null; settlement: string | null }
  | { state: "refused"; reason: "payment_already_used" | "too_many_held_payments" | "queue_full" | "idempotency_key_reused" }
  | { state: "refused"; reason: "no_trusted_worker"; jobId: string };

/** The hub's answer to a paid commit. `settlement` is JSON text of the facilitator's SettleResponse, once there is one. */
export type SubmitAnswer =
  | { ok: true; jobId: string; job: string | null; settlement: string | null }
  /** The settlement was refused while the request waited for it: answer 402 with this reason of the facilitator's [PY7]. */
  | { ok: false; reason: "payment_failed"; error: string; settlement: string }
  | { ok: false; reason: "reservation_lost" | "payment_already_used" | "too_many_held_payments" | "queue_full" | "idempotency_key_reused" }
  | { ok: false; reason: "no_trusted_worker"; jobId: string };

/**
 * What the router may ask of the hub, by Durable Object RPC. Additive only: during a deploy an old router talks to a new hub.
 */
export interface HubRpc {
  /** Stores and claims in one turn; resolves when the job is durable. */
  commit(input: CommitInput): Promise<CommitAnswer>;
  /** The answer that an idempotency key has already, before any payment is looked at; null when it has none [API5]. */
  stored(job: CommitInput): Promise<Extract<ReserveAnswer, { state: "known" | "refused" }> | null>;
  /** Takes a payment into the ledger before anyone is asked about it: replays, races, full queues and missing workers end here [PY5, PY6]. */
  reserve(job: CommitInput, payment: PaymentInput): Promise<ReserveAnswer>;
  /** The facilitator has verified the reserved payment as `payer`'s: stores the job, claims, settles, assigns [PY7]. */
  submit(job: CommitInput, paymentKey: string, payer: string): Promise<SubmitAnswer>;
  /** The facilitator refused or could not be asked: the reservation is dropped, the same payment may come again. */
  release(paymentKey: string, jobId: string): Promise<void>;
  /** JSON text of the SettleResponse of a job's payment, once it is settled; null when there is none [PY7]. */
  settlement(jobId: string): Promise<string | null>;
  /** JSON text of the Job, held up to `wait` seconds for its end; null when the hub does not have it (then D1 has, or nobody). */
  job(id: string, wait: number): Promise<string | null>;
  /** Registered workers with a live socket. */
  workersOnline(): Promise<number>;
  /** The models of the connected workers, and how many workers take LLM jobs [JB10]. */
  models(): Promise<ModelList>;
  /** A user paired with one more worker; PRIVATE jobs that wait may go to it. */
  paired(userId: string, key: string): Promise<void>;
  /** Counts a claim of a pairing code as failed until it has won; the router chooses `id`. False: over the rate of this client, or of failed claims in all [TR3]. */
  mayClaimCode(client: string, id: string): Promise<boolean>;
  /** The claim `id` has won: it is no failed one [TR3]. */
  codeClaimed(id: string): Promise<void>;
  /** Wakes a hub that may have slept through something; called by cron. */
  wake(): Promise<void>;
}

/** The hub as the router sees it: its questions, and the door for sockets and event streams. */
export type Hub = HubRpc & { fetch(request: Request): Promise<Response> };

/** The header in which the router tells the hub who dials; what a client sends under this name is replaced. */
export const CLIENT_HEADER = "x-router-client";
