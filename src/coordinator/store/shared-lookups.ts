// Reads rows of D1 together, for requests that come at the same time: on a job's way, a poll of a job that the hub no longer has.

/** The most rows of one query: the results of jobs may have 1 MiB each. */
export const MOST_TOGETHER = 8;

/**
 * The rows that requests look for in D1. One query runs at a time, and what comes meanwhile shares the next one: outside Cloudflare D1 runs in the thread of
 * the hub, and hundreds of polls of jobs that nobody has, one query each, delayed every other job by seconds.
 */
export class SharedLookups<Row> {
  readonly #read: (keys: readonly string[]) => Promise<ReadonlyMap<string, Row>>;
  readonly #waiting = new Map<string, PromiseWithResolvers<Row | null>>();
  #isReading = false;

  /** `read` makes one query for up to {@link MOST_TOGETHER} keys. */
  constructor(read: (keys: readonly string[]) => Promise<ReadonlyMap<string, Row>>) {
    this.#read = read;
  }

  /** Returns the row of a key; null if D1 does not have it. @throws {StoreUnavailable} */
  find(key: string): Promise<Row | null> {
    const lookup = this.#waiting.get(key) ?? Promise.withResolvers<Row | null>();
    this.#waiting.set(key, lookup);
    if (!this.#isReading) void this.#readAll();
    return lookup.promise;
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.size > 0) {
      const lookups = [...this.#waiting].slice(0, MOST_TOGETHER);
      for (const [key] of lookups) this.#waiting.delete(key);
      try {
        const found = await this.#read(lookups.map(([key]) => key));
        for (const [key, { resolve }] of lookups) resolve(found.get(key) ?? null);
      } catch (error) {
        // The others would fail too, one deadline after the other.
        for (const { reject } of [...lookups.map(([, lookup]) => lookup), ...this.#waiting.values()]) reject(error);
        this.#waiting.clear();
      }
      // A timer ends only after the runtime has looked at everything: from one query to the next it would not look at its sockets.
      await scheduler.wait(0);
    }
    this.#isReading = false;
  }
}
