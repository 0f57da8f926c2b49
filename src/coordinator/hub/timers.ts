// The clock of the hub, and one shared timer for the requests that wait. On a job's way: poll with a wait, and streams.
import { LIMITS } from "../../protocol/limits.ts";
import { FairShare, OrderedPool } from "../dispatch/index.ts";
import { errorFacts, logError } from "../log.ts";
import { TUNING } from "../tuning.ts";

/** Calls functions at given times with one timer for all, because 10,000 timers kill an object [API6]. Times in ms since the epoch. */
export class Deadlines {
  readonly #order = new OrderedPool();
  readonly #due = new Map<string, () => void>();
  #timer: { at: number; handle: ReturnType<typeof setTimeout> } | null = null;
  #next = 0;

  /** Calls `due` once at this time. The function that it returns cancels the call. */
  add(at: number, due: () => void): () => void {
    const seq = this.#next++;
    const id = String(seq);
    this.#due.set(id, due);
    this.#order.add(id, at, seq);
    this.#arm();
    return () => {
      this.#due.delete(id);
      this.#order.remove(id);
      // A timer that is not needed keeps the object awake.
      if (this.#due.size === 0) this.#disarm();
    };
  }

  /** Waits for `call`, but not beyond this time; without `call`, until then. */
  async until(at: number, call: PromiseLike<unknown> = new Promise(() => {})): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = this.add(at, late.resolve);
    try {
      await Promise.race([call, late.promise]);
    } finally {
      cancel();
    }
  }

  /** Calls everything now: the clock was set back, and what was due soon could be hours away. */
  passAll(): void {
    const all = [...this.#due];
    this.#due.clear();
    for (const [id] of all) this.#order.remove(id);
    this.#disarm();
    for (const [, due] of all) call(due);
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
      if (due !== undefined) call(due);
    }
    this.#arm();
  }
}

/** Calls one function. A fault in it must not stop the others. */
function call(due: () => void): void {
  try {
    due();
  } catch (error) {
    logError("deadline_failed", errorFacts(error));
  }
}

/** The requests that wait until their job has ended [API6]. */
export class Waits {
  readonly #deadlines: Deadlines;
  readonly #byJob = new Map<string, Set<() => void>>();
  /** The requests of each client. */
  readonly #share = new FairShare({ most: LIMITS.waits, each: LIMITS.waitsPerClient });
  /** The commits among them, by job: each may keep its body in memory. */
  readonly #commits = new FairShare({ most: LIMITS.waits, each: LIMITS.waitersPerKey });

  constructor(deadlines: Deadlines) {
    this.#deadlines = deadlines;
  }

  /** Resolves when the job has ended or `ms` have passed; at once if too many requests wait, in all or of this owner [LM1]. */
  wait(jobId: string, ms: number, now: number, { owner, isCommit }: { owner: string | null; isCommit: boolean }): Promise<void> {
    if (!this.#share.hasRoom(owner) || (isCommit && !this.#commits.take(jobId))) return Promise.resolve();
    this.#share.add(owner);
    return new Promise((resolve) => {
      const releases = this.#byJob.get(jobId) ?? new Set();
      this.#byJob.set(jobId, releases);
      const release = (): void => {
        cancel();
        this.#share.give(owner);
        if (isCommit) this.#commits.give(jobId);
        if (releases.size === 1) this.#byJob.delete(jobId);
        else releases.delete(release);
        resolve();
      };
      const cancel = this.#deadlines.add(now + ms, release);
      releases.add(release);
    });
  }

  /** Resolves all waits: their process is about to end, and an answer now is better than none. */
  endAll(): void {
    for (const jobId of [...this.#byJob.keys()]) this.ended(jobId);
  }

  /** Resolves all waits for a job that has ended. */
  ended(jobId: string): void {
    for (const release of this.#byJob.get(jobId) ?? []) release();
  }
}

/**
 * The time in ms since the epoch. After a small step back of the system clock it stands still; a large step it follows, because otherwise nothing would be
 * due for that long.
 */
export class HubClock {
  readonly #setBack: () => void;
  #latest = 0;

  /**
   * `setBack` is called at a large step back, in the middle of something: remembered times may have been set by the clock before. What it does with them needs
   * a turn of its own, but no timer: a runtime may fire none until the clock has caught up.
   */
  constructor(setBack: () => void) {
    this.#setBack = setBack;
  }

  now(): number {
    const now = Date.now();
    if (this.#latest - now > TUNING.clockSlack) {
      this.#latest = now;
      this.#setBack();
    }
    this.#latest = Math.max(this.#latest, now);
    return this.#latest;
  }
}
