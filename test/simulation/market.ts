// Newcomers in the simulation: which network each key is in, which keys are proven at the start, and the invariants of probation and blame [JB11].
import {
  type DispatchEvent,
  type DispatchState,
  type JobFacts,
  type KeyRecord,
  type LiveJob,
  NEW_KEY,
  type Reduced,
  type Worker,
} from "../../src/coordinator/dispatch/index.ts";
import { QUEUE_SIZE } from "../support/queue-size.ts";
import { START } from "./agenda.ts";
import { suits } from "./indexes.ts";
import { Random } from "./random.ts";
import { clientOf } from "./shares.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

/** Where the keys are and what they have done before; a key that is not named has a network of its own, signed, and is proven. */
export type MarketPlan = {
  networks: Readonly<Record<string, string>>;
  /** Keys that are on probation at the start. */
  newcomers: readonly string[];
  /** Keys that never sign. */
  unsigned: readonly string[];
};

/** Few networks, so that keys share them; of its own stream of chance. */
export function marketPlanOf(seed: number, keys: readonly string[]): MarketPlan {
  const random = new Random(seed + 0xfa1);
  const some = random.pick([0.2, 0.5, 0.9, 1]);
  return {
    networks: Object.fromEntries(keys.map((key) => [key, random.pick(["n1", "n2", "n3", `own ${key}`])])),
    newcomers: keys.filter(() => random.chance(some)),
    unsigned: keys.filter(() => random.chance(0.1)),
  };
}

type Turn = { turn: number; seq: number; atWork: number; isBack: boolean };
/** Who denied a job, and its standing when it did: what it says may take the standing away. */
type Denial = LiveJob["denials"][number];
type Lost = { jobId: string; network: string; failures: number; number: number };

/** JB11: the order between proven keys and keys on probation, the blame of a network, and who may end a job for good. */
export class Market {
  readonly #world: World;
  /** The networks as they were before this event. */
  readonly #turns = new Map<string, Turn>();
  /** The standing and the record of every worker before this event. */
  readonly #before = new Map<string, KeyRecord>();
  /** The leases of workers on probation before this event. */
  #leases: Lost[] = [];
  /** The job that a worker denies in this event, and whether that is enough to end it. */
  #denied: { jobId: string; isFinal: boolean; isLast: boolean; teller: Denial } | null = null;
  #completes: { worker: Worker; record: KeyRecord; job: LiveJob; proven: boolean } | null = null;
  /** The users that have counted for each key since it registered. */
  readonly #counted = new Map<string, Set<string>>();

  constructor(world: World) {
    this.#world = world;
  }

  /** The identity of a key, as its registration shows it. */
  of(key: string): { key: string; network: string; authenticated: boolean } {
    const plan = this.#world.plan.market;
    // A worker that comes back with a fresh key comes from the same network.
    const [name = key] = key.split("~");
    return { key, network: plan?.networks[name] ?? `net ${name}`, authenticated: plan?.unsigned.includes(name) !== true };
  }

  /** What is stored of a key before the history starts. */
  recordOf(key: string): KeyRecord {
    return key.includes("~") || this.#world.plan.market?.newcomers.includes(key) === true ? NEW_KEY : { ...NEW_KEY, completed: 3 };
  }

  /** The network of a user: one of them has workers in it too. */
  networkOfUser(userId: string): string {
    if (userId === "ann" && this.#world.plan.market !== null) return "n1";
    return this.#world.plan.settings.queue === QUEUE_SIZE ? "seekers" : clientOf(userId);
  }

  before(state: DispatchState, event: DispatchEvent, now: number): void {
    this.#turns.clear();
    for (const { name, lastUsedAt, backOffUntil, seq, atWork } of state.networks.values())
      this.#turns.set(name, { turn: Math.max(lastUsedAt, backOffUntil), seq, atWork: atWork.size, isBack: backOffUntil > now });
    this.#before.clear();
    for (const { key, record } of state.workers.values()) this.#before.set(key, { ...record });
    this.#leases = [];
    for (const { id, phase, holders } of state.jobs.values()) {
      if (phase.kind !== "leased" && phase.kind !== "orphaned") continue;
      const { network } = phase.lease;
      const failures = state.networks.get(network ?? "")?.failures ?? -1;
      if (network !== undefined) this.#leases.push({ jobId: id, network, failures, number: holders.length });
    }
    this.#denied = this.#denialIn(state, event);
    this.#completes = null;
    if (event.type !== "complete" || event.verdict !== "valid") return;
    const worker = state.workers.get(state.keyByConn.get(event.connId) ?? "");
    const job = state.jobs.get(event.jobId);
    if (worker === undefined || job?.holders.some(({ key }) => key === worker.key) !== true) return;
    this.#completes = { worker, record: { ...worker.record }, job: { ...job }, proven: worker.proven };
  }

  after(state: DispatchState, event: DispatchEvent, { rows }: Reduced, now: number): void {
    this.#checkNetworks(state);
    this.#checkBlame(state, event, now);
    if (this.#denied !== null) {
      const { jobId, isFinal, isLast, teller } = this.#denied;
      const job = state.jobs.get(jobId);
      if (job !== undefined && isFinal) broken("JB11", `${jobId} is denied for good and lives on`);
      // Two of one standing and different networks say all that is asked of them.
      const alike = job?.denials.filter(({ proven }) => proven === teller.proven);
      if (alike !== undefined && alike.length < 2 && alike[0]?.network !== teller.network) broken("JB11", `${jobId} forgets that ${teller.key} denied it`);
      if (job === undefined && !isFinal && !isLast) broken("JB11", `${jobId} ends by the word of one`);
    }
    if (this.#completes !== null) this.#checkCompletion(state, this.#completes, now);
    if (event.type === "register") {
      this.#counted.delete(event.key);
      const worker = state.workers.get(event.key);
      const isFresh = event.lastUsedAt === 0 && !this.#before.has(event.key) && worker?.jobId === null;
      if (isFresh && worker.lastUsedAt < Math.min(event.registeredAt ?? now, now)) broken("JB3", `${event.key} is new and does not count as used now`);
    }
    for (const worker of state.workers.values()) {
      if (worker.record.completed === 0) this.#counted.delete(worker.key);
      const proven = worker.authenticated && worker.record.completed >= 3;
      if (worker.record.failed > 1 && worker.record.completed > 0)
        broken("JB11", `${worker.key} has failed ${worker.record.failed} times and keeps its standing`);
      if (worker.proven !== proven) broken("JB11", `${worker.key} is ${worker.proven ? "" : "not "}proven with ${JSON.stringify(worker.record)}`);
      const was = this.#before.get(worker.key);
      if (was !== undefined && was.completed < worker.record.completed && this.#completes?.worker.key !== worker.key && event.type !== "register")
        broken("JB11", `${worker.key} counts a completion by ${event.type}`);
    }
    if (rows.some((row) => row.type === "record" && !this.of(row.key).authenticated && row.record.strikes + row.record.parks === 0 && row.record.failed > 0))
      broken("JB11", "a key that never signed is stored for a failure");
  }

  /** A completion of another user, from elsewhere, counts once, and every verified one ends a row of failures. */
  #checkCompletion(
    state: DispatchState,
    { worker, record, job, proven }: { worker: Worker; record: KeyRecord; job: LiveJob; proven: boolean },
    now: number,
  ): void {
    const counts = job.privacyClass === "PUBLIC" && job.network !== worker.network && record.completed < 3;
    const completed = worker.record.completed - record.completed;
    if (completed > (counts ? 1 : 0)) broken("JB11", `${worker.key} counts ${job.id} of ${job.userId}, committed from ${job.network}`);
    if (counts && record.completed === 0 && completed !== 1) broken("JB11", `${worker.key} has nothing for its first completion`);
    const users = this.#counted.get(worker.key) ?? new Set();
    if (completed > 0 && users.has(job.userId)) broken("JB11", `${worker.key} counts ${job.userId} twice`);
    if (worker.proven && !proven && !this.#world.stats.provenAfter.has(worker.key)) this.#world.stats.provenAfter.set(worker.key, now - START);
    if (completed > 0) this.#counted.set(worker.key, users.add(job.userId));
    if (!proven && job.privacyClass === "PUBLIC" && (state.networks.get(worker.network)?.failures ?? 0) > 0)
      broken("JB11", `${worker.network} has completed ${job.id} and still stands back`);
    if (worker.record.failed !== 0) broken("JB11", `${worker.key} has completed ${job.id} and still failed`);
  }

  /** The network of a key on probation that failed or rejected a job stands back, whatever became of the key. */
  #checkBlame(state: DispatchState, event: DispatchEvent, now: number): void {
    const isBlame = (event.type === "failed" && event.cause !== "context_length_exceeded") || (event.type === "reject" && event.tooLong !== true);
    if (!isBlame && event.type !== "time") return;
    for (const { jobId, network, failures, number } of this.#leases) {
      const job = state.jobs.get(jobId);
      // Its total deadline is nobody's fault.
      if (job === undefined ? !isBlame : this.#isHeld(job, number)) continue;
      if (isBlame && event.jobId !== jobId) continue;
      const after = state.networks.get(network);
      if (after === undefined || after.failures <= failures || after.backOffUntil <= now) broken("JB11", `${network} lost ${jobId} and does not stand back`);
    }
  }

  /** Whether the same lease is still there, which was the one with this number. */
  #isHeld({ phase, holders }: LiveJob, number: number): boolean {
    return holders.length === number && (phase.kind === "leased" || phase.kind === "orphaned");
  }

  /** Recomputes who is at work and who is idle on probation. */
  #checkNetworks(state: DispatchState): void {
    const atWork = new Map<string, Set<string>>();
    const note = (network: string | undefined, key: string) => {
      if (network !== undefined) atWork.set(network, (atWork.get(network) ?? new Set()).add(key));
    };
    for (const { phase } of state.jobs.values()) {
      if (phase.kind === "leased" || phase.kind === "orphaned") note(phase.lease.network, phase.lease.key);
      if (phase.kind === "settling" && phase.claimed !== null) note(phase.claimed.network, phase.claimed.key);
    }
    for (const network of state.networks.values()) {
      const keys = [...(atWork.get(network.name) ?? [])].toSorted().join();
      if ([...network.atWork].toSorted().join() !== keys) broken("index", `${network.name} has ${[...network.atWork].join()} at work, should be ${keys}`);
      atWork.delete(network.name);
      if (network.keys.size + network.atWork.size === 0 && !state.awayNetworks.has(network.name)) broken("index", `${network.name} is empty and not away`);
    }
    if (atWork.size > 0) broken("index", `${[...atWork.keys()].join()} are at work and unknown`);
    for (const key of state.departed.keys()) if (!state.leases.has(key) || state.workers.has(key)) broken("index", `${key} has departed and has no lease`);
  }

  /** Whether this event says that a job cannot be done, and whether it must end by that. */
  #denialIn(state: DispatchState, event: DispatchEvent): { jobId: string; isFinal: boolean; isLast: boolean; teller: Denial } | null {
    const isFailure = event.type === "failed" && !event.retryable && event.cause !== "context_length_exceeded";
    if (!isFailure && !(event.type === "complete" && event.verdict === "worker_error")) return null;
    const job = state.jobs.get(event.jobId);
    const worker = state.workers.get(state.keyByConn.get(event.connId) ?? "");
    if (job?.phase.kind !== "leased" || job.phase.connId !== event.connId || worker === undefined) return null;
    if (event.attempt !== undefined && event.attempt !== job.phase.lease.attempt) return null;
    const denials = [...job.denials, worker];
    return {
      jobId: job.id,
      isFinal: isFinal(state, job, denials, worker.key),
      isLast: job.attempts >= 3,
      teller: { key: worker.key, network: worker.network, proven: worker.proven },
    };
  }

  /** JB3, JB11: a new PUBLIC job is given to the one whose turn it is, among these who are idle. */
  checkTurn(job: JobFacts, worker: Worker, idle: readonly Worker[], isUsedBefore: (a: Worker, b: Worker) => boolean): void {
    const isProbation = Number.parseInt(job.id.slice(0, 2), 16) % 5 === 0;
    const turnOf = ({ network }: Worker): Turn => this.#turns.get(network) ?? broken("index", `${network} is unknown`);
    const proven = idle.filter((one) => one.proven);
    const mayGoFirst = idle.filter((one) => !one.proven && turnOf(one).atWork === 0 && !turnOf(one).isBack && turnOf(one).turn <= this.#world.agenda.now);
    if (worker.proven) {
      if (isProbation && mayGoFirst.length > 0) broken("JB11", `${job.id} is for probation and goes to ${worker.key}, which is proven`);
      for (const other of this.#world.models.preferred(job, worker, proven))
        if (isUsedBefore(other, worker)) broken("JB3", `${job.id} on ${worker.key}, though ${other.key} was used less recently`);
      return;
    }
    if (proven.length > 0 && !isProbation) broken("JB11", `${job.id} goes to ${worker.key} on probation beside ${proven[0]?.key}, which is proven and idle`);
    if (proven.length > 0 && !mayGoFirst.includes(worker)) broken("JB11", `${job.id} goes to ${worker.key}, whose network has one at work or stands back`);
    for (const other of this.#world.models.preferred(job, worker, proven.length > 0 ? mayGoFirst : idle.filter((one) => !one.proven))) {
      const [mine, its] = [turnOf(worker), turnOf(other)];
      const isEarlier = other.network === worker.network ? isUsedBefore(other, worker) : its.turn < mine.turn || (its.turn === mine.turn && its.seq < mine.seq);
      if (isEarlier) broken("JB11", `${job.id} on ${worker.key} of ${worker.network}, though it is the turn of ${other.key} of ${other.network}`);
    }
  }
}

/** Whether what these workers say ends the job: two of different networks, one of them proven if a proven one is left to ask; or nobody is left to ask. */
export function isFinal(state: DispatchState, job: LiveJob, denials: readonly { network: string; proven: boolean }[], last: string): boolean {
  const left = [...state.workers.values()].filter(
    (one) => one.key !== last && !one.silent && !job.tried.has(one.key) && suits(state, { ...job, outgrown: null }, one),
  );
  if (left.length === 0) return true;
  return denials.some((a) => denials.some((b) => a.network !== b.network && (a.proven || b.proven || !left.some(({ proven }) => proven))));
}

/** JB11: a job that has lost an attempt is for proven workers, as long as one is there that has not tried it; not one that needs a larger context. */
export function mayTakeLost(state: DispatchState, job: LiveJob, worker: Worker): boolean {
  if (worker.proven || job.privacyClass === "PRIVATE" || job.outgrown !== null) return true;
  return ![...state.workers.values()].some((one) => one.proven && !one.silent && !job.tried.has(one.key) && suits(state, job, one));
}
