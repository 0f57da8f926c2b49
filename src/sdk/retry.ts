// Time limits, pauses and repetitions of requests.
import { RateLimitedError, RouterConnectionError, UnavailableError } from "./errors.ts";

/** How often and how fast a request is repeated. */
export type RetryRule = {
  /** Repetitions after the first try. */
  retries: number;
  /** The first pause in milliseconds; each next one is twice as long, up to 16 times the first (0.5 s … 8 s). */
  delay: number;
  /** Whether a 429 is left to the caller, who knows better how long to wait; default false. */
  leaves429?: boolean;
};

/** One try. */
export const NO_RETRY: RetryRule = { retries: 0, delay: 0 };

/** A router that asks for a longer pause than this, in milliseconds, gets no retry: the caller hears `retryAfter` instead. */
const LONGEST_PAUSE = 60_000;

/** Whether the same request may succeed in a moment: no answer, 429, 502, 503, 504. */
export function isTransient(error: unknown): error is RouterConnectionError | RateLimitedError | UnavailableError {
  if (error instanceof UnavailableError) return error.status === 502 || error.status === 503 || error.status === 504;
  return error instanceof RouterConnectionError || error instanceof RateLimitedError;
}

/** What the router asked to wait after this error, in milliseconds; 0 when it did not say. */
export function askedPause(error: unknown): number {
  return error instanceof RateLimitedError || error instanceof UnavailableError ? (error.retryAfter ?? 0) : 0;
}

/**
 * Repeats `attempt` on transient failures. A pause that would outlast the limit is not begun: the failure itself says more than a timeout.
 */
export async function retrying<T>(rule: RetryRule, limit: Limit, attempt: () => Promise<T>): Promise<T> {
  for (let repeated = 0; ; repeated++) {
    try {
      return await attempt();
    } catch (error) {
      limit.signal.throwIfAborted();
      if (repeated >= rule.retries || !isTransient(error)) throw error;
      if (rule.leaves429 === true && error instanceof RateLimitedError) throw error;
      const pause = Math.max(askedPause(error), backoff(rule.delay, repeated));
      if (pause > LONGEST_PAUSE || performance.now() + pause >= limit.endsAt) throw error;
      await sleep(pause, limit);
    }
  }
}

/** The pause before repetition `repeated` (from 0), up to a quarter shorter by chance so that clients do not come back all at once. */
export function backoff(delay: number, repeated: number): number {
  return delay * 2 ** Math.min(repeated, 4) * (1 - Math.random() / 4);
}

/** Reads a `Retry-After` header, seconds or an HTTP date, as milliseconds from now; null for anything else. */
export function readRetryAfter(header: string | null, now: number): number | null {
  if (header === null) return null;
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1_000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

/** How long some work may go on: until `signal` aborts, which its time limit does too. */
export type Limit = {
  signal: AbortSignal;
  /** On the clock of `performance.now()`, milliseconds. */
  endsAt: number;
};

/** The longest delay a timer takes, in milliseconds; a longer one fires at once. */
export const MAX_DELAY = 2 ** 31 - 1;

/** A limit without a time: the caller's signal only. */
export function untilAborted(signal?: AbortSignal): Limit {
  return { signal: signal ?? new AbortController().signal, endsAt: Number.POSITIVE_INFINITY };
}

/** Starts a limit of `ms` within `outer`; `ended` rejects when either ends, with the outer signal's reason or `expired()`. */
export function openLimit(ms: number, outer: Limit, expired: () => Error): { limit: Limit; ended: Promise<never>; release: () => void } {
  outer.signal.throwIfAborted();
  const inner = new AbortController();
  let release = (): void => {};
  const ended = new Promise<never>((_, reject) => {
    const end = (reason: unknown): void => {
      // First reject: an abort makes the work reject too, in whatever form its fetch likes.
      reject(reason);
      inner.abort(reason);
    };
    const onAbort = (): void => end(outer.signal.reason);
    const timer = setTimeout(() => end(expired()), ms);
    outer.signal.addEventListener("abort", onAbort, { once: true });
    release = () => {
      clearTimeout(timer);
      outer.signal.removeEventListener("abort", onAbort);
    };
  });
  // Whoever has nothing to race with it finds the same reason in the signal.
  ended.catch(() => {});
  return { limit: { signal: inner.signal, endsAt: Math.min(outer.endsAt, performance.now() + ms) }, ended, release };
}

/**
 * Runs `work` for at most `ms` within `outer`. When either ends, `work` is left behind and the promise rejects with the outer signal's reason
 * or with `expired()`; `work` finds the same reason in its signal. AbortSignal.any and .timeout are not used: the first is missing in
 * Node 20.0–20.2, and neither lets go of its timer or parent when the work is done.
 */
export async function within<T>(ms: number, outer: Limit, expired: () => Error, work: (limit: Limit) => Promise<T>): Promise<T> {
  const { limit, ended, release } = openLimit(ms, outer, expired);
  try {
    return await Promise.race([work(limit), ended]);
  } finally {
    release();
  }
}

/** Waits `ms`; rejects with the signal's reason when that comes first. */
export async function sleep(ms: number, { signal }: Limit): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      const reason: unknown = signal.reason;
      reject(reason);
    };
    const timer = setTimeout(
      () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      },
      Math.min(ms, MAX_DELAY),
    );
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
