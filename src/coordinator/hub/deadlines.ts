import { errorFacts, logError } from "../log.ts";
import { OrderedPool } from "../dispatch/ordered-pool.ts";

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
