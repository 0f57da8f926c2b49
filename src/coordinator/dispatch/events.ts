// The contract between the core and the hub around it: events go in, answers and changes come out. The last types are the context that the functions of the
// core share during one event. On a job's way: every step.
import type { FailureCause, JobType } from "../../protocol/job.ts";
import type { CompletionRefusal, Tier, WorkerFailure } from "../../protocol/worker-messages.ts";
import type { StoredModel } from "./known-models.ts";
import type { Finding, Payment, PaymentFacts, Reservation, Settlement, StoredCredits } from "./ledger.ts";
import type { JobFacts, KeyRecord, LiveJob } from "./state.ts";

/** The shell's verdict on a completion: its receipt, size and shape [RC3, LM1, JB5]. */
export type Verdict = "valid" | "invalid_receipt" | "output_too_large" | "worker_error";

/**
 * The payment of a submit: the key of a reserved payment that the facilitator verified as `payer`'s. `stored` is the ledger's row of a payment that is done,
 * for a repeated request. `byRequest`: the request itself asks the facilitator, if a worker is claimed at once [PY7].
 */
export type Paying = { key: string; payer: string | null; stored?: Payment | null; byRequest?: boolean };

/** Everything that can happen to dispatch. `connId` is the id of a socket; an event of a replaced socket changes nothing. */
export type DispatchEvent =
  /** A commit. `payment` is left out for a free job. */
  | { type: "submit"; job: JobFacts; payment?: Paying }
  | { type: "reserve"; payment: PaymentFacts; job: JobFacts; stored: Payment | null }
  | { type: "release"; key: string; jobId: string }
  /**
   * A settle call has ended. `by` says who made it. `stored` is the ledger's row of the payment, in case the core does not know it any more; null if there is
   * none.
   */
  | { type: "settled"; key: string; settlement: Settlement; by: "hub" | "request"; stored: Payment | null }
  /** The operator's decision about an unresolved payment: the money has moved, or it has not. `stored` as in `settled` [PY8]. */
  | { type: "order"; key: string; verb: OrderVerb; stored: Payment | null }
  /** What the chain shows about a payment in doubt. `stored` as in `settled` [PY8]. */
  | { type: "chain"; key: string; finding: Finding; stored: Payment | null }
  | {
      type: "register";
      connId: string;
      key: string;
      capabilities: ReadonlySet<JobType>;
      tier: Tier;
      /** The models that it announced, in lower case; left out for none [JB10]. */
      models?: readonly string[];
      /** True if it announced `chat` [JB12]. */
      chats?: boolean;
      acks: boolean;
      /** Tokens that prompt and answer may have together; left out if the worker did not announce it [WS3]. */
      context?: number;
      /** The same for each of its models, in lower case; left out if the worker did not tell them apart [WS3]. */
      contexts?: ReadonlyMap<string, number> | undefined;
      /** The network that the socket comes from: an IPv4 address or an IPv6 /48 [JB11]. */
      network: string;
      /** True if the registration is signed [WS5]. */
      authenticated: boolean;
      /** True if this worker gets no PRIVATE jobs: another one may have signed with its key [WS5]. Left out for false. */
      publicOnly?: boolean;
      record: KeyRecord;
      /** When this key last got a job, ms since the epoch; 0 for never, or if it is not known. */
      lastUsedAt: number;
      resume: readonly { jobId: string; attempt: number }[] | undefined;
      /** True if the worker asked to drain before the hub lost its memory; left out for a new socket. */
      draining?: boolean;
      /** When the worker registered, ms since the epoch; left out if it registers now. */
      registeredAt?: number;
    }
  | {
      type: "update";
      connId: string;
      capabilities: ReadonlySet<JobType>;
      models?: readonly string[];
      chats?: boolean;
      acks: boolean;
      context?: number;
      contexts?: ReadonlyMap<string, number> | undefined;
    }
  | { type: "tier"; key: string; tier: Tier }
  /**
   * The hub's memory was rebuilt. `damaged`: the ids of the jobs whose rows could not be read. `models`: what is stored
   * about models.
   */
  | { type: "restored"; damaged: readonly string[]; models?: readonly StoredModel[] }
  /** The sockets that outlived the hub's memory have their workers again. */
  | { type: "sockets_restored" }
  /** The hub was down until now: its workers have lost their connections and need a while to come back. */
  | { type: "outage" }
  | { type: "paired"; userId: string; key: string }
  | { type: "disconnect"; connId: string }
  | { type: "heard"; connId: string }
  /** The job runs. */
  | { type: "ack"; connId: string; jobId: string; attempt: number }
  /** The worker sent text of its answer. */
  | { type: "progress"; connId: string; jobId: string; attempt: number }
  /** `message` is what the worker said, in a form that is safe to show [JB5]. */
  | { type: "failed"; connId: string; jobId: string; attempt: number; retryable: boolean; cause?: WorkerFailure; message?: string }
  /** `tooLong`: true if the job does not fit the worker's context. */
  | { type: "reject"; connId: string; jobId: string; tooLong?: boolean }
  | { type: "complete"; connId: string; jobId: string; attempt: number | undefined; verdict: Verdict; message?: string }
  /** The worker sent a frame that is too large and that contains the id of this job. Its socket is about to be closed [LM1]. */
  | { type: "oversized"; connId: string; jobId: string }
  | { type: "drain"; connId: string }
  /** The seeker no longer wants the job; with `unlessStarted` only if no worker has started it [JB13]. */
  | { type: "cancel"; jobId: string; unlessStarted?: boolean }
  | { type: "time" };

/** The events of one type. */
export type EventOf<T extends DispatchEvent["type"]> = Extract<DispatchEvent, { type: T }>;

/** How a job ended. */
export type Outcome = { status: "completed"; key: string; verified: boolean } | { status: "failed"; cause: FailureCause; message?: string };

/** The end of a job, as its row has it. */
export type JobEnd = {
  jobId: string;
  outcome: Outcome;
  /** True if a worker started the job. If none did, its payload is erased [LM3]. */
  started: boolean;
  /** Reference of the settlement that paid for a completed job, for its receipt [PY10]; null where there is none. */
  paymentRef: string | null;
  rev: number;
  attempts: number;
  /** The keys whose late results are `already_terminal` and not `not_assigned`; the key that had the job last comes last. */
  holders: readonly string[];
  /** Ms since the epoch. */
  endedAt: number;
};

/** A change of a stored row. The changes of one event are written together or not at all. */
export type RowChange =
  /** Write a new job. */
  | { type: "insert"; job: JobFacts }
  /** Write this live job, which has changed. */
  | { type: "save"; jobId: string }
  | ({ type: "ended" } & JobEnd)
  /** Write what is remembered of a key. */
  | { type: "record"; key: string; authenticated: boolean; record: KeyRecord }
  /** Write what is remembered of a model [JB10]. */
  | ({ type: "model" } & StoredModel)
  /**
   * `opensCredit`: true if its money has just come into its payer's balance; `becomesUnresolved`: true if it is in doubt from now on and its job has ended. A
   * reservation is kept in memory only: the hub writes no row [PY5].
   */
  | { type: "save_payment"; payment: Payment; opensCredit?: true; becomesUnresolved?: true }
  /** Forget this reservation, so that the same payment can be sent again. It has no row: the hub writes nothing. */
  | { type: "drop_payment"; key: string };

/** A frame for a socket, or its close. Everything is sent in order, after the rows are durable. */
export type Send =
  /** Send `job_assign`. */
  | { type: "assign"; connId: string; jobId: string; attempt: number; deadline: number }
  | { type: "cancel_attempt"; connId: string; jobId: string; attempt: number; reason: string }
  | { type: "completion_ack"; connId: string; jobId: string; answer: { status: "accepted" } | { status: "rejected"; error: CompletionRefusal } }
  | { type: "drained"; connId: string }
  /** Tell a worker that its key is parked for this many ms. Its socket is closed next [WS4]. */
  | { type: "parked"; connId: string; ms: number }
  | { type: "close"; connId: string; code: number; reason: string };

/**
 * What the shell does after an event: it writes `rows`, then sends `sends`, then asks the facilitator to settle the payments with the keys `settles`. Each
 * outcome of that comes back as a `settled` event.
 */
export type Changes = { rows: RowChange[]; sends: Send[]; settles: string[] };

/** The answer to a submit. */
export type Submission = { ok: true } | { ok: false; reason: SubmitRefusal };
/** Why a submit is refused. */
export type SubmitRefusal = "no_such_model" | "queue_full" | "reservation_lost" | "payment_already_used" | "too_many_held_payments" | "no_trusted_worker";

/** What an operator can order about an unresolved payment: make it a credit of its payer, or void [PY8]. */
export type OrderVerb = "credit" | "void";
/**
 * The outcome of an order. `under_way`: the facilitator is being asked at this moment, or a worker still has the job, so the order must wait. `has_balance`:
 * the payment is quarantined, and its money is in its payer's balance already.
 */
export type OrderOutcome = "done" | "under_way" | "not_unresolved" | "has_balance" | "no_such_payment";

/** The answer to the caller of an event; null for events without an answer, and for an event of a replaced socket. */
export type Answer = Submission | Reservation | OrderOutcome | null;

/** The result of `reduce`. */
export type Reduced<A extends Answer = Answer> = Changes & { answer: A };

/** The input of every event: the time, when a socket last sent something (both ms since the epoch), and the stored credits of a payer. */
export type ReduceInput = { now: number; lastSeen: (connId: string) => number; storedCredits: StoredCredits };

/** The input of one event and the changes that it has made so far. */
export type ReduceContext = ReduceInput &
  Changes & { /** The payment that the request of this event settles itself; null for none. */ readonly settledByRequest: string | null };

/** Marks a job's row as changed. */
export function save(job: LiveJob, ctx: ReduceContext): void {
  job.rev++;
  if (job.phase.kind === "leased") job.savedExecuteDue = job.phase.executeDue;
  job.graceSaved = job.phase.kind === "orphaned";
  ctx.rows.push({ type: "save", jobId: job.id });
}
