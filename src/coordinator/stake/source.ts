import type { Tier } from "../../protocol/worker-messages.ts";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { errorFacts, logError, type LogFacts } from "../log.ts";

/** What a source says of one key. `reason` is a code, never anything that the other side wrote. */
export type TierResult = { ok: true; tier: Tier } | { ok: false; reason: string };

/** Where the stakes of workers are read [ST1]. */
export interface StakeSource {
  /** Keys that one `read` takes at most. */
  readonly keysPerRead: number;
  /**
   * Reads the tiers of these keys (64 lowercase hex) as they are now, in their order. Takes a few seconds at most.
   * @throws {RpcFailure | StoreUnavailable} when nothing could be read
   */
  read(keys: readonly string[]): Promise<TierResult[]>;
}

/** What became of a question: the source's reading, or null when the source as a whole gave no answer. */
export type Answered = TierResult | null;

type Question = { answer: (answered: Answered) => void; promise: Promise<Answered>; askedAt: number };

/**
 * Reads tiers in as few calls as the source allows, and a few calls at once: whoever asks while all are under way waits for the next, together with
 * the others. What could not be read is logged, one line a call. Never rejects.
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

  /** Keys that can be under way at once. */
  get width(): number {
    return this.#source.keysPerRead * LIMITS.stakeReads;
  }

  /** The tier of a key as it is after this call. */
  read(key: string): Promise<Answered> {
    const known = this.#waiting.get(key);
    if (known !== undefined) return known.promise;
    const { promise, resolve } = Promise.withResolvers<Answered>();
    this.#waiting.set(key, { answer: resolve, promise, askedAt: this.#clock() });
    // At the end of the turn, so that who asks for many keys asks once.
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
    // Whoever waited for that long behind a source that hangs has had its time: a socket must not stay unregistered for want of a tier.
    const late = this.#clock() - TIMING.stakeWait;
    const [expired, timely] = [batch.filter(([, { askedAt }]) => askedAt <= late), batch.filter(([, { askedAt }]) => askedAt > late)];
    this.#failed(expired, { reason: "timeout" });
    for (const [, question] of expired) question.answer(null);
    if (timely.length === 0) return;
    this.#reads++;
    try {
      const readings = await this.#source.read(timely.map(([key]) => key));
      const unread = timely.filter((_, at) => readings[at]?.ok !== true);
      const first = readings.find((reading) => !reading.ok);
      this.#failed(unread, { reason: first?.reason ?? "nonsense" });
      for (const [at, [, question]] of timely.entries()) question.answer(readings[at] ?? { ok: false, reason: "nonsense" });
    } catch (error) {
      this.#failed(timely, errorFacts(error));
      for (const [, question] of timely) question.answer(null);
    } finally {
      this.#reads--;
      this.#next();
    }
  }

  #failed(unread: readonly [string, Question][], facts: LogFacts): void {
    const [first] = unread;
    if (first !== undefined) logError("stake_unreadable", { key: first[0].slice(0, 8), keys: unread.length, ...facts });
  }
}
