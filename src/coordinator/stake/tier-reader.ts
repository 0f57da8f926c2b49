// Reads the tiers of many keys in few calls to a stake source.
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { errorFacts, logError, type LogFacts } from "../log.ts";
import type { StakeSource, TierResult } from "./sources.ts";

/** The answer to a {@link TierReader.read}: the result for this key, or null if the source gave no answer at all. */
export type TierAnswer = TierResult | null;

type Question = { answer: (answer: TierAnswer) => void; promise: Promise<TierAnswer>; askedAt: number };

/**
 * Reads tiers in as few calls as the source allows. Only a few calls run at once; keys that are asked for meanwhile wait and share the next call.
 * A failed read is logged, one line per call. `read` never rejects.
 */
export class TierReader {
  readonly #source: StakeSource;
  readonly #clock: () => number;
  readonly #waiting = new Map<string, Question>();
  #reads = 0;

  constructor(source: StakeSource, clock: () => number) {
    this.#source = source;
    this.#clock = clock;
  }

  /** The number of keys that can be read at once. */
  get width(): number {
    return this.#source.keysPerRead * LIMITS.stakeReads;
  }

  /** Reads the tier of a key. The source is asked after this call, so the answer is not older than it. */
  read(key: string): Promise<TierAnswer> {
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined) return waiting.promise;
    const { promise, resolve } = Promise.withResolvers<TierAnswer>();
    this.#waiting.set(key, { answer: resolve, promise, askedAt: this.#clock() });
    // At the end of the turn, so that all keys of one turn share one call.
    queueMicrotask(() => this.#next());
    return promise;
  }

  #next(): void {
    while (this.#reads < LIMITS.stakeReads && this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, this.#source.keysPerRead);
      for (const [key] of batch) this.#waiting.delete(key);
      void this.#read(batch);
    }
  }

  async #read(batch: readonly [string, Question][]): Promise<void> {
    // A key that waited this long behind a hanging source is given up: a socket must not stay unregistered because its tier is missing.
    const late = this.#clock() - TIMING.stakeWait;
    const [expired, timely] = [batch.filter(([, { askedAt }]) => askedAt <= late), batch.filter(([, { askedAt }]) => askedAt > late)];
    this.#logUnread(expired, { reason: "timeout" });
    for (const [, question] of expired) question.answer(null);
    if (timely.length === 0) return;
    this.#reads++;
    try {
      const results = await this.#source.read(timely.map(([key]) => key));
      const unread = timely.filter((_, at) => results[at]?.ok !== true);
      const first = results.find((result) => !result.ok);
      this.#logUnread(unread, { reason: first?.reason ?? "invalid_response" });
      for (const [at, [, question]] of timely.entries()) question.answer(results[at] ?? { ok: false, reason: "invalid_response" });
    } catch (error) {
      this.#logUnread(timely, errorFacts(error));
      for (const [, question] of timely) question.answer(null);
    } finally {
      this.#reads--;
      this.#next();
    }
  }

  #logUnread(unread: readonly [string, Question][], facts: LogFacts): void {
    const [first] = unread;
    if (first !== undefined) logError("stake_unreadable", { key: first[0].slice(0, 8), keys: unread.length, ...facts });
  }
}
