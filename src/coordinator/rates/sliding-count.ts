/** What a rate says: go on, or come again in `retryAfter` ms. */
export type Pass = { ok: true } | { ok: false; retryAfter: number };

/** Slices of a period. More are more exact and take more memory. */
const SLICES = 10;

/**
 * Counts per key what happened in the last `period` ms: never more than the limit in any stretch of that length, wherever it begins.
 * Time is cut into slices and the oldest one counts in full, so room comes back up to a tenth of the period late.
 * Holds at most `mostKeys` keys of 12 numbers each; the one not asked about for longest is forgotten first.
 */
export class SlidingCount {
  readonly #width: number;
  readonly #mostKeys: number;
  /** Per key the number of its newest slice, then the counts of that slice and the ten before, by slice number modulo eleven. */
  readonly #counts = new Map<string, Float64Array>();

  constructor(period: number, mostKeys: number) {
    this.#width = period / SLICES;
    this.#mostKeys = mostKeys;
  }

  /** How many keys are counted now. */
  get size(): number {
    return this.#counts.size;
  }

  /** Counts one more for `key` at `now` (ms), unless that would be more than `limit`. What is refused is not counted. */
  take(key: string, limit: number, now: number): Pass {
    const counts = this.#countsOf(key);
    const slice = advance(counts, Math.floor(now / this.#width));
    let sum = 0;
    for (let i = 1; i < counts.length; i++) sum += counts[i] ?? 0;
    if (sum < limit) {
      counts[place(slice)] = (counts[place(slice)] ?? 0) + 1;
      return { ok: true };
    }
    // The slices leave oldest first; room is there when enough have.
    let leaving = slice - SLICES;
    for (; leaving <= slice && sum >= limit; leaving++) sum -= counts[place(leaving)] ?? 0;
    return { ok: false, retryAfter: (leaving + SLICES) * this.#width - now };
  }

  #countsOf(key: string): Float64Array {
    const known = this.#counts.get(key);
    const counts = known ?? new Float64Array(SLICES + 2);
    // Put back at the end: a map remembers the order of insertion.
    if (known !== undefined) this.#counts.delete(key);
    else if (this.#counts.size >= this.#mostKeys) {
      const [oldest] = this.#counts.keys();
      if (oldest !== undefined) this.#counts.delete(oldest);
    }
    this.#counts.set(key, counts);
    return counts;
  }
}

/** Where the count of a slice is kept. */
function place(slice: number): number {
  return 1 + (slice % (SLICES + 1));
}

/** Empties the slices that have come since; gives the newest. A clock that went back counts on in the newest slice there was. */
function advance(counts: Float64Array, slice: number): number {
  const newest = counts[0] ?? 0;
  if (slice <= newest) return newest;
  for (let fresh = Math.max(newest + 1, slice - SLICES); fresh <= slice; fresh++) counts[place(fresh)] = 0;
  counts[0] = slice;
  return slice;
}
