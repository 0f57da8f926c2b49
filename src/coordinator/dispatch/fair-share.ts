// Fair shares of something that is limited, such as the queue, streams, waits and sockets [LM1]. On a job's way: commit, before anything is stored.

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
    // What the others have not used of their guarantees stays free for them.
    const reserved = owners.reduce((sum, other) => sum + (other === owner ? 0 : Math.max(0, guarantee - this.of(other))), 0);
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
    const left = this.of(owner) - amount;
    if (left > 0) this.#used.set(owner, left);
    else this.#used.delete(owner);
  }
}
