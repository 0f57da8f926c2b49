// The workers on probation, by network: whose turn it is, who stands back, who is at work [JB11]. On a job's way: claim, and the end of an attempt.
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { OrderedPool, placeIn, type PoolName } from "./pools.ts";
import { backOff } from "./standing.ts";
import type { DispatchState, Network, Worker } from "./state.ts";

/** One job in this many goes to probation although a proven worker is idle. */
const PROBATION_SHARE = 5;

/** True if a job goes to a worker on probation although a proven worker is idle. The coordinator chooses the ids, so no client can choose this. */
export function isForProbation(jobId: string): boolean {
  return Number.parseInt(jobId.slice(0, 2), 16) % PROBATION_SHARE === 0;
}

/** A network, which is created when it is first seen. */
function networkNamed(state: DispatchState, name: string, now: number): Network {
  const known = state.networks.get(name);
  if (known !== undefined) {
    // What was long ago is forgotten, if nobody was there meanwhile.
    if (state.awayNetworks.delete(name) && known.backUntil + TIMING.backOffMax < now) known.failures = 0;
    return known;
  }
  const network: Network = {
    ...{ name, lastUsedAt: now, failures: 0, backUntil: 0, seq: state.nextSeq++ },
    ...{ keys: new Set(), atWork: new Set(), idle: new Map() },
  };
  state.networks.set(name, network);
  return network;
}

/** Notes a key that registers on probation: its network exists from now on, and stands back if the key has failed lately. */
export function enterProbation(state: DispatchState, worker: Worker, usedAt: number, now: number): void {
  const isNew = !state.networks.has(worker.network);
  const network = networkNamed(state, worker.network, now);
  // After a loss of memory the networks are rebuilt from what is stored of their keys.
  if (isNew) network.lastUsedAt = worker.lastUsedAt;
  else network.lastUsedAt = Math.max(network.lastUsedAt, usedAt);
  const { failed, failedAt } = worker.record;
  network.failures = Math.max(network.failures, failed);
  if (failed > 0) network.backUntil = Math.max(network.backUntil, Math.min(failedAt, now) + backOff(failed));
  network.keys.add(worker.key);
}

/** Updates the pools of a worker's network. `isThere`: it is on probation; `isIdle`: a job may be given to it as such. */
export function indexProbation(state: DispatchState, worker: Worker, isThere: boolean, isIdle: boolean): void {
  if (isThere && !state.networks.has(worker.network)) networkNamed(state, worker.network, worker.lastUsedAt);
  const network = state.networks.get(worker.network);
  if (network === undefined || (!isThere && !network.keys.has(worker.key))) return;
  if (isThere) network.keys.add(worker.key);
  else network.keys.delete(worker.key);
  for (const name of worker.idlePools) {
    const pool = network.idle.get(name) ?? new OrderedPool();
    if (isIdle) pool.add(worker.key, worker.lastUsedAt, worker.seq);
    else pool.remove(worker.key);
    network.idle.set(name, pool);
  }
  rank(state, network);
}

/** Puts a network in its place among those that wait for their turn; forgets it if nobody is there and it has nothing to answer for. */
function rank(state: DispatchState, network: Network): void {
  const { name, seq } = network;
  const turn = turnOf(network);
  const works = network.atWork.size > 0;
  for (const [pool, { size }] of network.idle) {
    placeIn(state.probation.free, pool, name, size > 0 && !works ? { order: turn, seq } : null);
    placeIn(state.probation.working, pool, name, size > 0 && works ? { order: turn, seq } : null);
    if (size === 0) network.idle.delete(pool);
  }
  if (network.keys.size + network.atWork.size > 0) return;
  if (network.failures === 0) {
    state.networks.delete(name);
    state.awayNetworks.delete(name);
    return;
  }
  state.awayNetworks.delete(name);
  state.awayNetworks.add(name);
  const [oldest] = state.awayNetworks;
  if (state.awayNetworks.size <= LIMITS.networksRemembered || oldest === undefined) return;
  state.awayNetworks.delete(oldest);
  state.networks.delete(oldest);
}

/** When it is a network's turn, smallest first. */
function turnOf({ lastUsedAt, backUntil }: Network): number {
  return Math.max(lastUsedAt, backUntil);
}

/** Notes that a key of this network got a PUBLIC job. */
export function beginWork(state: DispatchState, name: string, key: string, now: number): void {
  const network = networkNamed(state, name, now);
  network.atWork.add(key);
  network.lastUsedAt = now;
  rank(state, network);
}

/** Notes that a key of this network has its job no more. */
export function endWork(state: DispatchState, name: string | undefined, key: string): void {
  const network = name === undefined ? undefined : state.networks.get(name);
  if (network?.atWork.delete(key)) rank(state, network);
}

/** Moves a network back after a failure, a time-out or a reject of one of its keys: each time for twice as long [JB11]. */
export function standBack(state: DispatchState, name: string, now: number): void {
  const network = networkNamed(state, name, now);
  network.failures++;
  network.backUntil = now + backOff(network.failures);
  rank(state, network);
}

/** Ends the time for which a network stands back, after a verified completion of one of its keys. */
export function heal(state: DispatchState, name: string): void {
  const network = state.networks.get(name);
  if (network === undefined || network.failures === 0) return;
  network.failures = 0;
  network.backUntil = 0;
  rank(state, network);
}

/**
 * The idle worker on probation whose turn it is: first by network, then the least recently used one that `accept` accepts. If a proven worker is idle
 * (`besideProven`), only a network that has none at work and does not stand back has a turn.
 */
export function firstOnProbation(
  state: DispatchState,
  pool: PoolName,
  accept: (key: string) => boolean,
  besideProven: { now: number } | null,
): string | undefined {
  const free = state.probation.free.get(pool);
  const working = state.probation.working.get(pool);
  const firstOf = (name: string) => state.networks.get(name)?.idle.get(pool)?.firstWhere(accept);
  if (besideProven !== null) {
    const first = free?.firstWhere((name, turn) => turn > besideProven.now || firstOf(name) !== undefined);
    return first === undefined || first.order > besideProven.now ? undefined : firstOf(first.id)?.id;
  }
  const one = free?.firstWhere((name) => firstOf(name) !== undefined);
  const other = working?.firstWhere((name) => firstOf(name) !== undefined);
  const first = other === undefined || (one !== undefined && isBefore(one, other)) ? one : other;
  return first && firstOf(first.id)?.id;
}

function isBefore(a: { order: number; seq: number }, b: { order: number; seq: number }): boolean {
  return a.order < b.order || (a.order === b.order && a.seq < b.seq);
}
