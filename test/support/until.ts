import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 20;
const TIMEOUT_MS = 45_000;

/** Resolves to the first defined value of `look`. @throws after 45 s, unless told otherwise, with what `explain` says */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  explain: () => string = () => "",
  timeoutMs: number = TIMEOUT_MS,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await look();
    if (value !== undefined) return value;
    if (Date.now() > deadline) throw new Error(`no ${what} after ${timeoutMs / 1000} s\n${explain()}`);
    await delay(POLL_MS);
  }
}
