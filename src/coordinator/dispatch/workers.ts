// Which worker may take which job, and the indexes over workers and waiting jobs. On a job's way: the claim uses it.
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import type { ReduceContext } from "./events.ts";
import { type BasePool, OrderedPool, placeIn, type PoolName, type Pools } from "./pools.ts";
import type { JobOwners } from "./queue.ts";
import { indexProbation, isKnownNetwork } from "./standing.ts";
import type { DispatchSettings, DispatchState, JobFacts, LiveJob, Worker } from "./state.ts";

/** True if a tier may take FAST jobs [ST1]. */
function isVerified(tier: Tier): boolean {
  return tier !== "Open";
}

/** The pool that a job belongs to, whatever its model: FAST needs a Verified worker if stake counts [ST1]. */
function basePoolOf(job: Pick<JobFacts, "jobType" | "policy">, settings: DispatchSettings): BasePool {
  return settings.stake && job.policy === "FAST" ? `${job.jobType}+` : job.jobType;
}

/** The pool that a job belongs to. */
function poolOf(job: Pick<JobFacts, "jobType" | "policy" | "model">, settings: DispatchSettings): PoolName {
  const base = basePoolOf(job, settings);
  return job.model === undefined ? base : `${base} ${job.model}`;
}

/** The name of those idle workers of a pool that apply the messages of a chat. */
function chatPool(name: PoolName): PoolName {
  return `${name} #chat` as const;
}

/** The pools in which an idle worker for this job is searched, in this order. */
export function idlePoolsOf(job: JobFacts, settings: DispatchSettings): PoolName[] {
  const name = poolOf(job, settings);
  return job.isChat === true ? [chatPool(name), name] : [name];
}

/** What decides which pools a worker serves. */
type Offer = Pick<Worker, "capabilities" | "tier" | "models" | "chats">;

/** The pools that a worker serves, and those in which it is while it is idle. */
export function poolsOf({ capabilities, tier, models, chats }: Offer): Pick<Worker, "pools" | "idlePools"> {
  const bases = [...capabilities].flatMap((name): BasePool[] => (isVerified(tier) ? [name, `${name}+`] : [name]));
  const pools = bases.flatMap((base): PoolName[] => (base.startsWith("TASK") ? [base] : [base, ...models.map((model) => `${base} ${model}` as const)]));
  const chat = chats ? pools.filter((name) => !name.startsWith("TASK")).map(chatPool) : [];
  return { pools: new Set(pools), idlePools: [...pools, ...chat] };
}

/** Changes the models of a worker: none before it connects, and none when it is gone. Returns those that it has a place for. */
export function changeModels(
  { models, settings }: DispatchState,
  worker: Pick<Worker, "network" | "models">,
  names: readonly string[],
  ctx: ReduceContext,
): string[] {
  const { kept, fresh, gone } = models.change(shareOf(settings, worker.network), worker.models, names, ctx.now);
  for (const name of fresh) ctx.rows.push({ type: "model", name, leftAt: null });
  for (const name of gone) ctx.rows.push({ type: "model", name, leftAt: ctx.now });
  return kept;
}

/** Whose share a worker or a job uses; null if its network is not known, or if clients are not limited [LM1]. */
function shareOf({ clientShares }: DispatchSettings, network: string): string | null {
  return clientShares && isKnownNetwork(network) ? network : null;
}

/** Changes what a worker offers, and moves it to the pools that follow from it. An update that changes nothing moves nothing, because it may come often. */
export function changeOffer(state: DispatchState, worker: Worker, change: Partial<Offer>, ctx: ReduceContext): void {
  const { capabilities, tier, chats, models } = { ...worker, ...change };
  const offer: Offer = {
    capabilities,
    tier,
    chats,
    models: String(models) === String(worker.models) ? worker.models : changeModels(state, worker, models, ctx),
  };
  const served = poolsOf(offer);
  const isMoved = String(served.idlePools) !== String(worker.idlePools);
  if (isMoved) leavePools(state, worker);
  Object.assign(worker, offer, served);
  if (isMoved) indexWorker(state, worker);
}

/** What decides who may take a job: its facts, and the context that it did not fit, if a worker has reported one. */
export type Wanted = JobFacts & Partial<Pick<LiveJob, "outgrown" | "attempts" | "tried">>;

/** True if a worker may take this job, busy or idle: by capability, tier, model and context, and for a PRIVATE job by pairing. */
export function isEligible(state: DispatchState, job: Wanted, worker: Worker): boolean {
  if (worker.draining || !worker.pools.has(poolOf(job, state.settings)) || !hasRoom(job, worker)) return false;
  return job.privacyClass === "PUBLIC" || (!worker.publicOnly && job.trustedKeys.includes(worker.key));
}

/** True if a worker's context is larger than every context that this job did not fit. */
function hasRoom({ outgrown }: Wanted, worker: Worker): boolean {
  return typeof outgrown !== "number" || worker.context > outgrown;
}

/** True if a connected worker, busy or idle, may take this job and `accept` accepts it. It checks every worker, so it is too slow for each claim. */
export function hasEligibleWorker(state: DispatchState, job: LiveJob, accept: (worker: Worker) => boolean): boolean {
  for (const worker of state.workers.values()) if (isEligible(state, job, worker) && accept(worker)) return true;
  return false;
}

/**
 * True if a worker on probation may not take this job: it has lost an attempt, and a connected proven worker may take it, busy or idle [JB11]. PRIVATE jobs
 * are exempt, because their users chose the workers; so are jobs that need a larger context, because the few workers that have one are often newcomers.
 */
export function needsProven(state: DispatchState, job: Wanted): boolean {
  return job.privacyClass === "PUBLIC" && (job.attempts ?? 0) > 0 && typeof job.outgrown !== "number" && hasUntriedProven(state, job);
}

/** True if a connected proven worker, not found silent, may take this job and has not tried it. */
export function hasUntriedProven(state: DispatchState, job: Wanted): boolean {
  if (job.privacyClass === "PUBLIC") return hasUntried(state, job, state.proven.get(poolOf(job, state.settings)));
  return hasUntriedTrusted(state, job, (worker) => worker.proven);
}

/** True if a connected worker that is paired with the user may take this PRIVATE job, busy or idle [JB8]. */
export function hasTrustedWorker(state: DispatchState, job: JobFacts): boolean {
  return job.trustedKeys.some((key) => {
    const worker = state.workers.get(key);
    return worker !== undefined && isEligible(state, job, worker);
  });
}

/** True if a connected worker, not found silent, may take this job and has not tried it. Then workers that have tried it must wait [JB4]. */
export function hasUntriedWorker(state: DispatchState, job: Wanted): boolean {
  if (job.privacyClass === "PRIVATE") return hasUntriedTrusted(state, job, () => true);
  return hasUntried(state, job, state.connected.get(poolOf(job, state.settings)));
}

function hasUntriedTrusted(state: DispatchState, job: Wanted, accept: (worker: Worker) => boolean): boolean {
  return job.trustedKeys.some((key) => {
    const worker = state.workers.get(key);
    return worker !== undefined && !worker.silent && job.tried?.has(key) !== true && isEligible(state, job, worker) && accept(worker);
  });
}

const NONE: ReadonlySet<string> = new Set();

/** True if one of these workers of the job's pool may take this PUBLIC job and has not tried it. */
function hasUntried(state: DispatchState, job: Wanted, keys: ReadonlySet<string> = NONE): boolean {
  if (typeof job.outgrown === "number") {
    for (const key of keys) {
      const worker = state.workers.get(key);
      if (worker !== undefined && job.tried?.has(key) !== true && isEligible(state, job, worker)) return true;
    }
    return false;
  }
  let tried = 0;
  for (const key of job.tried ?? []) if (keys.has(key)) tried++;
  return keys.size > tried;
}

/** True if the worker's network answers for it while it has this job: it is on probation, and the job is PUBLIC [JB11]. */
export function countsForNetwork(job: Pick<JobFacts, "privacyClass">, worker: Worker): boolean {
  return !worker.proven && job.privacyClass === "PUBLIC";
}

/** True if a worker can get a job now, or as soon as it has arrived. */
export function isFree(worker: Worker): boolean {
  return worker.jobId === null && !worker.draining && !worker.resting && !worker.silent;
}

/** True if a worker can get a job now. */
export function isIdle(worker: Worker): boolean {
  return isFree(worker) && worker.arrivesAt === null;
}

/** True if a worker has been silent for so long that it gets no job [WS6]. */
export function isSilent(worker: Worker, ctx: ReduceContext): boolean {
  return ctx.now - ctx.lastSeen(worker.connId) > TIMING.silentUnclaimable;
}

/** Updates the indexes for this worker; call it after every change of the worker. */
export function indexWorker(state: DispatchState, worker: Worker): void {
  const idle = isIdle(worker);
  const place = idle && worker.proven ? { order: worker.lastUsedAt, seq: worker.seq } : null;
  for (const name of worker.idlePools) placeIn(state.idle, name, worker.key, place);
  const isConnected = !worker.draining && !worker.silent;
  for (const name of worker.pools) {
    putIn(state.connected, name, worker.key, isConnected);
    putIn(state.proven, name, worker.key, isConnected && worker.proven);
  }
  indexProbation(state, worker, !worker.proven, idle && !worker.proven);
  if (worker.arrivesAt === null) state.arriving.remove(worker.key);
  else state.arriving.add(worker.key, worker.arrivesAt, worker.seq);
  put(state.resting, worker.key, worker.resting);
  put(state.silent, worker.key, worker.silent);
}

function putIn(pools: Pools<Set<string>>, name: PoolName, key: string, belongs: boolean): void {
  pools.change(name, belongs, (keys) => put(keys, key, belongs));
}

/** Removes a worker from the pools that it serves. */
function leavePools(state: DispatchState, worker: Worker): void {
  for (const name of worker.idlePools) placeIn(state.idle, name, worker.key, null);
  for (const name of worker.pools) {
    putIn(state.connected, name, worker.key, false);
    putIn(state.proven, name, worker.key, false);
  }
  indexProbation(state, worker, false, false);
}

function put(keys: Set<string>, key: string, belongs: boolean): void {
  if (belongs) keys.add(key);
  else keys.delete(key);
}

/** Removes a worker from the state and its indexes. If it has a lease, it is kept aside until the lease ends. */
export function removeWorker(state: DispatchState, worker: Worker, ctx: ReduceContext): void {
  leavePools(state, worker);
  changeModels(state, worker, [], ctx);
  if (state.leases.has(worker.key)) state.departed.set(worker.key, worker);
  state.arriving.remove(worker.key);
  state.resting.delete(worker.key);
  state.silent.delete(worker.key);
  state.workers.delete(worker.key);
  state.keyByConn.delete(worker.connId);
}

/** A job's place in the queue, smallest first. CHEAP comes a fixed time after FAST, so it always gets its turn [JB3]. */
export function orderOf(job: LiveJob): number {
  return job.policy === "FAST" ? job.createdAt : job.createdAt + TIMING.cheapDelay;
}

/** Whose shares of the queue a job uses while it waits [LM1]. */
export function ownersOf({ settings }: DispatchState, job: JobFacts, payer: string | null): JobOwners {
  return { pool: basePoolOf(job, settings), user: job.userId, client: shareOf(settings, job.network), payer };
}

/** Adds a waiting PUBLIC job to its pool, or removes it: the pool of first attempts, that of lost ones, or the one for workers with a larger context. */
function inPool(state: DispatchState, job: LiveJob, waits: boolean): void {
  const name = poolOf(job, state.settings);
  const { outgrown } = job;
  const place = { order: orderOf(job), seq: job.seq };
  if (outgrown === null) return placeIn(job.attempts > 0 ? state.retried : state.waiting, name, job.id, waits ? place : null);
  state.waitingLarger.change(name, waits, (larger) => {
    const pool = larger.get(outgrown) ?? new OrderedPool();
    if (waits) pool.add(job.id, orderOf(job), job.seq);
    else pool.remove(job.id);
    if (pool.size > 0) larger.set(outgrown, pool);
    else larger.delete(outgrown);
  });
}

/** The bytes of the queue that a job takes up while it waits: its payload, and for a PRIVATE job its place with each paired worker [LM1]. */
export function queuedBytes({ payloadBytes, trustedKeys }: JobFacts): number {
  return payloadBytes + trustedKeys.length * LIMITS.pairedKeyBytes;
}

/** Adds a waiting job to the indexes. */
export function enqueue(state: DispatchState, job: LiveJob): void {
  if (job.privacyClass === "PUBLIC") inPool(state, job, true);
  else for (const key of job.trustedKeys) waitingFor(state, ownPool(key, poolOf(job, state.settings))).add(job.id, orderOf(job), job.seq);
  if (job.tried.size > 0) state.retrying.add(job.id);
  state.queue.add(ownersOf(state, job, job.payer), queuedBytes(job));
}

/** Removes a job that waited from the indexes. */
export function dequeue(state: DispatchState, job: LiveJob): void {
  if (job.privacyClass === "PUBLIC") inPool(state, job, false);
  else {
    for (const key of job.trustedKeys) {
      const name = ownPool(key, poolOf(job, state.settings));
      const pool = state.waitingFor.get(name);
      pool?.remove(job.id);
      if (pool?.size === 0) state.waitingFor.delete(name);
    }
  }
  state.retrying.delete(job.id);
  state.queue.remove(ownersOf(state, job, job.payer), queuedBytes(job));
}

/** The name of the pool of PRIVATE jobs that wait for this key and match this pool. */
export function ownPool(key: string, name: PoolName): string {
  return `${name} ${key}`;
}

function waitingFor(state: DispatchState, name: string): OrderedPool {
  let pool = state.waitingFor.get(name);
  if (pool === undefined) state.waitingFor.set(name, (pool = new OrderedPool()));
  return pool;
}
