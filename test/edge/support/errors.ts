import { vi } from "vitest";

/** Captures the error lines of the coordinator; `events` lists their names. */
export function muteErrors(): { events(): string[] } {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  return { events: () => log.mock.calls.map(([line]) => String(JSON.parse(String(line)).event)) };
}
