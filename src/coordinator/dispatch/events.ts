// What can happen to dispatch, and what dispatch says and does about it: the contract between the core and the hub's shell. On a job's way: every step.
import type { FailureCause, JobType } from "../../protocol/job.ts";
import type { Result } from "../../protocol/text.ts";
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
  /** Memory was rebuilt. Jobs whose rows could not be read are not in it; `damaged` are their ids. */
  | { type: "restored"; damaged: readonly string[] }
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

/** The events of one type. */
export type EventOf<T extends DispatchEvent["type"]> = Extract<DispatchEvent, { type: T }>;

/** How a job ended. */
export type Outcome = { status: "completed"; key: string; verified: boolean } | { status: "failed"; cause: FailureCause; message?: string };

/** The end of a job, as its row has it. */
export type JobEnd = {
  jobId: string;
  outcome: Outcome;
  /** Reference of the settlement that paid for a completed job, for its receipt [PY10]; null where there is none. */
  paymentRef: string | null;
  rev: number;
  attempts: number;
  /** The keys whose late results are `already_terminal` and not `not_assigned`. */
  holders: readonly string[];
  /** Ms since the epoch. */
  endedAt: number;
};

/** A change of a stored row. The changes of one event are written together or not at all. */
export type RowChange =
  /** A new job. `isRefused`: it has ended already and nobody will run it, so its payload is not kept [JB8]. */
  | { type: "insert"; job: JobFacts; isRefused: boolean }
  /** This live job has changed. */
  | { type: "save"; jobId: string }
  | ({ type: "ended" } & JobEnd)
  /** What is remembered of a key has changed. */
  | { type: "record"; key: string; record: KeyRecord }
  | { type: "save_payment"; payment: Payment }
  /** Delete this payment's row: the same payment may come again. */
  | { type: "drop_payment"; key: string };

/** What a socket is sent, in this order, after the rows are durable. */
export type Send =
  /** `job_assign` */
  | { type: "assign"; conn: string; jobId: string; attempt: number; deadline: number }
  | { type: "cancel_attempt"; conn: string; jobId: string; attempt: number; reason: string }
  | { type: "completion_ack"; conn: string; jobId: string; answer: { status: "accepted" } | { status: "rejected"; error: CompletionRefusal } }
  | { type: "drained"; conn: string }
  /** Its key is parked for this many ms; the socket is closed next [WS4]. */
  | { type: "parked"; conn: string; ms: number }
  | { type: "close"; conn: string; code: number; reason: string };

/** What the shell has to do about an event: write `rows`, then send `sends`, then have the payments of `settles` settled; each answer to that is a `settled`. */
export type Changes = { rows: RowChange[]; sends: Send[]; settles: string[] };

/** What a submit comes to. `known`: its payment pays for this job already, so this is the same commit again. */
export type Submission = Result<{ kind: "accepted" } | { kind: "known"; jobId: string }, SubmitRefusal>;
/** Why a submit is refused. */
export type SubmitRefusal = "queue_full" | "reservation_lost" | "too_many_held_payments" | "no_trusted_worker";
/** What a completion comes to. `judged`: its acknowledgement is among the sends. `not_live`: the job may have ended, so the shell looks at the record and answers. */
export type CompletionAnswer = "judged" | "not_live";

/** The answer to who caused an event; null where nobody waits for one, and for an event of a socket that was replaced. */
export type Answer = Submission | Reservation | CompletionAnswer | null;

/** What `reduce` gives. */
export type Reduced<A extends Answer = Answer> = Changes & { answer: A };

/** What the core is told with every event: the time, and when a socket was last heard (both ms since the epoch). */
export type ReduceInput = { now: number; lastSeen: (conn: string) => number };

/** One event's input and the changes that it has made so far. */
export type ReduceContext = ReduceInput & Changes;
