// The size of the queue, and what the waiting jobs of each owner use of it [LM1]. On a job's way: commit, before a job is stored, and while it waits.
import { LIMITS } from "../../protocol/limits.ts";
import { FairShare } from "./fair-share.ts";

/** The size of a queue: waiting jobs, bytes of their payloads, and waiting jobs of one user. */
export type QueueSize = { jobs: number; bytes: number; jobsPerUser: number };

/** The size of a hub's queue [LM1]. */
export const QUEUE_SIZE: QueueSize = { jobs: LIMITS.queuedJobs, bytes: LIMITS.queuedPayloadBytes, jobsPerUser: LIMITS.queuedJobsPerUser };

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
      jobs: new FairShare({ most: Infinity, each: Math.floor(jobs * LIMITS.queueShare) }),
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
