import { LIMITS } from "../../protocol/limits.ts";
import type { Deadlines } from "./deadlines.ts";

/** Requests that are held until their job has ended [API6]. */
export class Waits {
  readonly #deadlines: Deadlines;
  readonly #byJob = new Map<string, Set<() => void>>();
  #held = 0;

  constructor(deadlines: Deadlines) {
    this.#deadlines = deadlines;
  }

  /** Resolves when the job has ended or `ms` have passed; at once when too many are held. */
  hold(jobId: string, ms: number, now: number): Promise<void> {
    if (this.#held >= LIMITS.waits) return Promise.resolve();
    this.#held++;
    return new Promise((resolve) => {
      const held = this.#byJob.get(jobId) ?? new Set();
      this.#byJob.set(jobId, held);
      const release = (): void => {
        takeBack();
        this.#held--;
        held.delete(release);
        if (held.size === 0) this.#byJob.delete(jobId);
        resolve();
      };
      const takeBack = this.#deadlines.add(now + ms, release);
      held.add(release);
    });
  }

  /** The job has ended: lets everyone go who waits for it. */
  ended(jobId: string): void {
    for (const release of this.#byJob.get(jobId) ?? []) release();
  }
}
