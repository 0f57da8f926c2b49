import { LIMITS } from "../../protocol/limits.ts";
import { OrderedPool } from "../dispatch/ordered-pool.ts";

/**
 * Requests that are held until their job has ended [API6]. They share one timer: an object dies at 10,000 of them.
 */
export class Waits {
  readonly #held = new Map<string, { jobId: string; release: () => void }>();
  readonly #byJob = new Map<string, Set<string>>();
  readonly #deadlines = new OrderedPool();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #next = 0;

  /** Resolves when the job has ended or `ms` have passed; at once when too many are held. */
  hold(jobId: string, ms: number, now: number): Promise<void> {
    if (this.#held.size >= LIMITS.waits) return Promise.resolve();
    const id = String(this.#next++);
    return new Promise((release) => {
      this.#held.set(id, { jobId, release });
      const ids = this.#byJob.get(jobId);
      if (ids === undefined) this.#byJob.set(jobId, new Set([id]));
      else ids.add(id);
      this.#deadlines.add(id, now + ms, this.#next);
      this.#arm();
    });
  }

  /** The job has ended: lets everyone go who waits for it. */
  ended(jobId: string): void {
    for (const id of this.#byJob.get(jobId) ?? []) this.#release(id);
  }

  #release(id: string): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    this.#held.delete(id);
    this.#deadlines.remove(id);
    const ids = this.#byJob.get(held.jobId);
    ids?.delete(id);
    if (ids?.size === 0) this.#byJob.delete(held.jobId);
    held.release();
    if (this.#held.size === 0 && this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
  }

  #arm(): void {
    const first = this.#deadlines.first();
    if (first === undefined) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#expire(), Math.max(0, first.order - Date.now()));
  }

  #expire(): void {
    this.#timer = null;
    const now = Date.now();
    for (let first = this.#deadlines.first(); first !== undefined && first.order <= now; first = this.#deadlines.first()) this.#release(first.id);
    this.#arm();
  }
}
