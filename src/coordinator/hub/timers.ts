import { errorFacts, logError } from "../log.ts";
import { OrderedPool } from "../dispatch/ordered-pool.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { TUNING } from "../tuning.ts";

/** Times at which held requests have to be looked at, on one timer for all: an object dies at 10,000 of them [API6]. Ms since the epoch. */
export class Deadlines {
  readonly #order = new OrderedPool();
  readonly #due = new Map<string, () => void>();
  #timer: { at: number; handle: ReturnType<typeof setTimeout> } | null = null;
  #next = 0;

  /** Has `due` called once at this time; the answer takes it back. */
  add(at: number, due: () => void): () => void {
    const seq = this.#next++;
    const id = String(seq);
    this.#due.set(id, due);
    this.#order.add(id, at, seq);
    this.#arm();
    return () => {
      this.#due.delete(id);
      this.#order.remove(id);
      // A timer that nobody needs keeps the object from sleeping.
      if (this.#due.size === 0) this.#disarm();
    };
  }

  /** Has everything looked at now: the clock was put back, and what was due soon could be hours away. */
  passAll(): void {
    const all = [...this.#due];
    this.#due.clear();
    for (const [id] of all) this.#order.remove(id);
    this.#disarm();
    for (const [, due] of all) look(due);
  }

  #arm(): void {
    const first = this.#order.first();
    if (first === undefined || (this.#timer !== null && this.#timer.at <= first.order)) return;
    this.#disarm();
    this.#timer = { at: first.order, handle: setTimeout(() => this.#expire(), Math.max(0, first.order - Date.now())) };
  }

  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer.handle);
    this.#timer = null;
  }

  #expire(): void {
    this.#timer = null;
    const now = Date.now();
    for (let first = this.#order.first(); first !== undefined && first.order <= now; first = this.#order.first()) {
      this.#order.remove(first.id);
      const due = this.#due.get(first.id);
      this.#due.delete(first.id);
      if (due !== undefined) look(due);
    }
    this.#arm();
  }
}

/** A fault in one must not keep the timer from the others. */
function look(due: () => void): void {
  try {
    due();
  } catch (error) {
    logError("deadline_failed", errorFacts(error));
  }
}

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

/** Milliseconds since the epoch. A small step back is stood still; a large one is followed, or nothing would be due for as long. */
export class HubClock {
  readonly #putBack: () => void;
  #latest = 0;

  /** `putBack` is called in a turn of its own after a large step back: what is remembered may have been set by the clock before. */
  constructor(putBack: () => void) {
    this.#putBack = putBack;
  }

  now(): number {
    const now = Date.now();
    if (this.#latest - now > TUNING.clockSlack) {
      this.#latest = now;
      setTimeout(this.#putBack);
    }
    this.#latest = Math.max(this.#latest, now);
    return this.#latest;
  }
}
