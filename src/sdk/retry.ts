// Time limits, pauses and retries. `within` is the one timeout of the SDK. On a job's way: every request of the client runs within a `Limit`.
import { RateLimitedError, RetryAfterError, RouterConnectionError, UnavailableError } from "./errors.ts";

/** How often and how fast a request is retried. */
export type RetryRule = {
  /** Retries after the first try. */
  retries: number;
  /** The first pause in milliseconds. Each next one is twice as long, up to 16 times the first (0.5 s … 8 s). */
  delay: number;
  /** True if the caller handles a 429, because it knows better how long to wait; default false. */
  leaves429?: boolean;
  /** True if the time of the limit must not run while a 429 is waited out, once, or at every retry if the limit has no end; default false. */
  waitsOut429?: boolean;
  /** Called before the pause after a 429, with its milliseconds. */
  onRateLimit?: (pause: number) => void;
};

/** A single try. */
export const NO_RETRY: RetryRule = { retries: 0, delay: 0 };

/** The longest pause in milliseconds. If the router asks for more, there is no retry, and the caller gets the error with `retryAfter`. */
const LONGEST_PAUSE = 60_000;

/** The longest 429 that is waited out, in milliseconds: a rate per minute, with what the router adds so that clients do not all return at once. */
const LONGEST_429 = 75_000;

/** True if the same request may succeed a moment later: after no answer, 429, 502, 503 or 504. */
function isTransient(error: unknown): error is RouterConnectionError | RateLimitedError | UnavailableError {
  if (error instanceof UnavailableError) return error.status === 502 || error.status === 503 || error.status === 504;
  return error instanceof RouterConnectionError || error instanceof RateLimitedError;
}

/** True for a transient failure and for any 5xx. What the router has accepted before, a job or a pairing code, is still there after it. */
export function isOutage(error: unknown): error is RouterConnectionError | RateLimitedError | UnavailableError {
  return isTransient(error) || error instanceof UnavailableError;
}

/** How long the router asked the client to wait, in milliseconds; 0 if it did not ask. */
export function askedPause(error: unknown): number {
  return error instanceof RetryAfterError ? (error.retryAfter ?? 0) : 0;
}

/** Retries `attempt` after transient failures. If a pause would end after the limit, it throws the failure at once, because that tells more than a timeout. */
export async function retrying<T>(rule: RetryRule, limit: Limit, attempt: () => Promise<T>): Promise<T> {
  for (let repeated = 0; ; repeated++) {
    try {
      return await attempt();
    } catch (error) {
      limit.signal.throwIfAborted();
      if (repeated >= rule.retries || !isTransient(error)) throw error;
      if (rule.leaves429 === true && error instanceof RateLimitedError) throw error;
      const pause = Math.max(askedPause(error), backoff(rule.delay, repeated));
      const isWaitedOut = rule.waitsOut429 === true && error instanceof RateLimitedError && pause <= LONGEST_429 && makeTime(limit, pause);
      if ((pause > LONGEST_PAUSE && !isWaitedOut) || performance.now() + pause >= limit.endsAt) throw error;
      if (error instanceof RateLimitedError) rule.onRateLimit?.(pause);
      await sleep(pause, limit);
    }
  }
}

/** Moves the end of a limit by some milliseconds, so that a wait does not count; false if it was moved before. A limit without an end always has the time. */
function makeTime(limit: Limit, ms: number): boolean {
  return limit.endsAt === Number.POSITIVE_INFINITY || limit.extendOnce?.(ms) === true;
}

/** The pause before retry number `repeated` (from 0). A random part of up to a quarter is subtracted, so that clients do not all return at once. */
export function backoff(delay: number, repeated: number): number {
  return delay * 2 ** Math.min(repeated, 4) * (1 - Math.random() / 4);
}

/** Parses a `Retry-After` header, seconds or an HTTP date, to milliseconds from now; null for anything else. */
export function readRetryAfter(header: string | null, now: number): number | null {
  if (header === null) return null;
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1_000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

/** How long some work may continue. */
export type Limit = {
  /** Aborts at the end of the limit, or earlier if the caller aborts. */
  signal: AbortSignal;
  /** The end on the clock of `performance.now()`, in milliseconds. */
  endsAt: number;
  /** Moves the end by some milliseconds and returns true, the first time that it is called. */
  extendOnce?: (ms: number) => boolean;
};

/** The longest delay of a timer, in milliseconds. A timer with a longer delay fires at once. */
export const MAX_DELAY = 2 ** 31 - 1;

/** A limit without a time; it has only the caller's signal. */
export function untilAborted(signal?: AbortSignal): Limit {
  return { signal: signal ?? new AbortController().signal, endsAt: Number.POSITIVE_INFINITY };
}

/**
 * Starts a limit of `ms` within `outer`.
 *
 * @returns the limit; `ended`, which rejects when either limit ends, with the outer signal's reason or `expired()`; and `release`, which stops the timer
 */
export function openLimit(ms: number, outer: Limit, expired: () => Error): { limit: Limit; ended: Promise<never>; release: () => void } {
  outer.signal.throwIfAborted();
  const inner = new AbortController();
  const limit: Limit = { signal: inner.signal, endsAt: Math.min(outer.endsAt, performance.now() + ms), extendOnce: (more) => extend(more) };
  let release = (): void => {};
  let extend: (more: number) => boolean = () => false;
  const ended = new Promise<never>((_, reject) => {
    const end = (reason: unknown): void => {
      // Reject first: the abort makes the work reject too, with whatever error its fetch uses.
      reject(reason);
      inner.abort(reason);
    };
    const onAbort = (): void => end(outer.signal.reason);
    const expire = (): void => end(expired());
    let timer = setTimeout(expire, Math.min(ms, MAX_DELAY));
    extend = (more) => {
      extend = () => false;
      limit.endsAt = Math.min(outer.endsAt, limit.endsAt + more);
      clearTimeout(timer);
      timer = setTimeout(expire, Math.min(Math.max(0, limit.endsAt - performance.now()), MAX_DELAY));
      return true;
    };
    outer.signal.addEventListener("abort", onAbort, { once: true });
    release = () => {
      clearTimeout(timer);
      outer.signal.removeEventListener("abort", onAbort);
    };
  });
  // A caller that does not await `ended` finds the same reason in the signal, so this rejection counts as handled.
  ended.catch(() => {});
  return { limit, ended, release };
}

/**
 * Runs `work` for at most `ms` within `outer`. When either limit ends, the promise rejects with the outer signal's reason or with `expired()`, and the signal
 * of `work` aborts with the same reason. It does not use AbortSignal.any and AbortSignal.timeout: the first is missing in Node 20.0–20.2, and neither releases
 * its timer or its parent when the work is done.
 */
export async function within<T>(ms: number, outer: Limit, expired: () => Error, work: (limit: Limit) => Promise<T>): Promise<T> {
  const { limit, ended, release } = openLimit(ms, outer, expired);
  try {
    return await Promise.race([work(limit), ended]);
  } finally {
    release();
  }
}

/** Waits for work that knows no signal. Rejects with the signal's reason if it aborts first. */
export async function untilDone<T>(work: T | Promise<T>, { signal }: Limit): Promise<T> {
  // The work goes on after an abort. That it fails then must not end the process as an unhandled rejection; in time, the race below reports it.
  Promise.resolve(work).catch(() => {});
  signal.throwIfAborted();
  let release = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = (): void => {
      const reason: unknown = signal.reason;
      reject(reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    release = () => signal.removeEventListener("abort", onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    release();
  }
}

/** Waits `ms`. Rejects with the signal's reason if it aborts first. */
export async function sleep(ms: number, limit: Limit): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<void>((resolve) => (timer = setTimeout(resolve, Math.min(ms, MAX_DELAY))));
  await untilDone(over, limit).finally(() => clearTimeout(timer));
}
