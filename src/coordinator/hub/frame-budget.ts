import { type Rate, type TakeResult, TokenBucket } from "../rates/token-bucket.ts";

/** What a {@link FrameBudget} counts: frames, their bytes, and updates, the `register` frames of a socket that is registered. */
export type Counted = "messages" | "bytes" | "updates";

/**
 * What one sender may send, in frames, in bytes and in updates [LM2]. A sender is one socket, or all sockets of one client together: a frame is read if its
 * socket and its client may send it.
 */
export class FrameBudget {
  readonly rates: Readonly<Record<Counted, Rate>>;
  readonly #messages: TokenBucket;
  readonly #bytes: TokenBucket;
  readonly #updates: TokenBucket;

  /** Makes a full budget. */
  constructor(rates: Readonly<Record<Counted, Rate>>, now: number) {
    this.rates = rates;
    this.#messages = new TokenBucket(rates.messages, now);
    this.#bytes = new TokenBucket(rates.bytes, now);
    this.#updates = new TokenBucket(rates.updates, now);
  }

  /** Takes a frame as {@link TokenBucket.take} does. If it is over the rate, `of` says by which count. */
  take(now: number, bytes: number, isExempt: () => boolean): TakeResult & { of: Counted } {
    const counted = this.#messages.take(now, 1, isExempt);
    return counted.kind === "pass" ? { ...this.#bytes.take(now, bytes, isExempt), of: "bytes" } : { ...counted, of: "messages" };
  }

  /** Takes a frame that {@link take} let pass and that is an update. */
  takeUpdate(now: number): TakeResult & { of: Counted } {
    return { ...this.#updates.take(now), of: "updates" };
  }
}
