// The state of dispatch: jobs, workers, payments, the indexes over them, and when each job is due. On a job's way: where a job is while it lives.
import type { FailureCause, JobStatus, JobType, PrivacyClass, ResolvedPolicy, TaskType } from "../../protocol/job.ts";
import { TIMING } from "../../protocol/times.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import { KnownModels } from "./known-models.ts";
import type { Ledger } from "./ledger.ts";
import { BASE_POOLS, IdlePool, OrderedPool, type PoolName, Pools, Turns } from "./pools.ts";
import { Queue, type QueueSize } from "./shares.ts";

/** The settings of the operator that change dispatch. */
export type DispatchSettings = {
  /** True if the stake tier table is enforced at claim [ST1]. */
  stake: boolean;
  /** What happens to a result without a valid receipt: `strict` rejects it, `record` stores it as not verified [RC4]. */
  receiptPolicy: "strict" | "record";
  /** The size of the queue [LM1]. */
  queue: QueueSize;
  /** True if one client has at most its share of the queue: only where rates are limited [LM1, LM2]. */
  clientShares: boolean;
  /** Settlements that the hub itself has in progress at the same time [PY7]. */
  settlements: number;
  /** True if the chain can be read: then it decides about a payment in doubt, and no settlement is assumed [PY8]. */
  chain: boolean;
};

/** The facts of a job, which its commit sets. Times in ms since the epoch. */
export type JobFacts = {
  id: string;
  jobType: JobType;
  /** The type of a TASK. Only the check of its output needs it, dispatch does not [RC6]. */
  taskType?: TaskType;
  /** The model that must answer an LLM_INFER, in lower case; left out if any may [JB10]. */
  model?: string;
  /** True for a chat of more than one message: workers that apply `messages` come first [JB12]. */
  isChat?: true;
  policy: ResolvedPolicy;
  privacyClass: PrivacyClass;
  userId: string;
  /** The user's paired workers, for a PRIVATE job; empty for a PUBLIC one. Grows when the user pairs with one more. */
  trustedKeys: readonly string[];
  /** UTF-8 bytes of the payload. The payload itself never enters the core. */
  payloadBytes: number;
  createdAt: number;
  /** The network that committed the job; empty if it is not known [JB11]. */
  network: string;
};

/**
 * A worker's right to do a job. `attempt` is 1, 2 or 3. `network` is the network that answers for a worker on probation; left out for a proven worker, and for
 * a PRIVATE job [JB11]. `begun`: the worker does not acknowledge, so the job counts as started by it [JB13].
 */
export type Lease = { key: string; attempt: number; acked: boolean; begun?: true; network?: string };

/** A worker's statement that this job cannot be done at all. `proven` is its standing at that time [JB11]. */
export type Denial = { key: string; network: string; proven: boolean };

/** The phase of a live job. A job that has ended is not in the core any more. */
export type Phase =
  | { kind: "waiting"; claimDue: number }
  /**
   * Its payment is not settled yet: it waits for its turn or for the end of a pause (held), is being settled, or is unknown. `claimed` is the worker that waits
   * for it, until `releaseDue` at most; null when it was released. The public status is `pending` [PY7, PY8].
   */
  | { kind: "settling"; claimed: { key: string; connId: string; network?: string } | null; releaseDue: number }
  | { kind: "leased"; lease: Lease; connId: string; ackDue: number | null; executeDue: number }
  | { kind: "orphaned"; lease: Lease; graceDue: number; executeDue: number };

/** A job that has not ended. */
export type LiveJob = JobFacts & {
  /** Order of arrival at this hub, which decides between equals. */
  seq: number;
  /** Grows with every saved change. A store accepts a row only if its `rev` is higher. */
  rev: number;
  /** Attempts used so far. */
  attempts: number;
  /** True once a worker started it, in any attempt: it acknowledged the job or sent progress, or it was assigned the job and does not announce `ack` [LM3]. */
  started: boolean;
  /** True once a worker sent text of its answer, in any attempt [PY9]. */
  streamed: boolean;
  /**
   * The lease of each attempt, and those of workers that rejected the job after they had acknowledged it. Only the result of a worker that held one counts
   * [WS12].
   */
  holders: Lease[];
  /** Workers that lost, failed or rejected the job [JB4]; of those that rejected it, only the last ones. */
  tried: Set<string>;
  /** Keys that have a strike for this job already [RC4]. */
  struck: Set<string>;
  /** Workers that said that this job cannot be done: as many as it takes to end it [JB11]. */
  denials: Denial[];
  /** Key of the payment that pays for the job; null for a free one. */
  payment: string | null;
  /** Who paid; null for a free job, and if the payer is not known. */
  payer: string | null;
  /** Why the last attempt ended, and what its worker said about it; null before an attempt has ended. */
  cause: FailureCause | null;
  message: string | null;
  /** The largest context that was too small for the job, as its workers said; null if none has said so. Only a worker with a larger one may take it [JB5]. */
  outgrown: number | null;
  totalDue: number;
  /** When the present claim window ends; a rejected lease does not stop it. */
  windowDue: number;
  phase: Phase;
  /** The end of the execution time that was saved last, ms since the epoch. Not every renewal is saved. */
  savedExecuteDue: number;
  /** True if the saved row has the end of a grace time [JB4]. */
  graceSaved: boolean;
};

/** A registered worker with a live socket. */
export type Worker = {
  key: string;
  connId: string;
  capabilities: ReadonlySet<JobType>;
  tier: Tier;
  /** The models that it announced, in lower case, and those of them that it offers: as far as it has places for them [JB10]. */
  announced: readonly string[];
  models: readonly string[];
  /** True if it applies the messages and options of a chat [JB12]. */
  chats: boolean;
  /** The pools that it serves, and those in which it is while it is idle. They follow from the members above. */
  pools: ReadonlySet<PoolName>;
  idlePools: readonly PoolName[];
  /** Those of its idle pools in which it has its present place: a claim has looked at them since it last changed. */
  readonly placed: Set<PoolName>;
  /** How the pools list it; null if they do not. */
  listed: { connected: boolean; proven: boolean } | null;
  /** True if it announced `ack`, so it must acknowledge jobs in time [WS9]. */
  acks: boolean;
  /** Tokens that prompt and answer may have together; 0 if it announced none; 0 never counts as larger. */
  context: number;
  /** The same for each of its models, if it told them apart: then they count for a job that names a model. */
  contexts: ReadonlyMap<string, number> | null;
  /** The network that it connected from: an IPv4 address or an IPv6 /48 [JB11]. */
  network: string;
  /** True if it signed its registration [WS5]. */
  authenticated: boolean;
  /** True if it gets no PRIVATE jobs: it did not sign, and its key may be one that has [WS5]. */
  publicOnly: boolean;
  record: KeyRecord;
  /** True if it is proven by its record, otherwise it is on probation [JB11]. */
  proven: boolean;
  /** When it last got a job, or when it registered if it never got one; ms since the epoch [JB3]. */
  lastUsedAt: number;
  seq: number;
  jobId: string | null;
  draining: boolean;
  /** Until when it gets no job because it has only just registered, ms since the epoch; null after that [JB2]. */
  arrivesAt: number | null;
  /** True after too many failures in a row: it gets no job until the next tick. */
  resting: boolean;
  /** True if a claim found it silent: it gets no job until it sends something. */
  silent: boolean;
  failuresInARow: number;
};

/** What is stored of a worker key. Times in ms since the epoch. When the key last got a job is stored beside it. */
export type KeyRecord = {
  /** Invalid or foreign results [RC4], how often the key was parked for them, and until when. */
  strikes: number;
  parks: number;
  parkedUntil: number;
  /** Completions that count for the standing of the key. It stops at the number that makes a key proven. */
  completed: number;
  /** Short hashes of the users of these completions, because each user counts once; empty for a proven key. */
  users: readonly number[];
  /** True if it has ever completed a job with a valid receipt. */
  hasCompleted: boolean;
  /** Failures, time-outs and strikes since the last verified completion, and when the last of them was; 0 for never. */
  failed: number;
  failedAt: number;
};

/** A network with workers on probation. They share its turn and its blame, because anyone can make any number of keys [JB11]. */
export type Network = {
  readonly name: string;
  /** When one of them last got a job, or when the network was first seen; ms since the epoch. */
  lastUsedAt: number;
  /** Failures in a row, of all its keys together. */
  failures: number;
  /** Its turn comes as if it had got a job at this time, ms since the epoch. */
  backOffUntil: number;
  readonly seq: number;
  /** The keys on probation that are connected. */
  readonly keys: Set<string>;
  /** The keys on probation that have a PUBLIC job, with or without an open socket. */
  readonly atWork: Set<string>;
  /** The idle ones. */
  readonly idle: Pools<IdlePool>;
  /** The pools in which it has the place of its present turn. */
  readonly placed: Set<PoolName>;
};

/**
 * Everything that dispatch knows. One hub owns it; `reduce` changes it in place, because a copy per event would cost more than the event.
 * The maps are the facts, the pools are indexes over them.
 */
export type DispatchState = {
  readonly settings: DispatchSettings;
  readonly jobs: Map<string, LiveJob>;
  readonly workers: Map<string, Worker>;
  readonly keyByConn: Map<string, string>;
  /** The job that a key has a lease of, with or without an open socket. */
  readonly leases: Map<string, string>;
  /** Closed sockets' workers that still have a lease, by key: they answer for it. */
  readonly departed: Map<string, Worker>;
  /** The models of the connected workers, and of those that have left [JB10]. */
  readonly models: KnownModels;
  /** The workers that have announced more models than they have places for, the one that was tried the longest ago first. */
  readonly unplaced: Set<Worker>;
  /** Idle proven workers. */
  readonly idle: Pools<IdlePool>;
  /** The networks with an idle worker on probation, by their turn [JB11]. */
  readonly probation: Pools<Turns>;
  readonly networks: Map<string, Network>;
  /** Networks that have failed and have nobody connected, the longest away first. */
  readonly awayNetworks: Set<string>;
  /** Connected workers that could take such a job, busy or idle, except those found silent. */
  readonly connected: Pools<Set<string>>;
  /** Those of them that are proven. */
  readonly proven: Pools<Set<string>>;
  /** Waiting PUBLIC jobs that have lost no attempt. */
  readonly waiting: Pools<OrderedPool>;
  /** Waiting PUBLIC jobs that have lost an attempt: proven workers come first [JB11]. */
  readonly retried: Pools<OrderedPool>;
  /** Waiting PUBLIC jobs that did not fit a context, by that context, so that a worker never searches through jobs that it cannot run. */
  readonly waitingLarger: Pools<Map<number, OrderedPool>>;
  /** Waiting PRIVATE jobs, by the key that may take them, so that a worker never searches through jobs that it cannot run. */
  readonly waitingFor: Map<string, Pools<OrderedPool>>;
  /** Waiting jobs that a worker has tried already. The tick tries again to match them. */
  readonly retrying: Set<string>;
  /** Workers that have only just registered, by the time from which they may get jobs [JB2]. */
  readonly arriving: OrderedPool;
  readonly resting: Set<string>;
  readonly silent: Set<string>;
  /** The next deadline of each live job. */
  readonly timers: OrderedPool;
  /** Live PRIVATE jobs, by user. */
  readonly privateJobs: Map<string, Set<string>>;
  readonly ledger: Ledger;
  /** What the waiting jobs use of the queue [LM1]. */
  readonly queue: Queue;
  tickDue: number | null;
  sweepDue: number | null;
  silentCheckedAt: number;
  nextSeq: number;
};

/** An empty dispatch state. */
export function createState(settings: DispatchSettings): DispatchState {
  const ordered = () => new Pools(() => new OrderedPool());
  const keys = () => new Pools(() => new Set<string>());
  return {
    settings,
    jobs: new Map(),
    workers: new Map(),
    keyByConn: new Map(),
    leases: new Map(),
    departed: new Map(),
    models: new KnownModels(),
    unplaced: new Set(),
    idle: new Pools(() => new IdlePool()),
    probation: new Pools(() => new Turns()),
    networks: new Map(),
    awayNetworks: new Set(),
    connected: keys(),
    proven: keys(),
    waiting: ordered(),
    retried: ordered(),
    waitingLarger: new Pools(() => new Map<number, OrderedPool>()),
    waitingFor: new Map(),
    retrying: new Set(),
    arriving: new OrderedPool(),
    resting: new Set(),
    silent: new Set(),
    timers: new OrderedPool(),
    privateJobs: new Map(),
    ledger: {
      payments: new Map(),
      settlingByHub: new Set(),
      settlingByRequest: new Set(),
      settleQueue: new Set(),
      askQueue: new Set(),
      unsettledByPayer: new Map(),
      streamed: new Map(),
      timers: new OrderedPool(),
      assumed: new Map(),
    },
    queue: new Queue(
      settings.queue,
      BASE_POOLS.filter((name) => settings.stake || !name.endsWith("+")),
    ),
    tickDue: null,
    sweepDue: null,
    silentCheckedAt: 0,
    nextSeq: 1,
  };
}

/** A new job, which waits for a worker. */
export function createJob(facts: JobFacts, seq: number): LiveJob {
  const windowDue = facts.createdAt + TIMING.claimWindow;
  return {
    ...facts,
    seq,
    rev: 0,
    attempts: 0,
    started: false,
    streamed: false,
    holders: [],
    tried: new Set(),
    struck: new Set(),
    denials: [],
    payment: null,
    payer: null,
    cause: null,
    message: null,
    outgrown: null,
    totalDue: facts.createdAt + TIMING.total,
    windowDue,
    savedExecuteDue: 0,
    graceSaved: false,
    phase: { kind: "waiting", claimDue: windowDue },
  };
}

/** The job with this id, if it is leased to this worker on the socket that got it, in this attempt; undefined for `attempt` means any. */
export function jobLeasedTo(state: DispatchState, worker: Worker, jobId: string, attempt: number | undefined): LiveJob | undefined {
  const job = worker.jobId === jobId ? state.jobs.get(jobId) : undefined;
  if (job === undefined || job.phase.kind !== "leased") return undefined;
  return attempt === undefined || attempt === job.phase.lease.attempt ? job : undefined;
}

/** The public status of a live job [JB1]. */
export function statusOf(job: LiveJob): Exclude<JobStatus, "completed" | "failed"> {
  if (job.phase.kind === "waiting" || job.phase.kind === "settling") return "pending";
  return job.phase.lease.acked ? "running" : "assigned";
}

/** True if a worker can get a job now, or as soon as it has arrived. */
export function isFree(worker: Worker): boolean {
  return worker.jobId === null && !worker.draining && !worker.resting && !worker.silent;
}

/** True if a worker can get a job now. */
export function isIdle(worker: Worker): boolean {
  return isFree(worker) && worker.arrivesAt === null;
}

/** Sets the job's one timer by its phase; call after every change of a phase or of a time in it. */
export function setTimer(state: DispatchState, job: LiveJob): void {
  state.timers.add(job.id, dueOf(job), job.seq);
}

/** When the next deadline of a live job is, ms since the epoch. */
function dueOf(job: LiveJob): number {
  switch (job.phase.kind) {
    case "waiting":
      return Math.min(job.phase.claimDue, job.totalDue);
    case "settling":
      return job.phase.claimed === null ? job.totalDue : Math.min(job.phase.releaseDue, job.totalDue);
    case "leased":
      return Math.min(job.phase.ackDue ?? job.totalDue, job.phase.executeDue, job.totalDue);
    case "orphaned":
      return Math.min(job.phase.graceDue, job.totalDue);
    default:
      return job.phase satisfies never;
  }
}

/** How long one attempt at a job may take, in ms [JB4]. */
export function executionTime(job: LiveJob): number {
  return job.jobType === "TASK" ? TIMING.executeTask : TIMING.executeLlm;
}

/** Sets the next 2 s tick while jobs wait or workers rest, and the next sweep while workers are connected. */
export function armTicks(state: DispatchState, now: number): void {
  if (state.queue.jobs === 0 && state.resting.size === 0) state.tickDue = null;
  else state.tickDue ??= now + TIMING.retryTick;
  if (state.workers.size === 0) state.sweepDue = null;
  else state.sweepDue ??= now + TIMING.sweep;
}

/** When the next `time` event is due, ms since the epoch; null if nothing waits for a time. */
export function nextDue(state: DispatchState): number | null {
  // If no job waits, the hub need not wake up for a worker that has arrived.
  const arrival = state.queue.jobs > 0 ? state.arriving.first()?.order : undefined;
  const dues = [state.timers.first()?.order, state.ledger.timers.first()?.order, arrival, state.tickDue, state.sweepDue].filter(
    (due) => typeof due === "number",
  );
  return dues.length === 0 ? null : Math.min(...dues);
}
