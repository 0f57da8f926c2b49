// Lets requests about the same payment or idempotency key take turns. On a job's way: pay.

/** A lock per key: one request at a time owns it; the others wait until it is released and then try again [API5, PY6]. */
export class KeyedMutex {
  /** The locked keys, oldest first, so that those that were never released come first. */
  readonly #locks = new Map<string, { owner: string; until: number; released: PromiseWithResolvers<void> }>();
  readonly #keysOf = new Map<string, Set<string>>();

  /** How many keys are locked now. */
  get size(): number {
    return this.#locks.size;
  }

  /**
   * Locks the key for `owner`, for at most `ms`. Gives null if it owns the lock now, otherwise what to wait for before it tries again: the release, and the
   * time in ms since the epoch at which the lock ends without one.
   */
  acquire(key: string, owner: string, now: number, ms: number): { released: Promise<void>; until: number } | null {
    this.#dropLate(now, ms);
    const entry = this.#locks.get(key);
    if (entry !== undefined && entry.owner !== owner) return { released: entry.released.promise, until: entry.until };
    this.#locks.delete(key);
    this.#locks.set(key, { owner, until: now + ms, released: entry?.released ?? Promise.withResolvers<void>() });
    const keys = this.#keysOf.get(owner) ?? new Set();
    this.#keysOf.set(owner, keys.add(key));
    return null;
  }

  /** Releases every key of `owner`; the requests that wait for them go on. */
  release(owner: string): void {
    for (const key of this.#keysOf.get(owner) ?? []) this.#drop(key);
  }

  /** Releases the keys of requests that ended without a release, as when a client hangs up. */
  #dropLate(now: number, ms: number): void {
    for (const [key, { until }] of this.#locks) {
      // An end further away than the longest time was set before the clock was set back.
      if (until > now && until <= now + ms) return;
      this.#drop(key);
    }
  }

  #drop(key: string): void {
    const entry = this.#locks.get(key);
    if (entry === undefined) return;
    this.#locks.delete(key);
    const keys = this.#keysOf.get(entry.owner);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(entry.owner);
    entry.released.resolve();
  }
}
