import { afterAll } from "vitest";

const duties: (() => unknown)[] = [];

// Registered while the file is collected: Vitest does not run an afterAll that a beforeAll registers.
afterAll(async () => {
  for (const duty of duties.splice(0).toReversed()) await duty();
});

/** Runs `duty` after the tests of this file, the latest first. Callable from hooks and tests. */
export function finallyDo(duty: () => unknown): void {
  duties.push(duty);
}
