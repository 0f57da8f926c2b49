const TICK_MS = 5_000;
/** Less late than this is a busy machine, not a sleeping one. */
const LATE_MS = 15_000;

/**
 * Tells when this thread stood still: the device slept, or the browser froze the page. No event says so in every browser, and the clock of
 * timers may stand still too, so the wall clock is looked at.
 */
export function watchSleep(onWake: (from: number, to: number) => void): void {
  let last = Date.now();
  setInterval(() => {
    const now = Date.now();
    if (now - last > TICK_MS + LATE_MS) onWake(last, now);
    last = now;
  }, TICK_MS);
}
