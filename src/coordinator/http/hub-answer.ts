// An answer of the hub that the requests of one isolate share, so that a flood of them costs the hub a few calls a second.
import type { Env } from "../config.ts";
import type { Hub } from "../hub/rpc.ts";
import { TUNING } from "../tuning.ts";
import { askHub, HubUnavailable } from "./hub-client.ts";

/** What is known of one instance: since when questions are counted, how many there were, and the last answer with the time of its question. */
type Known<T> = { since: number; asks: number; last: { value: T; at: number } | null };

/** The parts that tests replace. */
type Means = { clock: () => number; wait: (ms: number) => Promise<unknown> };

/**
 * One question to the hub, for each instance that this isolate serves. Of the requests that come at once the first ones ask, up to `most` a second, and the
 * others use what these get. Requests cannot share a promise, because each may wait only for what it has begun itself. So the others look again after short
 * pauses. If the hub is slow, they take an older answer.
 */
export class HubAnswer<T> {
  readonly #most: number;
  readonly #ask: (hub: Hub) => Promise<T>;
  readonly #means: Means;
  readonly #known = new WeakMap<Env, Known<T>>();

  constructor(most: number, ask: (hub: Hub) => Promise<T>, means: Means = { clock: () => Date.now(), wait: (ms) => scheduler.wait(ms) }) {
    this.#most = most;
    this.#ask = ask;
    this.#means = means;
  }

  /** The answer, at most a second old unless the hub is slow. @throws {HubUnavailable} if the hub does not answer the others either */
  async of(env: Env): Promise<T> {
    const { clock, wait } = this.#means;
    const known = this.#known.get(env) ?? { since: Number.NEGATIVE_INFINITY, asks: 0, last: null };
    this.#known.set(env, known);
    let waited = 0;
    for (let pause = 10; !this.#mayAsk(known); pause = Math.min(2 * pause, TUNING.hubAnswerPatience)) {
      const fresh = waited < TUNING.hubAnswerPatience ? TUNING.hubAnswerFresh : TUNING.hubAnswerOld;
      if (known.last !== null && isWithin(clock(), known.last.at, fresh)) return known.last.value;
      if (waited >= TUNING.hubAnswerOld) throw new HubUnavailable("overloaded", new Error("the hub has not answered other requests"));
      await wait(pause);
      waited += pause;
    }
    known.asks++;
    const at = clock();
    try {
      const value = await askHub(env, this.#ask);
      known.last = { value, at };
      return value;
    } catch (error) {
      // A question without an answer does not count: the next request asks again.
      known.asks = Math.max(0, known.asks - 1);
      throw error;
    }
  }

  #mayAsk(known: Known<T>): boolean {
    const now = this.#means.clock();
    if (!isWithin(now, known.since, TUNING.hubAnswerFresh)) Object.assign(known, { since: now, asks: 0 });
    return known.asks < this.#most;
  }
}

/** True if `now` is less than `ms` after `then`. False before `then` too: the clock was set back. */
function isWithin(now: number, then: number, ms: number): boolean {
  return now >= then && now < then + ms;
}
