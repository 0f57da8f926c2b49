// Recomputes the indexes of the dispatch core and compares them, for the simulation.
import { TIMING } from "../../src/protocol/times.ts";
import type { DispatchState, JobFacts, LiveJob, Worker } from "../../src/coordinator/dispatch/index.ts";
import { broken } from "./violation.ts";

type Pool = DispatchState["timers"];
type PoolName = Parameters<DispatchState["idle"]["get"]>[0];
type IdlePool = NonNullable<ReturnType<DispatchState["idle"]["get"]>>;
type Network = Parameters<DispatchState["networks"]["set"]>[1];

const MODELS = ["ant", "bee", "cat"] as const;
/** Every pool that a history can have, and with each the pool of its idle workers that chat. */
const POOLS: readonly PoolName[] = [
  ...(["TASK", "TASK+", "LLM_INFER", "LLM_INFER+"] as const),
  ...(["LLM_INFER", "LLM_INFER+"] as const).flatMap((name) => MODELS.map((model) => `${name} ${model}` as const)),
];
const CHAT_POOLS = POOLS.filter((name) => name.startsWith("LLM")).map((name): PoolName => `${name} #chat`);
const ALL_POOLS = { pools: POOLS, idlePools: [...POOLS, ...CHAT_POOLS] };
/** The pools of a history without models; `checkPools` notices any other. */
const BASE_POOLS = { pools: POOLS.slice(0, 4), idlePools: POOLS.slice(0, 4) };

/** What the name of a pool demands. */
const DEMANDS = new Map(
  POOLS.map((name) => {
    const [base = "", model] = name.split(" ");
    return [name, { type: (base.endsWith("+") ? base.slice(0, -1) : base) as JobFacts["jobType"], verified: base.endsWith("+"), model }];
  }),
);

/** Whether a worker's capabilities, tier and models suit a pool, written down independently of the core. */
function serves(worker: Worker, name: PoolName): boolean {
  const demand = DEMANDS.get(name);
  if (demand === undefined || !worker.capabilities.has(demand.type) || (demand.verified && worker.tier === "Open")) return false;
  return demand.model === undefined || worker.models.includes(demand.model);
}

/** The pool whose share of the queue a job uses. */
export function sharePoolOf({ settings }: DispatchState, { policy, jobType }: JobFacts): JobFacts["jobType"] | `${JobFacts["jobType"]}+` {
  return settings.stake && policy === "FAST" ? `${jobType}+` : jobType;
}

/** The pool of a job. */
function poolNameOf(state: DispatchState, job: JobFacts): PoolName {
  const base = sharePoolOf(state, job);
  return job.model === undefined ? base : `${base} ${job.model}`;
}

/** A waiting job's place, smallest first [JB3]. */
export function placeOf(job: LiveJob): number {
  return job.policy === "FAST" ? job.createdAt : job.createdAt + 10_000;
}

/** Whether a job may ever be given to a worker. */
export function suits(state: DispatchState, job: JobFacts & { outgrown?: number | null }, worker: Worker): boolean {
  if (worker.draining || !serves(worker, poolNameOf(state, job))) return false;
  if (typeof job.outgrown === "number" && worker.context <= job.outgrown) return false;
  return job.privacyClass === "PUBLIC" || job.trustedKeys.includes(worker.key);
}

function isFree(worker: Worker): boolean {
  return worker.jobId === null && !worker.draining && !worker.resting && !worker.silent;
}

/** Recomputes every index from the Maps and compares [I1, I2, I11, I14 and the core's own promises]. */
export function checkIndexes(state: DispatchState): void {
  checkWorkers(state);
  checkJobs(state);
  checkLedger(state);
}

function checkWorkers(state: DispatchState): void {
  const idle = new Count();
  const connected = new Count();
  const proven = new Count();
  const newcomers = new Map([...state.networks.keys()].map((name) => [name, new Count()]));
  const hasModels = [...state.workers.values()].some(({ models, chats }) => models.length > 0 || chats);
  const { pools, idlePools } = hasModels ? ALL_POOLS : BASE_POOLS;
  const places = new Places();
  let resting = 0;
  let arriving = 0;
  let silent = 0;
  for (const worker of state.workers.values()) {
    const { key, jobId } = worker;
    if (state.keyByConn.get(worker.connId) !== key) broken("index", `keyByConn misses ${key}`);
    if (jobId !== null) {
      const phase = state.jobs.get(jobId)?.phase;
      if (phase?.kind === "settling" && phase.claimed?.key === key && phase.claimed.connId === worker.connId) {
        if (state.leases.has(key)) broken("I1", `${key} is claimed for ${jobId} and has a lease of ${state.leases.get(key)}`);
      } else if (phase?.kind !== "leased") broken("I1", `${key} is busy with ${jobId}, which is ${phase?.kind ?? "not live"}`);
      else if (phase.lease.key !== key || phase.connId !== worker.connId)
        broken("I1", `${key} is busy with ${jobId}, leased to ${phase.lease.key} on ${phase.connId}`);
    }
    const free = isFree(worker) && worker.arrivesAt === null;
    if (state.arriving.has(key) !== (worker.arrivesAt !== null)) broken("index", `arriving is wrong about ${key}`);
    if (worker.arrivesAt !== null) arriving++;
    for (const name of idlePools) {
      const suited = name.endsWith("#chat") ? worker.chats && serves(worker, name.slice(0, -" #chat".length) as PoolName) : serves(worker, name);
      const network = state.networks.get(worker.network);
      const [right, wrong] = worker.proven ? [state.idle, network?.idle] : [network?.idle, state.idle];
      checkIdle(right?.get(name), worker, { name, suited, free, places });
      if (has(wrong?.get(name), key) > 0) broken("index", `${name} has ${key}, which is ${worker.proven ? "proven" : "on probation"}`);
      (worker.proven ? idle : newcomers.get(worker.network))?.add(name, has(right?.get(name), key));
      if (suited && !worker.proven) {
        if (network === undefined) broken("index", `the network of ${key} is not known`);
        else checkTurn(state, name, network, places);
      }
    }
    for (const name of pools) {
      const counts = serves(worker, name) && !worker.draining && !worker.silent;
      connected.add(name, counts);
      if ((state.connected.get(name)?.has(key) ?? false) !== counts) broken("index", `connected ${name} is wrong about ${key}`);
      proven.add(name, counts && worker.proven);
      if ((state.proven.get(name)?.has(key) ?? false) !== (counts && worker.proven)) broken("index", `proven ${name} is wrong about ${key}`);
    }
    if (worker.resting) resting++;
    if (worker.silent) silent++;
    if (state.resting.has(key) !== worker.resting) broken("index", `resting is wrong about ${key}`);
    if (state.silent.has(key) !== worker.silent) broken("index", `silent is wrong about ${key}`);
  }
  checkPools(state.idle, idle, idlePools, "idle");
  checkPools(state.connected, connected, pools, "connected");
  checkPools(state.proven, proven, pools, "proven");
  for (const [name, network] of state.networks) checkPools(network.idle, newcomers.get(name) ?? new Count(), idlePools, `probation of ${name}`);
  for (const name of idlePools) checkTurns(state, name);
  if (state.keyByConn.size !== state.workers.size) broken("index", "keyByConn has strangers");
  if (state.arriving.size !== arriving) broken("index", "arriving has strangers");
  if (state.resting.size !== resting || state.silent.size !== silent) broken("index", "resting or silent has strangers");
}

/** In how many of the two sets of an idle pool a worker is. */
function has(pool: IdlePool | undefined, key: string): number {
  return Number(pool?.order.has(key) === true) + Number(pool?.moved.has(key) === true);
}

/** A worker has its present place in each pool that it suits, which is none while it is busy; or a claim still has to place it. */
function checkIdle(
  pool: IdlePool | undefined,
  { key, placed, lastUsedAt }: Worker,
  { name, suited, free, places }: { name: PoolName; suited: boolean; free: boolean; places: Places },
): void {
  if (!suited && (placed.has(name) || has(pool, key) > 0)) broken("index", `idle ${name} has ${key}, which does not suit it`);
  if (!suited) return;
  if (placed.has(name) === (pool?.moved.has(key) ?? false)) broken("index", `idle ${name} does not know that ${key} has moved`);
  if (!placed.has(name)) return;
  if ((pool?.order.has(key) ?? false) !== free) broken("index", `idle ${name} is wrong about ${key}`);
  if (free && places.of(pool?.order, key) !== lastUsedAt) broken("index", `idle ${name} has an old place of ${key}`);
}

/** What stands in the order of turns has an idle newcomer. */
function checkTurns({ probation, networks }: DispatchState, pool: PoolName): void {
  const turns = probation.get(pool);
  for (const name of [...(turns?.free.ids() ?? []), ...(turns?.working.ids() ?? [])])
    if ((networks.get(name)?.idle.get(pool)?.order.size ?? 0) === 0) broken("index", `probation ${pool} has ${name}, where nobody is idle`);
  for (const name of turns?.moved ?? []) if (!networks.has(name)) broken("index", `probation ${pool} has ${name}, which is not known`);
}

/** A network with idle newcomers is in one place of a pool: that of its present turn, or among those that a claim still has to place. */
function checkTurn({ probation }: DispatchState, pool: PoolName, { name, placed, idle, atWork, lastUsedAt, backOffUntil }: Network, places: Places): void {
  const turns = probation.get(pool);
  const own = idle.get(pool);
  if (own === undefined) {
    if (placed.has(pool)) broken("index", `probation ${pool} has ${name}, where nobody is idle`);
    return;
  }
  if (own.moved.size > 0 && turns?.moved.has(name) !== true) broken("index", `probation ${pool} does not know that workers of ${name} have moved`);
  if (turns?.moved.has(name) === placed.has(pool)) broken("index", `probation ${pool} does not know that ${name} has moved`);
  const [right, wrong] = atWork.size > 0 ? [turns?.working, turns?.free] : [turns?.free, turns?.working];
  const place = places.of(right, name);
  if (wrong?.has(name) !== false || (place !== undefined) !== placed.has(pool)) broken("index", `probation ${pool} has ${name} in a wrong place`);
  if (place !== undefined && place !== Math.max(lastUsedAt, backOffUntil)) broken("index", `probation ${pool} has an old turn of ${name}`);
}

/** What the ordered pools have, each read once for a check. */
class Places {
  readonly #read = new Map<Pool, Map<string, number>>();

  /** The place of an id in a pool; undefined if it has none. */
  of(pool: Pool | undefined, id: string): number | undefined {
    if (pool === undefined) return undefined;
    let places = this.#read.get(pool);
    if (places === undefined) {
      const all = new Map<string, number>();
      pool.firstWhere((key, order) => {
        all.set(key, order);
        return false;
      });
      this.#read.set(pool, (places = all));
    }
    return places.get(id);
  }
}

/** How many belong into each pool. */
class Count {
  readonly #counts = new Map<PoolName, number>();

  add(name: PoolName, belongs: boolean | number = true): void {
    if (belongs !== false && belongs !== 0) this.#counts.set(name, this.of(name) + Number(belongs));
  }

  of(name: PoolName): number {
    return this.#counts.get(name) ?? 0;
  }

  /** The number of pools with something in them. */
  get size(): number {
    return this.#counts.size;
  }
}

/** Pools with nothing in them are not kept: strangers choose the names of models. */
function checkPools(
  pools: Pick<DispatchState["idle"] | DispatchState["connected"], "get" | "size">,
  should: Count,
  names: readonly PoolName[],
  what: string,
): void {
  for (const name of names) if ((pools.get(name)?.size ?? 0) !== should.of(name)) broken("index", `${what} ${name} has strangers`);
  if (pools.size !== should.size) broken("index", `${what} keeps ${pools.size} pools, ${should.size} have something in them`);
}

function checkJobs(state: DispatchState): void {
  let leased = 0;
  let retrying = 0;
  let own = 0;
  const waiting = new Count();
  let secret = 0;
  let firstDue: number | null = null;
  for (const job of state.jobs.values()) {
    const { id, phase, holders } = job;
    const due = dueOf(job);
    if (firstDue === null || due < firstDue) firstDue = due;
    if (!state.timers.has(id)) broken("index", `${id} has no timer`);
    if (job.attempts > 3) broken("I11", `${id} has ${job.attempts} attempts`);
    if (job.privacyClass === "PRIVATE") {
      secret++;
      if (!state.privateJobs.get(job.userId)?.has(id)) broken("index", `privateJobs misses ${id}`);
    }
    if (phase.kind === "waiting") {
      if (job.privacyClass === "PUBLIC") {
        const name = poolNameOf(state, job);
        waiting.add(name);
        const plain = (job.attempts > 0 ? state.retried : state.waiting).get(name);
        const pool = job.outgrown === null ? plain : state.waitingLarger.get(name)?.get(job.outgrown);
        if (pool?.has(id) !== true) broken("index", `waiting ${name} misses ${id}, which outgrew ${job.outgrown}`);
        else checkFirst(pool, placeOf(job), job.seq, name);
      } else {
        own += job.trustedKeys.length;
        for (const key of job.trustedKeys)
          if (state.waitingFor.get(key)?.get(poolNameOf(state, job))?.has(id) !== true) broken("index", `waitingFor ${key} misses ${id}`);
      }
      if (state.retrying.has(id) !== job.tried.size > 0) broken("index", `retrying is wrong about ${id}`);
      if (job.tried.size > 0) retrying++;
      continue;
    }
    if (phase.kind === "settling") {
      checkSettling(state, job);
      continue;
    }
    leased++;
    const { lease } = phase;
    if (state.leases.get(lease.key) !== id) broken("I1", `leases names ${state.leases.get(lease.key)} for ${lease.key}, which holds ${id}`);
    if (holders.at(-1) !== lease) broken("I2", `${id}'s lease is not its last holder`);
    if (lease.attempt !== job.attempts) broken("I11", `${id} is in attempt ${lease.attempt}, counted are ${job.attempts}`);
    const worker = state.workers.get(lease.key);
    if (phase.kind === "leased" && (worker?.jobId !== id || worker.connId !== phase.connId)) broken("I12", `${id} is leased on a dead socket ${phase.connId}`);
    if (phase.kind === "orphaned" && worker !== undefined) broken("I2", `${id} is orphaned though ${lease.key} is there`);
  }
  if (state.timers.size !== state.jobs.size) broken("index", "timers has strangers");
  if (firstDue !== null && state.timers.first()?.order !== firstDue) broken("index", `first timer is ${state.timers.first()?.order}, should be ${firstDue}`);
  if (state.leases.size !== leased) broken("index", "leases has strangers");
  if (state.retrying.size !== retrying) broken("index", "retrying has strangers");
  for (const name of POOLS) {
    let size = (state.waiting.get(name)?.size ?? 0) + (state.retried.get(name)?.size ?? 0);
    for (const pool of state.waitingLarger.get(name)?.values() ?? []) {
      if (pool.size === 0) broken("index", "waitingLarger keeps an empty pool");
      size += pool.size;
    }
    if (size !== waiting.of(name)) broken("index", `waiting ${name} has strangers`);
  }
  if (state.waiting.size + state.retried.size + state.waitingLarger.size < waiting.size) broken("index", "a waiting job has no pool");
  let listed = 0;
  for (const pools of state.waitingFor.values()) {
    if (pools.size === 0) broken("index", "waitingFor keeps a key without pools");
    for (const name of POOLS) listed += pools.get(name)?.size ?? 0;
  }
  if (listed !== own) broken("index", `waitingFor lists ${listed}, should be ${own}`);
  for (const jobs of state.privateJobs.values()) {
    if (jobs.size === 0) broken("index", "privateJobs keeps a user without one");
    secret -= jobs.size;
  }
  if (secret !== 0) broken("index", "privateJobs has strangers");
  if ((state.queue.jobs > 0 || state.resting.size > 0) !== (state.tickDue !== null)) broken("I14", "the tick is not armed as it should be");
  if (state.workers.size > 0 !== (state.sweepDue !== null)) broken("I14", "the sweep is not armed as it should be");
}

function checkSettling(state: DispatchState, { id, phase, payment }: LiveJob): void {
  if (phase.kind !== "settling") return;
  const kind = state.ledger.payments.get(payment ?? "")?.phase.kind;
  if (phase.claimed === null) {
    const isPaused = kind === "held" && state.ledger.timers.has(payment ?? "");
    if (kind !== "settling" && kind !== "unknown" && !isPaused) broken("PY7", `${id} settles without a worker, and its payment is ${kind}`);
    return;
  }
  const worker = state.workers.get(phase.claimed.key);
  if (worker?.jobId !== id || worker.connId !== phase.claimed.connId) broken("I12", `${id} has claimed ${phase.claimed.key} on a dead socket`);
  if (kind !== "settling" && !(kind === "held" && state.ledger.settleQueue.has(payment ?? "")))
    broken("PY7", `${id} has a claimed worker, and its payment is ${kind}`);
}

/** Recomputes the ledger's indexes from its rows. */
function checkLedger(state: DispatchState): void {
  const { payments, settlingByHub, settlingByRequest, settleQueue, askQueue, unsettledByPayer, timers } = state.ledger;
  const unsettled = new Map<string, Set<string>>();
  let timed = 0;
  let settling = 0;
  for (const [key, { phase, payer, jobId, expiresAt, credit }] of payments) {
    const isResting = phase.kind === "unresolved" && phase.retryDue === null;
    const isDone = phase.kind === "credit" || phase.kind === "spent" || phase.kind === "void" || isResting;
    if (isDone && (credit === undefined || credit.lent === "0")) broken("ledger", `${key} is ${phase.kind} and still there`);
    const due = "until" in phase ? phase.until : "retryDue" in phase && !settleQueue.has(key) && !askQueue.has(key) ? phase.retryDue : null;
    if (timers.has(key) !== (due != null)) broken("ledger", `timers is wrong about ${key}, which is ${phase.kind}`);
    if (due != null) timed++;
    // Where the chain is read, nothing is due before the end of an authorization whose job has ended.
    const waitsForEnd = state.settings.chain && (phase.kind === "unknown" || phase.kind === "unresolved") && !state.jobs.has(jobId);
    const mostDue = due != null && waitsForEnd ? Math.max(due, expiresAt) : due;
    if (mostDue != null && (timers.first()?.order ?? Infinity) > mostDue) broken("ledger", `${key} is due before the first timer`);
    if (phase.kind === "settling") settling++;
    if (settlingByHub.has(key) && settlingByRequest.has(key)) broken("ledger", `${key} is settled by the hub and by its request`);
    if ((settlingByHub.has(key) || settlingByRequest.has(key)) !== (phase.kind === "settling"))
      broken("ledger", `nobody or somebody settles ${key}, which is ${phase.kind}`);
    if (settleQueue.has(key) && !["held", "unknown", "unresolved"].includes(phase.kind)) broken("ledger", `${key} waits to be settled and is ${phase.kind}`);
    if (askQueue.has(key) && phase.kind !== "unknown" && phase.kind !== "unresolved") broken("ledger", `${key} waits to be asked about and is ${phase.kind}`);
    if (state.jobs.has(jobId) ? askQueue.has(key) : settleQueue.has(key)) broken("ledger", `${key} waits in the wrong queue`);
    if (phase.kind === "held") {
      const job = state.jobs.get(jobId);
      if (job?.payment !== key) broken("ledger", `${key} is held for ${jobId}, which does not know of it`);
      if ((phase.retryDue !== undefined) !== (job.phase.kind === "settling" && job.phase.claimed === null))
        broken("ledger", `${key} is held until ${phase.retryDue}, and ${jobId} is ${job.phase.kind}`);
      const isClaimed = job.phase.kind === "settling" && job.phase.claimed !== null;
      if (settleQueue.has(key) !== isClaimed)
        broken("ledger", `${key} is held for ${jobId}, which is ${job.phase.kind}; waits to be settled: ${settleQueue.has(key)}`);
    }
    if (payer === null) continue;
    const isLate = phase.kind === "settling" && phase.until - TIMING.settleReport >= expiresAt;
    if (["held", "settling", "unknown"].includes(phase.kind) && !isLate) unsettled.set(payer, (unsettled.get(payer) ?? new Set()).add(key));
  }
  if (timers.size !== timed) broken("ledger", "timers has strangers");
  if (settlingByHub.size + settlingByRequest.size !== settling) broken("ledger", "settlingByHub has strangers");
  if (settleQueue.size + askQueue.size > 0 && settlingByHub.size < state.settings.settlements)
    broken("ledger", `${settleQueue.size + askQueue.size} wait to be settled, ${settlingByHub.size} are`);
  for (const key of [...settleQueue, ...askQueue]) if (!payments.has(key)) broken("ledger", `${key} waits to be settled and is not there`);
  checkSame(unsettledByPayer, unsettled, "unsettledByPayer");
}

function checkSame(index: ReadonlyMap<string, ReadonlySet<string>>, should: ReadonlyMap<string, ReadonlySet<string>>, name: string): void {
  if (index.size !== should.size) broken("ledger", `${name} has strangers`);
  for (const [payer, keys] of should) {
    const listed = index.get(payer);
    if (listed?.size !== keys.size || ![...keys].every((key) => listed.has(key))) broken("ledger", `${name} is wrong about ${payer}`);
  }
}

function checkFirst(pool: Pool, order: number, seq: number, name: string): void {
  const first = pool.first();
  if (first === undefined || first.order > order || (first.order === order && first.seq > seq)) broken("JB3", `waiting ${name} has a wrong first`);
}

function dueOf({ phase, totalDue }: LiveJob): number {
  if (phase.kind === "waiting") return Math.min(phase.claimDue, totalDue);
  if (phase.kind === "orphaned") return Math.min(phase.graceDue, totalDue);
  if (phase.kind === "settling") return phase.claimed === null ? totalDue : Math.min(phase.releaseDue, totalDue);
  return Math.min(phase.ackDue ?? totalDue, phase.executeDue, totalDue);
}

/** Whether a job's claim window is over by then [JB2]. */
export function endsBy(job: LiveJob, time: number): boolean {
  return Math.min(job.windowDue, job.totalDue) <= time;
}

/**
 * JB2: no waiting job beside a free, not silent worker that may take it and has not tried it; one that has just registered may take what cannot wait for it.
 */
export function checkNoneWaitsBesideAFreeWorker(
  state: DispatchState,
  now: number,
  isSilent: (worker: Worker) => boolean,
  arrivesAt: (worker: Worker) => number | null,
): void {
  if (state.queue.jobs === 0) return;
  for (const worker of state.workers.values()) {
    if (!isFree(worker) || isSilent(worker)) continue;
    const arrival = arrivesAt(worker);
    for (const job of state.jobs.values()) {
      if (arrival !== null && !endsBy(job, arrival)) continue;
      // Only the tick gives a job that has lost an attempt to a worker on probation that has become free since [JB11].
      if (job.attempts > 0 && !worker.proven && job.privacyClass === "PUBLIC") continue;
      if (job.phase.kind === "waiting" && job.totalDue > now && !job.tried.has(worker.key) && suits(state, job, worker)) {
        broken("JB2", `${job.id} waits beside ${worker.key}, which is free and has not tried it`);
      }
    }
  }
}
