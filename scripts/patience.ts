import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 4_000;
const POLL_MS = 100;

/** Tries until there is a result, for 4 s: npm returns the prompt before the session that it ended has let go of port and state. */
export async function patiently<T>(attempt: () => T | null | Promise<T | null>): Promise<T | null> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const result = await attempt();
    if (result !== null || Date.now() > deadline) return result;
    await delay(POLL_MS);
  }
}
