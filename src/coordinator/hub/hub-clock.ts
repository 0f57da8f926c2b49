import { TUNING } from "../../protocol/limits.ts";

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
