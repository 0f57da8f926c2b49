import { afterAll, beforeAll, expect, onTestFinished } from "vitest";

/** Where the ends of what is started go; null: the test that runs. */
let collected: (() => unknown)[] | null = null;

/** Runs `duty` after the test that runs, or after the tests that share what is being started. */
export function atTheEnd(duty: () => unknown): void {
  if (collected === null) onTestFinished(async () => void (await duty()));
  else collected.push(duty);
}

/** Starts something once for all tests of a file or of a `describe`, and ends it after them: the start of a process costs more than most tests. */
export function shared<T>(start: () => Promise<T>): () => T {
  let started: { it: T } | null = null;
  const duties: (() => unknown)[] = [];
  beforeAll(async () => {
    collected = duties;
    try {
      started = { it: await start() };
    } finally {
      collected = null;
    }
  });
  afterAll(async () => {
    for (const duty of duties.toReversed()) await duty();
  });
  return () => started?.it ?? expect.unreachable();
}
