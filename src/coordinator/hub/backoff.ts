import { TUNING } from "../../protocol/limits.ts";

/** When D1 may be asked again about one kind of row: after each refusal in a row twice as late, up to a longest pause. Times in ms. */
export class Backoff {
  #failures = 0;
  #notBefore = 0;

  /** When it may be asked, never further away than the longest pause: a clock that is put back must not make it so. */
  until(now: number): number {
    return (this.#notBefore = Math.min(this.#notBefore, now + TUNING.outboxBackoffMax));
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /** It refused; how often in a row that was. */
  failed(now: number): number {
    this.#failures++;
    this.#notBefore = now + Math.min(TUNING.outboxBackoffMax, TUNING.outboxBackoff * 2 ** Math.min(this.#failures - 1, 10));
    return this.#failures;
  }
}
