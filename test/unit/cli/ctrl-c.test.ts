import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onCtrlC } from "../../../src/cli/input.ts";
import { SAME_KEYPRESS_MS } from "../../../src/cli/same-keypress.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("Ctrl-C is heard once, ignored while it may be the same key press, also after the wait, and then ends the program as usual", () => {
  const before = process.listenerCount("SIGINT");
  const listener = vi.fn<() => void>();
  const end = onCtrlC(listener);
  process.emit("SIGINT");
  end();
  process.emit("SIGINT");
  expect(listener).toHaveBeenCalledTimes(1);
  expect(process.listenerCount("SIGINT")).toBe(before + 1);
  vi.advanceTimersByTime(SAME_KEYPRESS_MS);
  expect(process.listenerCount("SIGINT")).toBe(before);
});

it("a wait without Ctrl-C leaves no listener", () => {
  const before = process.listenerCount("SIGINT");
  onCtrlC(() => {})();
  expect(process.listenerCount("SIGINT")).toBe(before);
});
