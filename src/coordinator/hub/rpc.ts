import type { JobType, PrivacyClass, ResolvedPolicy } from "../../protocol/job.ts";

/** A validated commit, as the router hands it to the hub. */
export type CommitInput = {
  /** The job's id, chosen by the router: a second delivery of one commit has the same id and gets the same answer. */
  id: string;
  jobType: JobType;
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
};

/** The hub's answer to a commit. `job` is JSON text of the Job, there when a wait was asked for. */
export type CommitAnswer =
  | { ok: true; jobId: string; job: string | null }
  | { ok: false; reason: "no_trusted_worker"; jobId: string }
  | { ok: false; reason: "queue_full" | "idempotency_key_reused" };

/**
 * What the router may ask of the hub, by Durable Object RPC. Additive only: during a deploy an old router talks to a new hub.
 */
export interface HubRpc {
  /** Stores and claims in one turn; resolves when the job is durable. */
  commit(input: CommitInput): Promise<CommitAnswer>;
  /** JSON text of the Job, held up to `wait` seconds for its end; null when the hub does not have it (then D1 has, or nobody). */
  job(id: string, wait: number): Promise<string | null>;
  /** Registered workers with a live socket. */
  workersOnline(): Promise<number>;
  /** A user paired with one more worker; PRIVATE jobs that wait may go to it. */
  paired(userId: string, key: string): Promise<void>;
  /** Counts an attempt to claim a pairing code. False: over the rate of this IP, or of failed claims in all [TR3]. */
  mayClaimCode(ip: string): Promise<boolean>;
  /** Counts a failed claim of a pairing code [TR3]. */
  codeClaimFailed(): Promise<void>;
  /** Wakes a hub that may have slept through something; called by cron. */
  wake(): Promise<void>;
}
