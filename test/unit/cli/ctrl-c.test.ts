import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onCtrlC } from "../../../src/cli/input.ts";
import { SAME_KEYPRESS_MS } from "../../../src/cli/same-keypress.ts";

// Files share a process, and another one may have left a listener, which the first Ctrl-C removes.
let others: NodeJS.SignalsListener[];
const listening = (): number => process.listeners("SIGINT").filter((listener) => !others.includes(listener)).length;

beforeEach(() => {
  vi.useFakeTimers();
  others = process.listeners("SIGINT");
});
afterEach(() => void vi.useRealTimers());

it("Ctrl-C is heard once, ignored while it may be the same key press, also after the wait, and then ends the program as usual", () => {
  const listener = vi.fn<() => void>();
  const end = onCtrlC(listener);
  process.emit("SIGINT");
  end();
  process.emit("SIGINT");
  expect(listener).toHaveBeenCalledTimes(1);
  expect(listening()).toBe(1);
  vi.advanceTimersByTime(SAME_KEYPRESS_MS);
  expect(listening()).toBe(0);
});

it("a wait without Ctrl-C leaves no listener", () => {
  onCtrlC(() => {})();
  expect(listening()).toBe(0);
});
