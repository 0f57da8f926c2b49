// Reads jobs from D1 together, for requests that come at the same time: on a job's way, a poll of a job that the hub no longer has.
import type { FoundJob } from "../hub/rpc.ts";
import { findJobs } from "./jobs.ts";

/** The most jobs of one query: their results may have 1 MiB each. */
export const MOST_TOGETHER = 8;

/**
 * The jobs that requests look for in D1. One query runs at a time, and what comes meanwhile shares the next one: outside Cloudflare D1 runs in the thread of
 * the hub, and hundreds of polls of jobs that nobody has, one query each, delayed every other job by seconds.
 */
export class JobLookups {
  readonly #db: D1Database;
  readonly #waiting = new Map<string, PromiseWithResolvers<FoundJob | null>>();
  #isReading = false;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Returns a job; null if D1 does not have it. @throws {StoreUnavailable} */
  find(id: string): Promise<FoundJob | null> {
    const lookup = this.#waiting.get(id) ?? Promise.withResolvers<FoundJob | null>();
    this.#waiting.set(id, lookup);
    if (!this.#isReading) void this.#read();
    return lookup.promise;
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.size > 0) {
      const lookups = [...this.#waiting].slice(0, MOST_TOGETHER);
      for (const [id] of lookups) this.#waiting.delete(id);
      try {
        const found = await findJobs(
          this.#db,
          lookups.map(([id]) => id),
        );
        for (const [id, { resolve }] of lookups) resolve(found.find((job) => job.id === id) ?? null);
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
