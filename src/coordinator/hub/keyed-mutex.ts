// Lets requests about the same payment or idempotency key take turns. On a job's way: pay.

/** A lock per key: one request at a time has a key; the others wait until it is released and then try again [API5, PY6]. */
export class KeyedMutex {
  /** The keys that are held, oldest first, so that those that were never released come first. */
  readonly #held = new Map<string, { holder: string; until: number; left: PromiseWithResolvers<void> }>();
  readonly #keysOf = new Map<string, Set<string>>();

  /** How many keys are held now. */
  get size(): number {
    return this.#held.size;
  }

  /** Takes the key for `holder`, for at most `ms`. Gives null if it has the key now, otherwise what to wait for before it tries again. */
  acquire(key: string, holder: string, now: number, ms: number): Promise<void> | null {
    this.#dropLate(now, ms);
    const entry = this.#held.get(key);
    if (entry !== undefined && entry.holder !== holder) return entry.left.promise;
    this.#held.delete(key);
    this.#held.set(key, { holder, until: now + ms, left: entry?.left ?? Promise.withResolvers<void>() });
    const keys = this.#keysOf.get(holder) ?? new Set();
    this.#keysOf.set(holder, keys.add(key));
    return null;
  }

  /** Releases every key of `holder`; the requests that wait for them go on. */
  release(holder: string): void {
    for (const key of this.#keysOf.get(holder) ?? []) this.#drop(key);
  }

  /** Releases the keys of requests that ended without a release, as when a client hangs up. */
  #dropLate(now: number, ms: number): void {
    for (const [key, { until }] of this.#held) {
      // An end further away than the longest time was set before the clock was set back.
      if (until > now && until <= now + ms) return;
      this.#drop(key);
    }
  }

  #drop(key: string): void {
    const entry = this.#held.get(key);
    if (entry === undefined) return;
    this.#held.delete(key);
    const keys = this.#keysOf.get(entry.holder);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(entry.holder);
    entry.left.resolve();
  }
}
