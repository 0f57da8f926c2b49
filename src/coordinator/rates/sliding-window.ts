// What came in the last minutes, as a sliding sum, and per client as a sliding window. On a job's way: a request is counted before it is read, and stored bytes
// at the job's end.
import { LIMITS } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/result.ts";
import { wideNetworkOf } from "./network.ts";

/** The answer of a rate: allowed, or too many, and in how many ms there is room again. */
type RateResult = Result<null, { retryAfter: number }>;

/** Number of slices of a period. More slices are more exact and need more memory. */
const SLICES = 10;

/**
 * The sum of amounts of the last `period` ms. Time is divided into slices, and the oldest slice counts in full, so an amount counts for up to a tenth of the
 * period too long.
 */
export class SlidingSum {
  readonly #width: number;
  /** The number of the newest slice, then the amounts of that slice and the ten before it, by slice number modulo eleven. */
  readonly counts: Float64Array;

  /** `kept` are the counts of a sum of this period that was stored. Counts of another size are damaged, and the sum starts again. */
  constructor(period: number, kept?: ArrayBuffer) {
    this.#width = period / SLICES;
    const isWhole = kept?.byteLength === (SLICES + 2) * Float64Array.BYTES_PER_ELEMENT;
    this.counts = isWhole ? new Float64Array(kept) : new Float64Array(SLICES + 2);
  }

  /** Adds an amount at `now` (ms). */
  add(amount: number, now: number): void {
    const at = slotOf(this.#advance(now));
    this.counts[at] = (this.counts[at] ?? 0) + amount;
  }

  /** Whether the sum is below `limit` at `now` (ms), and if not, in how many ms it will be. */
  below(limit: number, now: number): RateResult {
    const newest = this.#advance(now);
    let sum = 0;
    for (let i = 1; i < this.counts.length; i++) sum += this.counts[i] ?? 0;
    if (sum < limit) return { ok: true, value: null };
    // The oldest slices leave first. There is room when enough of them have left.
    let leaving = newest - SLICES;
    for (; leaving <= newest && sum >= limit; leaving++) sum -= this.counts[slotOf(leaving)] ?? 0;
    return { ok: false, reason: { retryAfter: (leaving + SLICES) * this.#width - now } };
  }

  /**
   * Clears the slices that have begun since, and returns the newest one. If the clock went back, counting goes on in the newest slice so far. If it went back
   * by more than a period, the sum starts again: otherwise nothing would leave it until the clock is there again.
   */
  #advance(now: number): number {
    const slice = Math.floor(now / this.#width);
    if ((this.counts[0] ?? 0) - slice > SLICES) this.counts.fill(0);
    const newest = this.counts[0] ?? 0;
    if (slice <= newest) return newest;
    for (let fresh = Math.max(newest + 1, slice - SLICES); fresh <= slice; fresh++) this.counts[slotOf(fresh)] = 0;
    this.counts[0] = slice;
    return slice;
  }
}

/** The index of the amount of a slice. */
function slotOf(slice: number): number {
  return 1 + (slice % (SLICES + 1));
}

/**
 * Counts per client what happened in the last `period` ms, and never allows more than the limit in any period of that length [LM2].
 * It keeps at most `mostKeys` sums; the one that was not used for the longest time is forgotten first.
 */
export class SlidingWindow {
  readonly #period: number;
  readonly #mostKeys: number;
  readonly #sums = new Map<string, SlidingSum>();

  constructor(period: number, mostKeys: number) {
    this.#period = period;
    this.#mostKeys = mostKeys;
  }

  /** The number of keys. */
  get size(): number {
    return this.#sums.size;
  }

  /**
   * Counts one more for a client of {@link networkOf} at `now` (ms), unless that would be more than `limit`, or more than its IPv6 /48 may have. A refused one
   * is not counted.
   */
  take(client: string, limit: number, now: number): RateResult {
    const result = this.look(client, limit, now);
    if (!result.ok) return result;
    const wide = wideNetworkOf(client);
    this.#sumOf(client).add(1, now);
    if (wide !== client) this.#sumOf(wide).add(1, now);
    return result;
  }

  /** Returns what {@link take} would return, and counts nothing. */
  look(client: string, limit: number, now: number): RateResult {
    const wide = wideNetworkOf(client);
    const own = this.#lookUp(client).below(limit, now);
    return own.ok && wide !== client ? this.#lookUp(wide).below(limit * LIMITS.clientsPerNetwork, now) : own;
  }

  /** The sum of a key. A new one is not kept: otherwise requests that are refused, from ever new clients of a /48, would push out the sums of others. */
  #lookUp(key: string): SlidingSum {
    const known = this.#sums.get(key);
    if (known === undefined) return new SlidingSum(this.#period);
    // Moved to the end: a map remembers the order of insertion.
    this.#sums.delete(key);
    this.#sums.set(key, known);
    return known;
  }

  /** The sum of a key, which is kept from now on. */
  #sumOf(key: string): SlidingSum {
    const known = this.#sums.get(key);
    if (known !== undefined) return known;
    if (this.#sums.size >= this.#mostKeys) {
      const [oldest] = this.#sums.keys();
      if (oldest !== undefined) this.#sums.delete(oldest);
    }
    const sum = new SlidingSum(this.#period);
    this.#sums.set(key, sum);
    return sum;
  }
}
