import type { FailureCause, JobStatus, JobType, PrivacyClass, ResolvedPolicy, TaskType } from "../../protocol/job.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import { OrderedPool } from "./ordered-pool.ts";
import type { Ledger } from "./ledger.ts";

/** What the operator chose that changes dispatch. */
export type Rules = {
  /** Whether the stake tier table is enforced at claim [ST1]. */
  stake: boolean;
  /** What becomes of a result without a valid receipt [RC4]. */
  receiptPolicy: "strict" | "record";
};

/** What a job comes with. Times in ms since the epoch. */
export type JobFacts = {
  id: string;
  jobType: JobType;
  /** Of a TASK: what its output is measured by, and nothing to dispatch [RC6]. */
  taskType?: TaskType;
  policy: ResolvedPolicy;
  privacyClass: PrivacyClass;
  userId: string;
  /** The user's paired workers, for a PRIVATE job; empty for a PUBLIC one. Grows when the user pairs with one more. */
  trustedKeys: readonly string[];
  /** UTF-8 bytes of the payload, which itself never enters the core. */
  payloadBytes: number;
  createdAt: number;
};

/** A worker's hold on a job. `attempt` is 1, 2 or 3. */
export type Lease = { key: string; attempt: number; acked: boolean };

/** Where a live job is. A job that has ended is not in the core any more. */
export type Phase =
  | { kind: "waiting"; claimDue: number }
  /** A worker was claimed and its payment is being settled; without a worker once that takes too long. Not claimable, public `pending` [PY7, PY8]. */
  | { kind: "settling"; hold: { key: string; conn: string } | null; holdDue: number }
  | { kind: "leased"; lease: Lease; conn: string; ackDue: number | null; executeDue: number }
  | { kind: "orphaned"; lease: Lease; graceDue: number; executeDue: number };

/** A job that has not ended. */
export type LiveJob = JobFacts & {
  /** Order of arrival at this hub, to break ties. */
  seq: number;
  /** Grows with every saved change; a store takes a row only if its `rev` is higher. */
  rev: number;
  /** Attempts used so far. */
  attempts: number;
  /** Who held a lease: the only ones whose result counts [WS12]. */
  holders: Lease[];
  /** Workers that lost, failed or rejected it [JB4]. */
  tried: Set<string>;
  /** Keys whose results for it have been a strike already [RC4]. */
  struck: Set<string>;
  /** Key of the payment that pays for it; null for a free one. */
  payment: string | null;
  /** Why the last attempt ended, and what its worker said about it; null before one has. */
  cause: FailureCause | null;
  message: string | null;
  /** The largest context of a worker that said that the job does not fit; null while nobody has. Only a larger one may take it [JB5]. */
  outgrown: number | null;
  totalDue: number;
  /** When the present claim window ends; a rejected lease does not stop it. */
  windowDue: number;
  phase: Phase;
  /** The end of the execution time as it was last saved, ms; renewals in between are not. */
  savedExecuteDue: number;
};

/** What is remembered of a key beyond its sockets. */
export type KeyRecord = { strikes: number; parks: number; parkedUntil: number };

/** A registered worker with a live socket. */
export type Worker = {
  key: string;
  conn: string;
  capabilities: ReadonlySet<JobType>;
  tier: Tier;
  /** Whether it announced `ack` and so must acknowledge in time [WS9]. */
  acks: boolean;
  /** Tokens that prompt and answer may have together; 0 when it did not say, which counts as not larger than any other. */
  context: number;
  record: KeyRecord;
  /** When it was last given a job, ms since the epoch; 0 for never. */
  lastUsedAt: number;
  seq: number;
  jobId: string | null;
  draining: boolean;
  /** Until when it is given no job because it has only just registered, ms since the epoch; null once it has arrived [JB2]. */
  arrivesAt: number | null;
  /** After too many failures in a row: no job until the next tick. */
  resting: boolean;
  /** Found silent at a claim: no job until it is heard again. */
  silent: boolean;
  failuresInARow: number;
};

/** A group of workers or jobs that can be matched without looking further: a job type, and `+` where Verified is needed. */
export type PoolName = `${JobType}${"" | "+"}`;
export const POOL_NAMES = ["LLM_INFER", "LLM_INFER+", "TASK", "TASK+"] as const satisfies readonly PoolName[];

/**
 * Everything dispatch knows. Owned by one hub; `reduce` changes it in place, because a copy per event would cost more than the event.
 * Maps are the truth, pools are indexes over them.
 */
export type DispatchState = {
  readonly rules: Rules;
  readonly jobs: Map<string, LiveJob>;
  readonly workers: Map<string, Worker>;
  readonly keyByConn: Map<string, string>;
  /** The job that a key holds a lease of, its socket alive or not. */
  readonly leases: Map<string, string>;
  readonly idle: Record<PoolName, OrderedPool>;
  /** Connected workers that could take such a job, busy or not; without those found silent. */
  readonly connected: Record<PoolName, Set<string>>;
  /** Waiting PUBLIC jobs. */
  readonly waiting: Record<PoolName, OrderedPool>;
  /** Waiting PUBLIC jobs that did not fit a context, by that context: what a worker cannot run never stands in its way. */
  readonly waitingLarger: Record<PoolName, Map<number, OrderedPool>>;
  /** Waiting PRIVATE jobs, by pool and key that may take them: what a worker cannot run never stands in its way. */
  readonly waitingFor: Map<string, OrderedPool>;
  /** Waiting jobs that someone has tried already: the tick looks at them. */
  readonly retrying: Set<string>;
  /** Workers that have only just registered, by the time from which they may be given jobs [JB2]. */
  readonly arriving: OrderedPool;
  readonly resting: Set<string>;
  readonly silent: Set<string>;
  /** When each live job needs attention next. */
  readonly timers: OrderedPool;
  readonly queuedByUser: Map<string, number>;
  /** Live PRIVATE jobs, by user. */
  readonly privateJobs: Map<string, Set<string>>;
  readonly ledger: Ledger;
  queued: number;
  queuedBytes: number;
  tickDue: number | null;
  sweepDue: number | null;
  silentCheckedAt: number;
  nextSeq: number;
};

/** An empty dispatch state. */
export function createState(rules: Rules): DispatchState {
  const pools = <T>(make: () => T): Record<PoolName, T> => ({ LLM_INFER: make(), "LLM_INFER+": make(), TASK: make(), "TASK+": make() });
  return {
    rules,
    jobs: new Map(),
    workers: new Map(),
    keyByConn: new Map(),
    leases: new Map(),
    idle: pools(() => new OrderedPool()),
    connected: pools(() => new Set<string>()),
    waiting: pools(() => new OrderedPool()),
    waitingLarger: pools(() => new Map<number, OrderedPool>()),
    waitingFor: new Map(),
    retrying: new Set(),
    arriving: new OrderedPool(),
    resting: new Set(),
    silent: new Set(),
    timers: new OrderedPool(),
    queuedByUser: new Map(),
    privateJobs: new Map(),
    ledger: {
      payments: new Map(),
      inFlight: new Set(),
      settleQueue: new Set(),
      unsettledByPayer: new Map(),
      creditsByPayer: new Map(),
      timers: new OrderedPool(),
    },
    queued: 0,
    queuedBytes: 0,
    tickDue: null,
    sweepDue: null,
    silentCheckedAt: 0,
    nextSeq: 1,
  };
}

/** The public status of a live job [JB1]. */
export function statusOf(job: LiveJob): Exclude<JobStatus, "completed" | "failed"> {
  if (job.phase.kind === "waiting" || job.phase.kind === "settling") return "pending";
  return job.phase.lease.acked ? "running" : "assigned";
}
