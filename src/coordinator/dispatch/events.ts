import type { FailureCause, JobType } from "../../protocol/job.ts";
import type { CompletionRefusal, Tier, WorkerFailure } from "../../protocol/worker-messages.ts";
import type { Payment, PaymentFacts, Reservation, Settlement } from "./ledger.ts";
import type { JobFacts, KeyRecord } from "./state.ts";

/** What a completion turned out to be when the shell read it: receipt rules, size and shape [RC3, LM1, JB5]. */
export type Verdict = "valid" | "invalid_receipt" | "output_too_large" | "worker_error";

/** Everything that can happen to dispatch. `conn` names a socket; an event of a socket that was replaced changes nothing. */
export type DispatchEvent =
  /** `payment` is the key of a reserved payment that was verified as `payer`'s; left out for a free job. */
  | { type: "submit"; job: JobFacts; payment?: { key: string; payer: string | null } }
  | { type: "reserve"; payment: PaymentFacts; job: JobFacts; stored: Payment | null }
  | { type: "release"; key: string; jobId: string }
  | { type: "settled"; key: string; settlement: Settlement }
  | {
      type: "register";
      conn: string;
      key: string;
      capabilities: ReadonlySet<JobType>;
      tier: Tier;
      acks: boolean;
      /** Tokens that prompt and answer may have together, as announced; left out: not told [WS3]. */
      context?: number;
      record: KeyRecord;
      /** When this key was last given a job, as far as is known; 0 for never. */
      lastUsedAt: number;
      resume: readonly { jobId: string; attempt: number }[] | undefined;
      /** Whether it had asked to drain before the hub lost its memory; left out for a new socket. */
      draining?: boolean;
      /** When it registered, ms since the epoch; left out for now. */
      registeredAt?: number;
    }
  | { type: "update"; conn: string; capabilities: ReadonlySet<JobType>; acks: boolean; context?: number }
  | { type: "tier"; key: string; tier: Tier }
  /** Memory was rebuilt: jobs whose rows could not be read are not there. */
  | { type: "restored" }
  | { type: "paired"; userId: string; key: string }
  | { type: "disconnect"; conn: string }
  | { type: "heard"; conn: string }
  | { type: "ack"; conn: string; jobId: string; attempt: number }
  | { type: "progress"; conn: string; jobId: string; attempt: number }
  /** `message` is what the worker said, fit to be shown [JB5]. */
  | { type: "failed"; conn: string; jobId: string; attempt: number; retryable: boolean; cause?: WorkerFailure; message?: string }
  /** `tooLong`: the job does not fit the worker's context. */
  | { type: "reject"; conn: string; jobId: string; tooLong?: boolean }
  | { type: "complete"; conn: string; jobId: string; attempt: number | undefined; verdict: Verdict; message?: string }
  /** The worker sent a frame over the limit that names this job; its socket is about to be closed for it [LM1]. */
  | { type: "oversized"; conn: string; jobId: string }
  | { type: "drain"; conn: string }
  | { type: "cancel"; jobId: string }
  | { type: "time" };

/** How a job ended. */
export type Outcome = { status: "completed"; key: string; verified: boolean } | { status: "failed"; cause: FailureCause; message?: string };

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
  /** Tell a worker that its socket is about to be closed because its key is parked, and for how many ms [WS4]. */
  | { type: "parked"; conn: string; ms: number }
  | { type: "close"; conn: string; code: number; reason: string }
  | { type: "save_payment"; payment: Payment }
  /** Delete this payment's row: as if it had never come. */
  | { type: "drop_payment"; key: string }
  /** Ask the facilitator to settle this payment once its row is durable, and tell what came of it by `settled`. */
  | { type: "settle"; key: string }
  /** Answer of a `reserve`. */
  | { type: "reservation"; reservation: Reservation }
  /** Answer of a submit that was refused; a submit without it was accepted. */
  | { type: "refused"; jobId: string; reason: "queue_full" | "reservation_lost" | "too_many_held_payments" }
  /** Answer of a submit whose payment pays for another job already: the same commit again. */
  | { type: "same_as"; jobId: string; otherId: string };

/** What the core is told with every event: the time, and when a socket was last heard (both ms since the epoch). */
export type ReduceInput = { now: number; lastSeen: (conn: string) => number };

/** One event's surroundings and the effects it has had so far. */
export type ReduceContext = ReduceInput & { effects: Effect[] };
