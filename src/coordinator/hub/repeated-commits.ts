// Which jobs more than one request follows, because the same commit came again. On a job's way: an OpenAI client that leaves.
import type { DispatchState, LiveJob } from "../dispatch/index.ts";

/**
 * Counts the further requests of a job: those that came with its idempotency key or its payment and got the same 201 [API5]. If one of its requests breaks off,
 * the others still wait for its answer [API9]. Kept in memory, for as long as the job lives.
 */
export class RepeatedCommits {
  readonly #state: () => DispatchState;
  readonly #others = new WeakMap<LiveJob, number>();

  constructor(state: () => DispatchState) {
    this.#state = state;
  }

  /** Notes one more request. */
  add(jobId: string): void {
    const job = this.#state().jobs.get(jobId);
    if (job !== undefined) this.#others.set(job, (this.#others.get(job) ?? 0) + 1);
  }

  /** Notes that a request has left. True if another one is still there. */
  leave(jobId: string): boolean {
    const job = this.#state().jobs.get(jobId);
    const others = job === undefined ? 0 : (this.#others.get(job) ?? 0);
    if (job === undefined || others === 0) return false;
    this.#others.set(job, others - 1);
    return true;
  }
}
