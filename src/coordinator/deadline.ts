// Waits that end in time or with their turn, and the age of what was learnt. Each wait clears its timer as soon as it is over: a timer that runs on, as that of
// AbortSignal.timeout, keeps an idle hub awake, and a Durable Object dies at 10,000 timers.

/** What `within` gives when the time is up. */
export const LATE = Symbol("late");

/** Waits for `call` for at most `ms`; returns its value, or `LATE`. @throws what `call` throws in time */
export async function within<T>(ms: number, call: PromiseLike<T>): Promise<T | typeof LATE> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<typeof LATE>((resolve) => {
    timer = setTimeout(() => resolve(LATE), ms);
  });
  try {
    return await Promise.race([call, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** More than a turn needs: from a worker's frame to the answer of a request that waits for it, or from a request to the changes that it makes. */
const MICROTASKS = 32;
const DONE = Promise.resolve();

/**
 * Resolves when everything that this turn of the event loop has begun is done: that takes a few microtasks. A timer of 0 ms would take 45 µs, because workerd
 * polls the system 16 times for it.
 */
export async function endOfTurn(): Promise<void> {
  for (let n = 0; n < MICROTASKS; n++) await DONE;
}

/** True if `now` is less than `ms` after `then`. False before `then` too: the clock was set back. */
export function isWithin(now: number, then: number, ms: number): boolean {
  return now >= then && now < then + ms;
}

/** Runs `task` with a signal that is aborted after `ms`. */
export async function withSignal<T>(ms: number, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ms);
  try {
    return await task(late.signal);
  } finally {
    clearTimeout(timer);
  }
}
