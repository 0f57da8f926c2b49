// Which worker may take which job, and the indexes over workers and waiting jobs. On a job's way: the claim uses it.
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import type { ReduceContext } from "./events.ts";
import { type BasePool, OrderedPool, placeIn, type PoolName, Pools } from "./pools.ts";
import type { JobOwners } from "./shares.ts";
import { isKnownNetwork, leaveProbation, moveOnProbation, placeIdle } from "./standing.ts";
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

/** The part of a worker that decides which pools it serves. */
type Profile = Pick<Worker, "capabilities" | "tier" | "models" | "chats">;

/** The pools that a worker serves, and those in which it is while it is idle. */
export function poolsOf({ capabilities, tier, models, chats }: Profile): Pick<Worker, "pools" | "idlePools"> {
  const bases = [...capabilities].flatMap((name): BasePool[] => (isVerified(tier) ? [name, `${name}+`] : [name]));
  const pools = bases.flatMap((base): PoolName[] => (base.startsWith("TASK") ? [base] : [base, ...models.map((model) => `${base} ${model}` as const)]));
  const chat = chats ? pools.filter((name) => !name.startsWith("TASK")).map(chatPool) : [];
  return { pools: new Set(pools), idlePools: [...pools, ...chat] };
}

/** Changes the models of a worker. A worker has none before it connects and when it is gone. Returns those that it has a place for. */
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

/** Notes whether a worker has announced more models than it has places for. */
export function notePlaces({ unplaced }: DispatchState, worker: Worker): void {
  unplaced.delete(worker);
  if (worker.models.length < worker.announced.length) unplaced.add(worker);
}

/** Changes the profile of a worker, and moves it to the pools that follow from it. An update that changes nothing moves nothing, because it may come often. */
export function changeProfile(state: DispatchState, worker: Worker, change: Partial<Profile>, ctx: ReduceContext): void {
  const { capabilities, tier, chats, models } = { ...worker, ...change };
  const profile: Profile = {
    capabilities,
    tier,
    chats,
    models: String(models) === String(worker.models) ? worker.models : changeModels(state, worker, models, ctx),
  };
  const served = poolsOf(profile);
  const isMoved = String(served.idlePools) !== String(worker.idlePools);
  if (isMoved) leavePools(state, worker);
  Object.assign(worker, profile, served);
  if (change.models !== undefined) worker.announced = change.models;
  notePlaces(state, worker);
  if (isMoved) indexWorker(state, worker);
}

/** What decides who may take a job: its facts, and what the workers that had it have shown of it. */
export type Wanted = JobFacts & Pick<LiveJob, "outgrown" | "attempts"> & { tried: ReadonlySet<string> };

const NONE: ReadonlySet<string> = new Set();

/** A job that no worker has had. */
export function untriedJob(facts: JobFacts): Wanted {
  return { ...facts, outgrown: null, attempts: 0, tried: NONE };
}

/** True if a worker may take this job, busy or idle: by capability, tier, model and context, and for a PRIVATE job by pairing. */
export function isEligible(state: DispatchState, job: Wanted, worker: Worker): boolean {
  if (worker.draining || !worker.pools.has(poolOf(job, state.settings)) || !fitsContext(job, worker)) return false;
  return job.privacyClass === "PUBLIC" || (!worker.publicOnly && job.trustedKeys.includes(worker.key));
}

/** True if a worker's context is larger than every context that this job did not fit. */
export function fitsContext({ model, outgrown }: Pick<Wanted, "model" | "outgrown">, worker: Worker): boolean {
  return outgrown === null || contextFor(worker, model) > outgrown;
}

/** The context that a worker has for a job of this model [WS3]. */
export function contextFor({ context, contexts }: Worker, model: string | undefined): number {
  return model === undefined || contexts === null ? context : (contexts.get(model) ?? 0);
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
  return job.privacyClass === "PUBLIC" && job.attempts > 0 && job.outgrown === null && hasUntriedProven(state, job);
}

/** True if a connected proven worker, not found silent, may take this job and has not tried it. */
export function hasUntriedProven(state: DispatchState, job: Wanted): boolean {
  if (job.privacyClass === "PUBLIC") return hasUntried(state, job, state.proven.get(poolOf(job, state.settings)));
  return hasUntriedTrusted(state, job, (worker) => worker.proven);
}

/** True if a connected worker that is paired with the user may take this PRIVATE job, busy or idle [JB8]. */
export function hasTrustedWorker(state: DispatchState, facts: JobFacts): boolean {
  const job = untriedJob(facts);
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
    return worker !== undefined && !worker.silent && !job.tried.has(key) && isEligible(state, job, worker) && accept(worker);
  });
}

/** True if one of these workers of the job's pool may take this PUBLIC job and has not tried it. */
function hasUntried(state: DispatchState, job: Wanted, keys: ReadonlySet<string> = NONE): boolean {
  if (job.outgrown !== null) {
    for (const key of keys) {
      const worker = state.workers.get(key);
      if (worker !== undefined && !job.tried.has(key) && isEligible(state, job, worker)) return true;
    }
    return false;
  }
  let tried = 0;
  for (const key of job.tried) if (keys.has(key)) tried++;
  return keys.size > tried;
}

/** True if the worker's network answers for it while it has this job: it is on probation, and the job is PUBLIC [JB11]. */
export function countsForNetwork(job: Pick<JobFacts, "privacyClass">, worker: Worker): boolean {
  return !worker.proven && job.privacyClass === "PUBLIC";
}

/** True if a worker has been silent for so long that it gets no job [WS6]. */
export function isSilent(worker: Worker, ctx: ReduceContext): boolean {
  return ctx.now - ctx.lastSeen(worker.connId) > TIMING.silentUnclaimable;
}

/** Updates the indexes for this worker; call it after every change of the worker. While only its job changes, it costs the same for one model and for many. */
export function indexWorker(state: DispatchState, worker: Worker): void {
  const { listed, proven } = worker;
  const connected = !worker.draining && !worker.silent;
  if (listed?.connected !== connected || listed.proven !== proven) {
    for (const name of worker.pools) {
      putIn(state.connected, name, worker.key, connected);
      putIn(state.proven, name, worker.key, connected && proven);
    }
  }
  if (listed?.proven === proven) moveIn(state, worker, worker.placed);
  else {
    if (listed !== null) leaveIdle(state, worker, listed.proven);
    moveIn(state, worker, worker.idlePools);
  }
  worker.placed.clear();
  worker.listed = { connected, proven };
  if (worker.arrivesAt === null) state.arriving.remove(worker.key);
  else state.arriving.add(worker.key, worker.arrivesAt, worker.seq);
  put(state.resting, worker.key, worker.resting);
  put(state.silent, worker.key, worker.silent);
}

function putIn(pools: Pools<Set<string>>, name: PoolName, key: string, belongs: boolean): void {
  pools.change(name, belongs, (keys) => put(keys, key, belongs));
}

/** Notes in these pools that the worker has come or changed. */
function moveIn(state: DispatchState, worker: Worker, names: Iterable<PoolName>): void {
  if (!worker.proven) moveOnProbation(state, worker, names);
  else for (const name of names) state.idle.change(name, true, (pool) => pool.moved.add(worker.key));
}

/** Removes a worker from the idle pools of the proven workers, or from those of its network. */
function leaveIdle(state: DispatchState, worker: Worker, proven: boolean): void {
  if (!proven) leaveProbation(state, worker);
  else for (const name of worker.idlePools) state.idle.change(name, false, (pool) => pool.remove(worker.key));
}

/** The idle proven workers of a pool, least recently used first. */
export function idleIn(state: DispatchState, name: PoolName): OrderedPool | undefined {
  return placeIdle(state, state.idle, name);
}

/** Removes a worker from the pools that it serves. */
function leavePools(state: DispatchState, worker: Worker): void {
  if (worker.listed === null) return;
  leaveIdle(state, worker, worker.listed.proven);
  for (const name of worker.pools) {
    putIn(state.connected, name, worker.key, false);
    putIn(state.proven, name, worker.key, false);
  }
  worker.placed.clear();
  worker.listed = null;
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
  state.unplaced.delete(worker);
  state.workers.delete(worker.key);
  state.keyByConn.delete(worker.connId);
}

/** A job's place in the queue, smallest first: CHEAP comes a fixed time after FAST [JB3]. */
export function orderOf(job: LiveJob): number {
  return job.policy === "FAST" ? job.createdAt : job.createdAt + TIMING.cheapDelay;
}

/** Whose shares of the queue a job uses while it waits [LM1]. */
export function ownersOf({ settings }: DispatchState, job: JobFacts, payer: string | null): JobOwners {
  return { pool: basePoolOf(job, settings), user: job.userId, client: shareOf(settings, job.network), payer };
}

/** Adds a waiting PUBLIC job to its pool, or removes it: the pool of first attempts, that of lost ones, or the one for workers with a larger context. */
function placeInPool(state: DispatchState, job: LiveJob, waits: boolean): void {
  const name = poolOf(job, state.settings);
  const { outgrown } = job;
  const place = { order: orderOf(job), seq: job.seq };
  if (outgrown === null) return placeIn(job.attempts > 0 ? state.retried : state.waiting, name, job.id, waits ? place : null);
  state.waitingLarger.change(name, waits, (larger) => {
    const pool = larger.get(outgrown) ?? new OrderedPool();
    if (waits) pool.add(job.id, place.order, place.seq);
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
  if (job.privacyClass === "PUBLIC") placeInPool(state, job, true);
  else for (const key of job.trustedKeys) placeInOwnPool(state, job, key, true);
  if (job.tried.size > 0) state.retrying.add(job.id);
  state.queue.add(ownersOf(state, job, job.payer), queuedBytes(job));
}

/** Removes a job that waited from the indexes. */
export function dequeue(state: DispatchState, job: LiveJob): void {
  if (job.privacyClass === "PUBLIC") placeInPool(state, job, false);
  else for (const key of job.trustedKeys) placeInOwnPool(state, job, key, false);
  state.retrying.delete(job.id);
  state.queue.remove(ownersOf(state, job, job.payer), queuedBytes(job));
}

/** Adds a waiting PRIVATE job to those of a key that may take it, or removes it. */
function placeInOwnPool({ waitingFor, settings }: DispatchState, job: LiveJob, key: string, waits: boolean): void {
  const own = waitingFor.get(key) ?? new Pools(() => new OrderedPool());
  placeIn(own, poolOf(job, settings), job.id, waits ? { order: orderOf(job), seq: job.seq } : null);
  if (own.size > 0) waitingFor.set(key, own);
  else waitingFor.delete(key);
}
