// The token bucket: a rate in the long run, and a burst. It tells a sender that is over its rate for a moment from one that floods. On a job's way: each frame
// of a worker takes a token.
import { TIMING } from "../../protocol/times.ts";

/** What happens to a frame: it is read, or it is one too many (the `nth` of this flood), or the socket has flooded for too long. */
export type TakeResult = { kind: "pass" } | { kind: "excess"; nth: number } | { kind: "flood" };

/** `burst` passes at once, and `perSecond` in the long run. */
export type Rate = { perSecond: number; burst: number };

/**
 * Limits the frames or the bytes of a sender to a {@link Rate} [LM2]. A sender floods if it sends too much for {@link TIMING.flood} without a pause of
 * {@link TIMING.floodOver} in which it kept the rate. Times in ms.
 */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  #tokens: number;
  #filledAt: number;
  #floodSince: number;
  #refusedAt = Number.NEGATIVE_INFINITY;
  #refused = 0;

  /** Makes a full bucket. */
  constructor({ perSecond, burst }: Rate, now: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#tokens = burst;
    this.#filledAt = now;
    this.#floodSince = now;
  }

  /**
   * Takes a frame that counts `amount` at `now`, and says what happens to it. A frame over the rate still passes, and does not count as part of a
   * flood, if `isExempt` returns true.
   */
  take(now: number, amount = 1, isExempt: () => boolean = () => false): TakeResult {
    if (this.#filledAt - now > (this.#burst / this.#perSecond) * 1_000) this.#restart(now);
    const at = Math.max(now, this.#filledAt);
    this.#tokens = Math.min(this.#burst, this.#tokens + ((at - this.#filledAt) * this.#perSecond) / 1_000);
    this.#filledAt = at;
    if (this.#tokens >= amount || isExempt()) {
      this.#tokens = Math.max(0, this.#tokens - amount);
      return { kind: "pass" };
    }
    if (at - this.#refusedAt > TIMING.floodOver) {
      this.#floodSince = at;
      this.#refused = 0;
    }
    this.#refusedAt = at;
    this.#refused++;
    return at - this.#floodSince >= TIMING.flood ? { kind: "flood" } : { kind: "excess", nth: this.#refused };
  }

  /** The clock was set back by more than the time in which an empty bucket fills. Nothing would come into it until the clock is there again. */
  #restart(now: number): void {
    this.#tokens = this.#burst;
    this.#filledAt = now;
    this.#floodSince = now;
    this.#refusedAt = Number.NEGATIVE_INFINITY;
    this.#refused = 0;
  }
}
