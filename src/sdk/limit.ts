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
