import type { FailureCause, JobType } from "../../protocol/job.ts";
import type { CompletionRefusal, Tier } from "../../protocol/worker-messages.ts";
import type { JobFacts, KeyRecord } from "./state.ts";

/** What a completion turned out to be when the shell read it: receipt rules, size and shape [RC3, LM1, JB5]. */
export type Verdict = "valid" | "invalid_receipt" | "output_too_large" | "worker_error";

/** Everything that can happen to dispatch. `conn` names a socket; an event of a socket that was replaced changes nothing. */
export type DispatchEvent =
  | { type: "submit"; job: JobFacts }
  | {
      type: "register";
      conn: string;
      key: string;
      capabilities: ReadonlySet<JobType>;
      tier: Tier;
      acks: boolean;
      record: KeyRecord;
      /** When this key was last given a job, as far as is known; 0 for never. */
      lastUsedAt: number;
      resume: readonly { jobId: string; attempt: number }[] | undefined;
      /** Whether it had asked to drain before the hub lost its memory; left out for a new socket. */
      draining?: boolean;
    }
  | { type: "update"; conn: string; capabilities: ReadonlySet<JobType>; acks: boolean }
  | { type: "tier"; key: string; tier: Tier }
  | { type: "paired"; userId: string; key: string }
  | { type: "disconnect"; conn: string }
  | { type: "heard"; conn: string }
  | { type: "ack"; conn: string; jobId: string; attempt: number }
  | { type: "progress"; conn: string; jobId: string; attempt: number }
  | { type: "failed"; conn: string; jobId: string; attempt: number; retryable: boolean }
  | { type: "reject"; conn: string; jobId: string }
  | { type: "complete"; conn: string; jobId: string; attempt: number | undefined; verdict: Verdict }
  | { type: "drain"; conn: string }
  | { type: "cancel"; jobId: string }
  | { type: "time" };

/** How a job ended. */
export type Outcome = { status: "completed"; key: string; verified: boolean } | { status: "failed"; cause: FailureCause };

/** What the shell has to do, in this order, after the changed rows are durable. */
export type Effect =
  /** Save this live job's row. */
  | { type: "save"; jobId: string }
  /** Save this job's end. `holders` are the keys whose late results are `already_terminal` and not `not_assigned`. */
  | { type: "ended"; jobId: string; outcome: Outcome; rev: number; attempts: number; holders: readonly string[] }
  /** Save what is remembered of this key. */
  | { type: "record"; key: string; record: KeyRecord }
  /** Send `job_assign`. */
  | { type: "assign"; conn: string; jobId: string; attempt: number; deadline: number }
  | { type: "cancel_attempt"; conn: string; jobId: string; attempt: number; reason: string }
  | { type: "completion_ack"; conn: string; jobId: string; answer: { status: "accepted" } | { status: "rejected"; error: CompletionRefusal } }
  /** The job is not live: the shell looks at the record of what has ended and answers. */
  | { type: "completion_of_unknown"; conn: string; key: string; jobId: string }
  | { type: "drained"; conn: string }
  | { type: "close"; conn: string; code: number; reason: string }
  /** Answer of a submit that was refused; a submit without it was accepted. */
  | { type: "refused"; jobId: string; reason: "queue_full" };

/** What the core is told with every event: the time, and when a socket was last heard (both ms since the epoch). */
export type Surroundings = { now: number; lastSeen: (conn: string) => number };

/** One event's surroundings and the effects it has had so far. */
export type Turn = Surroundings & { effects: Effect[] };
