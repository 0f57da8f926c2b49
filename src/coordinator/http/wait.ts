import { MAX_WAIT_SECONDS } from "../../protocol/limits.ts";

/**
 * One preference of a `Prefer` header: `name`, perhaps `=value` or `="quoted value"`; parameters after `;` are not looked at.
 * A value that is there has a character: were it allowed to be empty, blanks could be read as before or after it, in as many ways as there are.
 */
const PREFERENCE = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*(?:=\s*(?:(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))\s*)?)?(?:;|$)/;

/** Splits at the commas that are not inside quotes. */
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

/**
 * Seconds that a `Prefer` header asks to wait, at most {@link MAX_WAIT_SECONDS}; 0 for none (RFC 7240 §4.3).
 * What is not understood is ignored, as the RFC says; of several `wait` the first counts.
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

/** Seconds of the query parameter `wait`, clamped to {@link MAX_WAIT_SECONDS}; 0 when absent, null when it is not an integer [API6]. */
export function waitParameter(value: string | undefined): number | null {
  if (value === undefined) return 0;
  return /^\d+$/.test(value) ? Math.min(Number(value), MAX_WAIT_SECONDS) : null;
}

/** What is left of a wait whenever it is asked, in whole seconds: a second try after a lost one must not wait anew. */
export function waitLeft(seconds: number, clock: () => number = Date.now): () => number {
  const end = clock() + seconds * 1_000;
  return () => Math.max(0, Math.ceil((end - clock()) / 1_000));
}
