/** Lets one request at a time through per key; the others wait for it and then look again [API5, PY6]. */
export class Turnstile {
  /** In the order in which they entered, so that those who never left come first. */
  readonly #inside = new Map<string, { holder: string; until: number; gone: PromiseWithResolvers<void> }>();
  readonly #keysOf = new Map<string, Set<string>>();

  /** How many keys are held now. */
  get size(): number {
    return this.#inside.size;
  }

  /** Enters with `holder`'s name, for at most `ms`; resolves to null when inside, else to what to wait for before trying again. */
  enter(key: string, holder: string, now: number, ms: number): Promise<void> | null {
    this.#dropLate(now, ms);
    const there = this.#inside.get(key);
    if (there !== undefined && there.holder !== holder) return there.gone.promise;
    this.#inside.delete(key);
    this.#inside.set(key, { holder, until: now + ms, gone: there?.gone ?? Promise.withResolvers<void>() });
    const keys = this.#keysOf.get(holder) ?? new Set();
    this.#keysOf.set(holder, keys.add(key));
    return null;
  }

  /** `holder` leaves all that it entered; whoever waits goes on. */
  leave(holder: string): void {
    for (const key of this.#keysOf.get(holder) ?? []) this.#drop(key);
  }

  /** A client that hangs up ends its request wherever it was: it never leaves, and would be kept for ever. */
  #dropLate(now: number, ms: number): void {
    for (const [key, { until }] of this.#inside) {
      // What is further away than the longest stay was entered before the clock was put back.
      if (until > now && until <= now + ms) return;
      this.#drop(key);
    }
  }

  #drop(key: string): void {
    const there = this.#inside.get(key);
    if (there === undefined) return;
    this.#inside.delete(key);
    const keys = this.#keysOf.get(there.holder);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(there.holder);
    there.gone.resolve();
  }
}
