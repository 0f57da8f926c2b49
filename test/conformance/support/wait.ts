import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 25;

/** The first defined value of `look`. @throws after `ms` */
export async function within<T>(ms: number, look: () => T | undefined | Promise<T | undefined>, what: () => string): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await look();
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`waited ${ms} ms for ${what()}`);
    await delay(POLL_MS);
  }
}

/** A stopwatch: milliseconds since it was made. */
export function stopwatch(): () => number {
  const started = performance.now();
  return () => performance.now() - started;
}

/** Lets the protocol's own time pass. */
export const pass = (ms: number): Promise<void> => delay(ms);
