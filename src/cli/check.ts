import { untrusted } from "../worker/node/printable.ts";
import type { CliError } from "./cli-error.ts";

/** One thing that was looked at. `warn` does not keep a worker from working. */
export type Check =
  | { name: string; state: "ok"; message: string }
  | { name: string; state: "warn"; message: string; fix?: string }
  | { name: string; state: "fail"; message: string; fix: string; exit: CliError["exit"] };

const MARKS = { ok: { mark: "✓", color: 32 }, warn: { mark: "!", color: 33 }, fail: { mark: "✗", color: 31 } } as const;

/** A check as one line, and what to do about it as a second one. Coordinators and runtimes wrote a part of it. */
export function checkLines(check: Check, { color, width }: { color: boolean; width: number }): string {
  const { mark, color: code } = MARKS[check.state];
  const line = `${color ? `\u001B[${code}m${mark}\u001B[39m` : mark} ${untrusted(check.name).padEnd(width)}  ${untrusted(check.message)}`;
  return check.state === "ok" || check.fix === undefined ? line : `${line}\n  ${" ".repeat(width)}  → ${untrusted(check.fix)}`;
}
