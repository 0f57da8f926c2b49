/** The part of a session that has to do with sharing. */
export interface Sharer {
  /** Tells it that another session has the runtime, or gave it back. */
  runtimeTaken(taken: boolean): void;
  /** Whether it has a job that waits for the runtime. */
  readonly waits: boolean;
}

/** Lets one session at a time use the machine's LLM, in turn: two answers at once would each take twice as long, and both be late. */
export class RuntimeShare {
  #sharers: readonly Sharer[] = [];
  #holder: Sharer | null = null;

  /** Those who share, before any of them starts. */
  among(sharers: readonly Sharer[]): void {
    this.#sharers = sharers;
  }

  /** It has begun an LLM job. */
  taken(by: Sharer): void {
    this.#holder = by;
    for (const other of this.#sharers) if (other !== by) other.runtimeTaken(true);
  }

  /** Its run has really ended. Whoever waits is asked first, beginning after the one that just had it. */
  freed(by: Sharer): void {
    if (this.#holder !== by) return;
    this.#holder = null;
    const at = this.#sharers.indexOf(by);
    const inTurn = [...this.#sharers.slice(at + 1), ...this.#sharers.slice(0, at + 1)];
    for (const sharer of [...inTurn.filter(({ waits }) => waits), ...inTurn]) if (this.#isFree()) sharer.runtimeTaken(false);
  }

  // A method, because the one who is told that it is free may take it at once.
  #isFree(): boolean {
    return this.#holder === null;
  }
}
