const duties: (() => unknown)[] = [];

/** Runs `duty` after the tests of this file, the latest first. Callable from hooks and tests, in projects whose files are followed by `after-file.ts`. */
export function finallyDo(duty: () => unknown): void {
  duties.push(duty);
}

/** Does what has been asked for so far. */
export async function finish(): Promise<void> {
  for (const duty of duties.splice(0).toReversed()) await duty();
}
