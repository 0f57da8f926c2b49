import { setTimeout as delay } from "node:timers/promises";

/** Between two looks, which often are requests: short at first, then longer, because to look costs CPU that what is waited for needs. */
const POLL_MS = { first: 10, most: 80, growth: 1.3 };
const TIMEOUT_MS = 45_000;

/** Resolves to the first defined value of `look`. @throws after 45 s, unless told otherwise, with what `explain` says */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  explain: () => string = () => "",
  timeoutMs: number = TIMEOUT_MS,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (let pause = POLL_MS.first; ; pause = Math.min(pause * POLL_MS.growth, POLL_MS.most)) {
    const value = await look();
    if (value !== undefined) return value;
    if (Date.now() > deadline) throw new Error(`no ${what} after ${timeoutMs / 1000} s\n${explain()}`);
    await delay(pause);
  }
}
