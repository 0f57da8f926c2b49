// Counts for rate limits: a sliding sum or window per client, a frame budget per socket and per client, and the name that an address is counted under. On a
// job's way: before commit.
import { LIMITS } from "../protocol/limits.ts";
import type { Result } from "../protocol/result.ts";
import { TIMING } from "../protocol/times.ts";

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

  /** The answer of {@link take}, and counts nothing. */
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

/** What happens to a frame: it is read, or it is one too many (the `nth` of this flood), or the socket has flooded for too long. */
export type TakeResult = { kind: "pass" } | { kind: "excess"; nth: number } | { kind: "flood" };

/** What passes at once, and per second in the long run. */
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

  /** Takes a frame as {@link TokenBucket.take} does, and says which of them are too many. */
  take(now: number, bytes: number, isExempt: () => boolean): TakeResult & { of: Counted } {
    const counted = this.#messages.take(now, 1, isExempt);
    return counted.kind === "pass" ? { ...this.#bytes.take(now, bytes, isExempt), of: "bytes" } : { ...counted, of: "messages" };
  }

  /** Takes a frame that {@link take} let pass and that is an update. */
  takeUpdate(now: number): TakeResult & { of: Counted } {
    return { ...this.#updates.take(now), of: "updates" };
  }
}

const IPV4 = /^(\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?$/;
const LONGEST = 64;

/**
 * The name that an address is counted under: an IPv4 address itself, and of an IPv6 address its /64, because one client usually has a whole /64 [LM2].
 * A port, brackets and a zone are left out. Text that is not an address stays as it is, cut at 64 characters.
 */
export function networkOf(address: string): string {
  const text = address.trim();
  const v4 = IPV4.exec(text)?.[1];
  if (v4 !== undefined) return v4;
  const bare = (/^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? text).replace(/%.*$/, "");
  return v6Network(bare) ?? text.slice(0, LONGEST);
}

/**
 * The network that a client of {@link networkOf} belongs to: an IPv4 address itself, and of an IPv6 /64 its /48. A household or a rented server has a /64, and
 * a customer of a provider often has a whole /48 [JB11].
 */
export function wideNetworkOf(client: string): string {
  return client.replace(/^([^:]*:[^:]*:[^:]*):[^:]*::\/64$/, "$1::/48");
}

/** The block of addresses that a client of {@link networkOf} belongs to: of an IPv4 address the /24, of an IPv6 /64 its /48 [TR3]. */
export function blockOf(client: string): string {
  return IPV4.test(client) ? client.replace(/[^.]*$/, "0/24") : wideNetworkOf(client);
}

/** The name of all clients whose address the coordinator does not know: it runs in an emulation, and the operator has named no header for it. */
export const UNKNOWN_CLIENT = "local";

/** Whose share a client uses [LM1]: its network's; null if its address is not known, or if clients are not limited. */
export function shareOwner(client: string, rateLimits: boolean): string | null {
  return !rateLimits || client === "" || client === UNKNOWN_CLIENT ? null : wideNetworkOf(client);
}

/** The first four of the eight groups, without leading zeros; of a mapped IPv4 address that address (RFC 4291, 2.5.5.2); null if it is not an IPv6 address. */
function v6Network(text: string): string | null {
  const halves = text.toLowerCase().split("::");
  if (halves.length > 2 || !text.includes(":")) return null;
  const [head = [], tail = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const groups =
    halves.length === 2
      ? [...head, ...Array.from({ length: Math.max(0, (tail.at(-1)?.includes(".") === true ? 7 : 8) - head.length - tail.length) }, () => "0"), ...tail]
      : head;
  const written = groups.every((group, at) => /^[0-9a-f]{1,4}$/.test(group) || (at === groups.length - 1 && IPV4.test(group)));
  // An IPv4 address in the last place stands for two groups.
  if (!written || (groups.length !== 8 && !groups.at(-1)?.includes("."))) return null;
  if (/^(0+,){5}ffff,/.test(String(groups))) return dotted(groups.slice(6));
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}

/** The last groups of a mapped address as an IPv4 address: one that is written so already, or two groups of hex digits. */
function dotted([high = "", low]: readonly string[]): string {
  if (low === undefined) return high;
  const bytes = [high, low].map((group) => Number.parseInt(group, 16));
  return bytes.flatMap((pair) => [pair >> 8, pair & 0xff]).join(".");
}
