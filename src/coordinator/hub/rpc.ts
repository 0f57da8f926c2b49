// The contract between router and hub: what the router asks by Durable Object RPC, and the two ends of a worker's socket that is on the channel. On a job's
// way: commit → hub, and poll.
import type { JobStatus, JobType, PrivacyClass, Receipt, ResolvedPolicy, TaskType } from "../../protocol/job.ts";
import type { ModelList } from "../../protocol/models.ts";
import type { Result } from "../../protocol/result.ts";

/** A validated commit, as the router sends it to the hub. */
export type CommitInput = {
  /** The job's id, which the router chooses: a second delivery of the same commit has the same id and gets the same answer. */
  id: string;
  jobType: JobType;
  /** Of a TASK; left out for an LLM_INFER. */
  taskType?: TaskType;
  /** The model of an LLM_INFER, in lower case; left out if any may answer [JB10]. */
  model?: string;
  /** True for a chat of more than one message [JB12]. */
  isChat?: true;
  policy: ResolvedPolicy;
  privacyClass: PrivacyClass;
  userId: string;
  /** Public keys of the workers paired with the user, newest first, for a PRIVATE job; otherwise empty. */
  trustedKeys: string[];
  /** The client that sent the commit, as {@link CLIENT_HEADER} names that of a socket [JB11]; an earlier router leaves it out. */
  client?: string;
  /** JSON text of the payload for the worker, `job_type` included [WS8]. */
  payload: string;
  /** `Idempotency-Key` and a fingerprint of the endpoint and the validated fields [API5]. */
  idempotency: { key: string; fingerprint: string } | null;
  /** Seconds to wait for the job's end before the answer; 0 for none [API6]. */
  wait: number;
  /** True if the router settles the payment itself when the answer to `submit` asks for it; an earlier router leaves it out, and the hub settles [PY7]. */
  settles?: boolean;
  /** True for a second delivery, after the first or its answer was lost. The job may have ended since, and only D1 may have it. */
  again?: boolean;
};

/** Why nothing may be stored for a commit now [LM3]. `retryAfter` is in seconds. */
export type StorageRefusal = { reason: "storage_full" } | { reason: "rate_limited"; retryAfter: number };
type StorageRefused = { ok: false } & StorageRefusal;
/** No worker offers the model, nor did a short time ago; `models` are those that are online [JB10]. */
export type NoSuchModelRefusal = { reason: "no_such_model"; models: string[] };

/**
 * What a 201 tells of a job. `job` is JSON text of the Job if `wait` is more than 0; otherwise null. `cancelToken` allows to cancel the job [JB13]; an
 * earlier hub leaves it out.
 */
export type AcceptedJob = { jobId: string; job: string | null; cancelToken?: string };

/** The hub's answer to a commit. */
export type CommitAnswer =
  | ({ ok: true } & AcceptedJob)
  | { ok: false; reason: "no_trusted_worker"; jobId: string }
  | ({ ok: false } & NoSuchModelRefusal)
  | { ok: false; reason: "queue_full" | "overloaded" | "idempotency_key_reused" }
  | StorageRefused;

/** A payment as the router read it from the request. The router has checked its terms; the facilitator has not been asked yet [PY3]. */
export type PaymentInput = {
  /** One real payment: `network:asset:from:nonce` lower-cased on EVM, SHA-256 hex of the compiled transaction message on SVM [PY6]. */
  key: string;
  /** SHA-256 hex of the whole payload: the same authorization under another signature is not the same payload [PY6]. */
  digest: string;
  /** SHA-256 hex of endpoint and validated fields: what the payment was sent for [PY6]. */
  binding: string;
  /** Who pays, as the payload says; null if only the facilitator can tell (SVM). */
  payer: string | null;
  /** CAIP-2 network and token, `eip155:10143/0x534b…`. */
  asset: string;
  /** Atomic units of the token. */
  amount: string;
  /** When the authorization expires, ms since the epoch: EVM `validBefore`, SVM 120 s from now. */
  expiresAt: number;
} & SettleTexts;

/** What the facilitator needs to settle a payment. */
export type SettleTexts = {
  /** JSON text of the v2 payment payload with our terms. It is stored until the payment is settled or void, then erased [PY9]. */
  payload: string;
  /** JSON text of our payment requirements. */
  requirements: string;
};

/** What a 201 tells of a job that was paid for. `settlement` is JSON text of the facilitator's SettleResponse; null if there is none yet. */
export type PaidJob = AcceptedJob & { settlement: string | null };

/** The hub's answer to a payment, before the facilitator is asked about it. */
export type ReserveAnswer =
  /** Have it verified, then call `submit`. The reservation ends after 60 s [PY5]. */
  | { state: "reserved" }
  /** The job of this payment failed after it was settled: `submit` starts one new job for it, without another payment or verification [PY9]. */
  | { state: "credit" }
  /** The same payment or idempotency key came before, for the same commit: answer 201 with this job. */
  | ({ state: "known" } & PaidJob)
  | ({ state: "refused" } & StorageRefusal)
  /** `settlement`: the same request came before and got this answer of the facilitator, which leaves open whether its money has moved. It gets it again. */
  | {
      state: "refused";
      reason: "payment_already_used" | "too_many_held_payments" | "queue_full" | "overloaded" | "idempotency_key_reused";
      settlement?: string;
    }
  | ({ state: "refused" } & NoSuchModelRefusal)
  | { state: "refused"; reason: "no_trusted_worker"; jobId: string };

/** The stored answer of an idempotency key, or why its request is refused [API5]. */
export type StoredAnswer = Extract<ReserveAnswer, { state: "known" | "refused" }>;

/** The hub's answer to a paid commit. */
export type PaidAnswer =
  | ({ ok: true } & PaidJob)
  /** The facilitator refused the settlement while the request waited for it: answer 402 with its reason [PY7]. */
  | { ok: false; reason: "payment_failed"; settlement: string }
  | StorageRefused
  | ({ ok: false } & NoSuchModelRefusal)
  | { ok: false; reason: "reservation_lost" | "payment_already_used" | "too_many_held_payments" | "queue_full" }
  | { ok: false; reason: "no_trusted_worker"; jobId: string };

/**
 * How a settle call ended, as the router reports it: `SettleOutcome` of payment/facilitator.ts, which this contract does not import. `response` is JSON text of
 * the facilitator's SettleResponse [PY8].
 */
export type SettleReport =
  | { kind: "settled"; transaction: string; response: string }
  | { kind: "refused" | "already_used"; reason: string; response: string }
  | { kind: "not_asked"; reason: string }
  | { kind: "unknown"; reason: string; lost: boolean };

/**
 * The hub's answer to a submit. With `settle` a worker is claimed: ask the facilitator to settle now, and tell the outcome to `settled` [PY7]. An earlier hub
 * leaves `cancelToken` out.
 */
export type SubmitAnswer = PaidAnswer | { ok: true; settle: true; jobId: string; cancelToken?: string };

/** The facts of a job that REST shows. `result` is JSON text; times are in ms since the epoch. */
export type JobRow = {
  id: string;
  status: JobStatus;
  result: string | null;
  receipt: Receipt | null;
  createdAt: number;
  completedAt: number | null;
};

/** A job with its receipt and its number of attempts, as D1 has it. */
export type FoundJob = JobRow & { attempt: number };

/** The hash of the token that is bound to a user, since when, and when it was last marked as used, in ms since the epoch [TR2]. */
export type BoundToken = { hash: string; boundAt: number; usedAt: number };

/** A job of the list of a user. Times are in ms since the epoch. */
export type UserJob = { id: string; jobType: JobType; status: JobStatus; createdAt: number; completedAt: number | null };

/**
 * Asks for a page of a list: at most `limit` jobs, the newest of those before `before`, and none from before `since` (an earlier router leaves it out). With
 * the same time, the larger id is the newer job.
 */
export type PageRequest = { before: { at: number; id: string } | null; since?: number; limit: number };

/**
 * The methods that the router calls by Durable Object RPC. They are only added to, never changed: during a deploy an old router talks to a new hub.
 */
export interface HubRpc {
  /** Stores a free job and claims a worker in one turn; resolves when the job is durable. */
  commit(input: CommitInput): Promise<CommitAnswer>;
  /** The stored answer of an idempotency key, for a request whose payment is not valid; null if the key has none [API5]. */
  stored(job: CommitInput): Promise<StoredAnswer | null>;
  /**
   * Reserves a payment in the ledger before the facilitator is asked about it: replays, races, full queues and missing workers end here [PY5, PY6]. The texts
   * of the payment are for an earlier hub: this one takes them from the submit.
   */
  reserve(job: CommitInput, payment: PaymentInput): Promise<ReserveAnswer>;
  /**
   * Stores the job of a reserved payment that the facilitator verified as `payer`'s; then claims, settles, assigns [PY7]. An earlier router leaves `texts` out.
   */
  submit(job: CommitInput, paymentKey: string, payer: string, texts?: SettleTexts): Promise<SubmitAnswer>;
  /** Records the outcome of the settle call that the answer to `submit` asked for; if the money moved, the job is assigned [PY7, PY8]. */
  settled(job: CommitInput, paymentKey: string, outcome: SettleReport): Promise<PaidAnswer>;
  /**
   * Cancels a job; with `unlessStarted` only if no worker has started it. Null if the token is not the job's. `job` is JSON text of the Job as it is then;
   * null if the hub does not have it (D1 may have it) [JB13].
   */
  cancel(id: string, token: string, unlessStarted?: boolean): Promise<{ job: string | null } | null>;
  /** Drops a reservation, because the facilitator refused the payment or could not be asked. The same payment can be sent again. */
  release(paymentKey: string, jobId: string): Promise<void>;
  /** JSON text of the SettleResponse of a job's payment; null if it is not settled, or there is none [PY7]. */
  settlement(jobId: string): Promise<string | null>;
  /**
   * JSON text of the Job, after up to `wait` seconds for its end; null if the hub does not have the job (D1 may have it). `client` is as {@link CLIENT_HEADER}
   * names it; an earlier router leaves it out.
   */
  job(id: string, wait: number, client?: string): Promise<string | null>;
  /** The answer to a poll of a job that may be paid, in one call: what `job` and then `settlement` return [PY7]. */
  poll(id: string, wait: number, client: string): Promise<{ job: string | null; settlement: string | null }>;
  /**
   * A job that the hub does not have, from D1; null if D1 does not have it. The reason is for the log: D1 did not answer. Only a router outside Cloudflare
   * asks this: there D1 is in the thread of the hub, and requests that share its queries leave time for others.
   */
  lookUpJob(id: string): Promise<Result<FoundJob | null, string>>;
  /** The same for the token of a user; null without one. */
  lookUpToken(userId: string): Promise<Result<BoundToken | null, string>>;
  /** A page of the jobs of a user, newest first: those that live, and those that have ended and that D1 may not have yet [JB14]. */
  userJobs(userId: string, page: PageRequest): Promise<UserJob[]>;
  /** The number of registered workers with an open socket. */
  workersOnline(): Promise<number>;
  /** The models of the connected workers, and how many workers take LLM jobs [JB10]. */
  models(): Promise<ModelList>;
  /** Tells the hub that a user has paired with a worker; waiting PRIVATE jobs may go to it. */
  paired(userId: string, key: string): Promise<void>;
  /**
   * Counts a claim of a pairing code as failed; {@link codeClaimed} takes that back. False if a budget is spent. An earlier router does not say which key
   * signed it [TR3].
   */
  mayClaimCode(client: string, id: string, signedBy?: string | null): Promise<boolean>;
  /** Takes back that the claim `id` has failed, because it has won [TR3]. */
  codeClaimed(id: string): Promise<void>;
  /** Wakes the hub, in case an alarm was lost, and deletes old rows; called by cron. */
  wake(): Promise<void>;
}

/** The hub as the router sees it: its methods, and `fetch` for sockets and event streams. */
export type Hub = HubRpc & { fetch(request: Request): Promise<Response> };

/** The hub's end of a worker's socket that ends at the front, for the channel. */
export type NearEnd = {
  /** Asks the hub to take the socket of this client, which dialled this URL. Null if it does, otherwise its answer. */
  connect(client: string, url: string): Response | null;
  /** Gives the hub a frame; null for one that is no text. */
  receive(text: string | null): void;
  /** It was last heard so many ms ago; 0 for a heartbeat. */
  noteQuiet(ms: number): void;
  /** Its connection has ended with this code. */
  end(code: number): void;
};

/** The front's end of it, for the hub. */
export type FarEnd = { send(text: string): void; close(code: number, reason: string): void };

/** The header with which the router names the client of a socket or an event stream. A client's own header with this name is replaced. */
export const CLIENT_HEADER = "x-router-client";
