// Fair shares of what is limited, such as streams, waits and sockets, and those of the queue [LM1]. On a job's way: commit, before a job is stored, and while
// it waits.
import { LIMITS } from "../../protocol/limits.ts";

/** The limits of a {@link FairShare}. */
export type ShareLimits = {
  /** What all owners may use together. */
  most: number;
  /** What one owner may use; without it, everything. */
  each?: number;
  /** What each of these owners may always use, whatever the others use. Together it must not be more than `most`. */
  guaranteed?: { owners: readonly string[]; amount: number };
};

/**
 * Counts what each owner uses of something limited, so that no owner can use all of it. An owner that is not known (null) has no share of its own: only what
 * all use together limits it. Memory grows only with the owners that use something.
 */
export class FairShare {
  readonly #most: number;
  readonly #each: number;
  readonly #guaranteed: { owners: readonly string[]; amount: number };
  readonly #used = new Map<string, number>();
  #total = 0;

  constructor({ most, each = most, guaranteed = { owners: [], amount: 0 } }: ShareLimits) {
    this.#most = most;
    this.#each = each;
    this.#guaranteed = guaranteed;
  }

  /** What all owners use together. */
  get total(): number {
    return this.#total;
  }

  /** What this owner uses. */
  of(owner: string): number {
    return this.#used.get(owner) ?? 0;
  }

  /** True if this owner may use `amount` more. */
  hasRoom(owner: string | null, amount = 1): boolean {
    const { owners, amount: guarantee } = this.#guaranteed;
    const own = owner === null ? 0 : this.of(owner) + amount;
    if (own > this.#each) return false;
    if (owner !== null && own <= guarantee && owners.includes(owner)) return true;
    // The unused part of the other owners' guarantees stays free for them.
    let reserved = 0;
    for (const other of owners) if (other !== owner) reserved += Math.max(0, guarantee - this.of(other));
    return this.#total + amount + reserved <= this.#most;
  }

  /** Takes `amount` for this owner; false if there is no room. */
  take(owner: string | null, amount = 1): boolean {
    if (!this.hasRoom(owner, amount)) return false;
    this.add(owner, amount);
    return true;
  }

  /** Counts `amount` for this owner, with or without room: what waits again, or was restored, cannot be refused. */
  add(owner: string | null, amount = 1): void {
    this.#total += amount;
    if (owner !== null) this.#used.set(owner, this.of(owner) + amount);
  }

  /** Gives back what {@link take} or {@link add} counted for this owner. */
  give(owner: string | null, amount = 1): void {
    this.#total -= amount;
    if (owner === null) return;
    const left = Math.max(0, this.of(owner) - amount);
    // The last entry stays: V8 gives a map a new table whenever it gets empty.
    if (left > 0 || this.#used.size === 1) this.#used.set(owner, left);
    else this.#used.delete(owner);
  }
}

/** The size of a queue: waiting jobs, bytes of their payloads, and waiting jobs of one user. */
export type QueueSize = { jobs: number; bytes: number; jobsPerUser: number };

/** Whose share of the queue a job uses. `client` and `payer` are null if they are not known, or do not count. */
export type JobOwners = { pool: string; user: string; client: string | null; payer: string | null };

/** The shares of one kind of owner. */
type Shares = { jobs: FairShare; bytes: FairShare };

/**
 * What the waiting jobs use of the queue, by pool, user, client and payer [LM1]. A part of the queue is guaranteed to each pool, so that jobs that no worker
 * can run never lock out the jobs of another pool. A client, or a payer, has at most a quarter. Jobs that wait again after a lost attempt always have a
 * place; they count, so the queue may be larger than its size for a while.
 */
export class Queue {
  readonly #shares: Record<keyof JobOwners, Shares>;

  constructor({ jobs, bytes, jobsPerUser }: QueueSize, pools: readonly string[]) {
    const guaranteed = (most: number) => ({ owners: pools, amount: Math.floor(most * LIMITS.queueGuarantee) });
    const quarter = (): Shares => ({
      jobs: new FairShare({ most: Infinity, each: Math.max(1, Math.floor(jobs * LIMITS.queueShare)) }),
      bytes: new FairShare({ most: Infinity, each: Math.floor(bytes * LIMITS.queueShare) }),
    });
    this.#shares = {
      pool: { jobs: new FairShare({ most: jobs, guaranteed: guaranteed(jobs) }), bytes: new FairShare({ most: bytes, guaranteed: guaranteed(bytes) }) },
      user: { jobs: new FairShare({ most: Infinity, each: jobsPerUser }), bytes: new FairShare({ most: Infinity }) },
      client: quarter(),
      payer: quarter(),
    };
  }

  /** The number of waiting jobs. */
  get jobs(): number {
    return this.#shares.pool.jobs.total;
  }

  /** The bytes of their payloads. */
  get bytes(): number {
    return this.#shares.pool.bytes.total;
  }

  /** What one owner uses. */
  usedBy(kind: keyof JobOwners, owner: string): { jobs: number; bytes: number } {
    const { jobs, bytes } = this.#shares[kind];
    return { jobs: jobs.of(owner), bytes: bytes.of(owner) };
  }

  /** True if one more job may wait. */
  hasRoom(owners: JobOwners, payloadBytes: number): boolean {
    return KINDS.every((kind) => this.#shares[kind].jobs.hasRoom(owners[kind]) && this.#shares[kind].bytes.hasRoom(owners[kind], payloadBytes));
  }

  /** Counts a job that waits. */
  add(owners: JobOwners, payloadBytes: number): void {
    for (const kind of KINDS) {
      this.#shares[kind].jobs.add(owners[kind]);
      this.#shares[kind].bytes.add(owners[kind], payloadBytes);
    }
  }

  /** Counts a job that no longer waits. */
  remove(owners: JobOwners, payloadBytes: number): void {
    for (const kind of KINDS) {
      this.#shares[kind].jobs.give(owners[kind]);
      this.#shares[kind].bytes.give(owners[kind], payloadBytes);
    }
  }
}

const KINDS = ["pool", "user", "client", "payer"] as const satisfies readonly (keyof JobOwners)[];
