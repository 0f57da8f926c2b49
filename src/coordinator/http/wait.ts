import { MAX_WAIT_SECONDS } from "../../protocol/limits.ts";

/**
 * One preference of a `Prefer` header: `name`, `name=value` or `name="quoted value"`; parameters after `;` are ignored.
 * An unquoted value has at least one character. If it could be empty, a long run of blanks would match in so many ways that a header took minutes.
 */
const PREFERENCE = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*(?:=\s*(?:(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))\s*)?)?(?:;|$)/;

/**
 * Returns the seconds that a `Prefer` header asks to wait, at most {@link MAX_WAIT_SECONDS}; 0 without `wait` (RFC 7240 §4.3).
 * As the RFC says, unknown preferences are ignored, and the first of several `wait` counts.
 */
export function preferredWait(header: string | undefined): number {
  for (const item of splitList(header ?? "")) {
    const [, name, quoted, token] = PREFERENCE.exec(item) ?? [];
    if (name?.toLowerCase() !== "wait") continue;
    const value = quoted ?? token ?? "";
    return /^\d+$/.test(value) ? Math.min(Number(value), MAX_WAIT_SECONDS) : 0;
  }
  return 0;
}

/** Returns the seconds of the query parameter `wait`, at most {@link MAX_WAIT_SECONDS}; 0 if absent, null if it is not a whole number [API6]. */
export function waitParameter(value: string | undefined): number | null {
  if (value === undefined) return 0;
  return /^\d+$/.test(value) ? Math.min(Number(value), MAX_WAIT_SECONDS) : null;
}

/** Starts a wait of `seconds` and returns a function that says how many whole seconds are left: a retry waits only for the rest. */
export function waitLeft(seconds: number, clock: () => number = Date.now): () => number {
  const end = clock() + seconds * 1_000;
  return () => Math.max(0, Math.ceil((end - clock()) / 1_000));
}

/** Splits at commas outside quotes. */
function splitList(header: string): string[] {
  const items: string[] = [];
  let start = 0;
  let quoted = false;
  for (let i = 0; i < header.length; i++) {
    const char = header[i];
    if (quoted && char === "\\") i++;
    else if (char === '"') quoted = !quoted;
    else if (char === "," && !quoted) {
      items.push(header.slice(start, i));
      start = i + 1;
    }
  }
  items.push(header.slice(start));
  return items;
}
