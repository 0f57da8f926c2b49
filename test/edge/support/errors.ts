import { vi } from "vitest";

/** Takes the error lines of the coordinator off the console; `events` names them. */
export function muteErrors(): { events(): string[] } {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  return { events: () => log.mock.calls.map(([line]) => String(JSON.parse(String(line)).event)) };
}
