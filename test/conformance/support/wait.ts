import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 25;

/** Calls `look` until it returns a defined value. @throws after `ms` */
export async function within<T>(ms: number, look: () => T | undefined | Promise<T | undefined>, what: () => string): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await look();
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`waited ${ms} ms for ${what()}`);
    await delay(POLL_MS);
  }
}

/** Returns a stopwatch: it gives the milliseconds since its start. */
export function stopwatch(): () => number {
  const started = performance.now();
  return () => performance.now() - started;
}

/** Waits for a time of the protocol. */
export const pass = (ms: number): Promise<void> => delay(ms);
