/** Lets one request at a time through per key; the others wait for it and then look again [API5, PY6]. */
export class Turnstile {
  readonly #inside = new Map<string, { holder: string; until: number; gone: PromiseWithResolvers<void> }>();

  /** Enters with `holder`'s name, for at most `ms`; resolves to null when inside, else to what to wait for before trying again. */
  enter(key: string, holder: string, now: number, ms: number): Promise<void> | null {
    const there = this.#inside.get(key);
    if (there !== undefined && there.holder !== holder && there.until > now) return there.gone.promise;
    if (there !== undefined && there.holder !== holder) there.gone.resolve();
    this.#inside.set(key, { holder, until: now + ms, gone: Promise.withResolvers<void>() });
    return null;
  }

  /** Leaves; whoever waits goes on. */
  leave(key: string, holder: string): void {
    const there = this.#inside.get(key);
    if (there?.holder !== holder) return;
    this.#inside.delete(key);
    there.gone.resolve();
  }
}
