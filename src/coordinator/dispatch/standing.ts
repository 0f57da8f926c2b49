// The standing of worker keys, proven or on probation, and the turns of the networks on probation [JB11]. On a job's way: claim, and the end of an attempt.
import type { PrivacyClass } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { IdlePool, isBefore, type OrderedPool, type PoolName, Pools, type Turns } from "./pools.ts";
import { type DispatchState, isIdle, type KeyRecord, type Network, type Worker } from "./state.ts";

/** The facts of a job that decide whether its completion counts. */
type CountedJob = {
  privacyClass: PrivacyClass;
  userId: string;
  /** The network that committed the job; empty if it is not known. */
  network: string;
};

/** The record of a key that nobody has seen. */
export const NEW_KEY: KeyRecord = { strikes: 0, parks: 0, parkedUntil: 0, completed: 0, users: [], hasCompleted: false, failed: 0, failedAt: 0 };

/** Beyond this number of failures in a row nothing changes any more. */
const FAILURES_COUNTED = 10;

/**
 * The standing of a key: `proven` once it has completed enough jobs of other people and has not failed twice in a row since. Every other key is on
 * probation. A key that did not sign its registration is always on probation, because anyone can name it.
 */
export function standingOf(record: KeyRecord, authenticated: boolean): "proven" | "probation" {
  return authenticated && record.completed >= LIMITS.provenCompletions ? "proven" : "probation";
}

/**
 * The record after a verified completion. It counts for the standing if the job is PUBLIC, was committed from another network, and is of a user that has
 * not counted yet: otherwise an owner of workers could prove them with jobs of their own.
 *
 * @returns the same object if nothing changes, so that a proven key costs no write
 */
export function afterCompletion(record: KeyRecord, job: CountedJob, network: string): KeyRecord {
  const user = shortHash(job.userId);
  const counts =
    record.completed < LIMITS.provenCompletions && job.privacyClass === "PUBLIC" && isCommittedElsewhere(job, network) && !record.users.includes(user);
  if (!counts) return record.failed === 0 && record.hasCompleted ? record : { ...record, hasCompleted: true, failed: 0 };
  const completed = record.completed + 1;
  return { ...record, hasCompleted: true, failed: 0, completed, users: completed < LIMITS.provenCompletions ? [...record.users, user] : [] };
}

/** The record after a failure, a time-out or a strike. The second one in a row takes the standing away. */
export function afterFailure(record: KeyRecord, now: number): KeyRecord {
  const failed = Math.min(record.failed + 1, FAILURES_COUNTED);
  if (failed < LIMITS.provenFailures) return { ...record, failed, failedAt: now };
  return { ...record, failed, failedAt: now, completed: 0, users: [] };
}

/** How long a network with so many failures in a row backs off, ms: twice as long each time [JB11]. */
export function backOffTime(failures: number): number {
  return failures === 0 ? 0 : Math.min(TIMING.backOff * 2 ** Math.min(failures - 1, FAILURES_COUNTED), TIMING.backOffMax);
}

/** The networks of clients whose addresses the coordinator does not know, as in a local emulation. */
const UNKNOWN_NETWORKS: readonly string[] = ["local", ""];
const LOOPBACK = /^127\.|^0:0:0::\/48$/;

function isCommittedElsewhere({ network }: CountedJob, own: string): boolean {
  return UNKNOWN_NETWORKS.includes(own) || LOOPBACK.test(own) || (network !== "" && network !== own);
}

/** True if this is the network of a client whose address is known. */
export function isKnownNetwork(network: string): boolean {
  return !UNKNOWN_NETWORKS.includes(network);
}

/** True if two keys are known to be in different networks, or if the networks are not known. */
export function mayDiffer(one: string, other: string): boolean {
  return one !== other || UNKNOWN_NETWORKS.includes(one);
}

/** FNV-1a over the UTF-16 units, 32 bits. A collision only means that one completion does not count. */
function shortHash(text: string): number {
  let hash = 0x81_1c_9d_c5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01_00_01_93);
  return hash >>> 0;
}

/** True if a job goes to a worker on probation although a proven worker is idle. The coordinator chooses the ids, so no client can choose this. */
export function isForProbation(jobId: string): boolean {
  return Number.parseInt(jobId.slice(0, 2), 16) % LIMITS.probationShare === 0;
}

/** A network, which is created when it is first seen. */
function networkNamed(state: DispatchState, name: string, now: number): Network {
  const known = state.networks.get(name);
  if (known !== undefined) {
    // Old failures are forgotten if no worker of this network was connected since.
    if (state.awayNetworks.delete(name) && known.backOffUntil + TIMING.backOffMax < now) known.failures = 0;
    return known;
  }
  const network: Network = {
    name,
    lastUsedAt: now,
    failures: 0,
    backOffUntil: 0,
    seq: state.nextSeq++,
    keys: new Set(),
    atWork: new Set(),
    idle: new Pools(() => new IdlePool()),
    placed: new Set(),
  };
  state.networks.set(name, network);
  return network;
}

/** Notes a key that registers on probation: its network exists from now on, and backs off if the key has failed lately. */
export function enterProbation(state: DispatchState, worker: Worker, usedAt: number, now: number): void {
  const isNew = !state.networks.has(worker.network);
  const network = networkNamed(state, worker.network, now);
  // After a loss of memory the networks are rebuilt from what is stored of their keys. A network that comes back while
  // it is still remembered gains nothing from its return.
  if (isNew) network.lastUsedAt = worker.lastUsedAt;
  else network.lastUsedAt = Math.max(network.lastUsedAt, network.keys.size === 0 ? worker.lastUsedAt : usedAt);
  const { failed, failedAt } = worker.record;
  network.failures = Math.max(network.failures, failed);
  if (failed > 0) network.backOffUntil = Math.max(network.backOffUntil, Math.min(failedAt, now) + backOffTime(failed));
  network.keys.add(worker.key);
  move(state, network);
}

/** Notes in these pools that a worker on probation has come or changed, and its network with it. */
export function moveOnProbation(state: DispatchState, worker: Worker, names: Iterable<PoolName>): void {
  const network = networkNamed(state, worker.network, worker.lastUsedAt);
  network.keys.add(worker.key);
  for (const name of names) {
    network.idle.change(name, true, (pool) => pool.moved.add(worker.key));
    state.probation.change(name, true, (turns) => turns.move(network.name));
    network.placed.delete(name);
  }
}

/** Removes a worker from its network: it is gone, or no longer on probation. The network leaves the pools in which it was the last one. */
export function leaveProbation(state: DispatchState, worker: Worker): void {
  const network = state.networks.get(worker.network);
  if (network?.keys.delete(worker.key) !== true) return;
  for (const name of worker.idlePools) {
    network.idle.change(name, false, (pool) => pool.remove(worker.key));
    if (network.idle.get(name) !== undefined) continue;
    network.placed.delete(name);
    state.probation.change(name, false, (turns) => turns.remove(network.name));
  }
  forgetIfGone(state, network);
}

/** The idle workers in one of these pools, each in its present place; undefined if there are none. */
export function placeIdle(state: DispatchState, pools: Pools<IdlePool>, name: PoolName): OrderedPool | undefined {
  const placeOf = (key: string) => {
    const worker = state.workers.get(key);
    worker?.placed.add(name);
    return worker !== undefined && isIdle(worker) ? { order: worker.lastUsedAt, seq: worker.seq } : null;
  };
  pools.change(name, false, (pool) => pool.place(placeOf));
  return pools.get(name)?.order;
}

/**
 * Notes that the turn of a network has changed. Only the pools that a claim has looked at since the last change are updated. So this costs no more than those
 * claims did, no matter how many models the network names.
 */
function move(state: DispatchState, network: Network): void {
  for (const pool of network.placed) state.probation.get(pool)?.move(network.name);
  network.placed.clear();
}

/** The networks with an idle worker in a pool, each in its place. */
function turnsIn(state: DispatchState, pool: PoolName): Turns | undefined {
  state.probation.change(pool, false, (turns) => {
    for (const name of turns.moved) {
      const network = state.networks.get(name);
      if (network === undefined || placeIdle(state, network.idle, pool) === undefined) continue;
      const order = network.atWork.size > 0 ? turns.working : turns.free;
      order.add(name, turnOf(network), network.seq);
      network.placed.add(pool);
    }
    turns.moved.clear();
  });
  return state.probation.get(pool);
}

/**
 * Remembers a network without workers, up to a limit: its failures, and when it got its last job. Otherwise a network could connect many old keys, one at a
 * time, and would always be the one that has waited longest.
 */
function forgetIfGone(state: DispatchState, network: Network): void {
  const { name } = network;
  if (network.keys.size + network.atWork.size > 0) return;
  state.awayNetworks.delete(name);
  state.awayNetworks.add(name);
  const [oldest] = state.awayNetworks;
  if (state.awayNetworks.size <= LIMITS.networksRemembered || oldest === undefined) return;
  state.awayNetworks.delete(oldest);
  state.networks.delete(oldest);
}

/** When it is a network's turn, smallest first. */
function turnOf({ lastUsedAt, backOffUntil }: Network): number {
  return Math.max(lastUsedAt, backOffUntil);
}

/** Notes that a key of this network got a PUBLIC job. */
export function beginWork(state: DispatchState, name: string, key: string, now: number): void {
  const network = networkNamed(state, name, now);
  network.atWork.add(key);
  network.lastUsedAt = now;
  move(state, network);
}

/** Notes that a key of this network no longer has its job. */
export function endWork(state: DispatchState, name: string | undefined, key: string): void {
  const network = name === undefined ? undefined : state.networks.get(name);
  if (network?.atWork.delete(key) !== true) return;
  move(state, network);
  forgetIfGone(state, network);
}

/** Moves a network back after a failure, a time-out or a reject of one of its keys: each time for twice as long [JB11]. */
export function startBackOff(state: DispatchState, name: string, now: number): void {
  const network = networkNamed(state, name, now);
  network.failures++;
  network.backOffUntil = now + backOffTime(network.failures);
  move(state, network);
  forgetIfGone(state, network);
}

/** Ends the back-off of a network, after a verified completion of one of its keys. */
export function endBackOff(state: DispatchState, name: string): void {
  const network = state.networks.get(name);
  if (network === undefined || network.failures === 0) return;
  network.failures = 0;
  network.backOffUntil = 0;
  move(state, network);
  forgetIfGone(state, network);
}

/**
 * The idle worker on probation whose turn it is: first by network, then the least recently used one that `accept` accepts. If a proven worker is idle
 * (`besideProven`), only a network that has none at work and does not back off has a turn.
 */
export function firstOnProbation(
  state: DispatchState,
  pool: PoolName,
  accept: (key: string) => boolean,
  besideProven: { now: number } | null,
): string | undefined {
  const { free, working } = turnsIn(state, pool) ?? {};
  const firstOf = (name: string) => state.networks.get(name)?.idle.get(pool)?.order.firstWhere(accept);
  if (besideProven !== null) {
    const first = free?.firstWhere((name, turn) => turn > besideProven.now || firstOf(name) !== undefined);
    return first === undefined || first.order > besideProven.now ? undefined : firstOf(first.id)?.id;
  }
  const one = free?.firstWhere((name) => firstOf(name) !== undefined);
  const other = working?.firstWhere((name) => firstOf(name) !== undefined);
  const first = other === undefined || (one !== undefined && isBefore(one, other)) ? one : other;
  return first && firstOf(first.id)?.id;
}
