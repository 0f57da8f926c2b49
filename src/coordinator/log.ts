import { SettingsError } from "./config.ts";
import { RpcFailure } from "./stake/json-rpc.ts";
import { StoreUnavailable } from "./store/d1.ts";

/** Facts of a log line: ids, codes and numbers. Never a prompt, a payment, a signature or a token. */
export type LogFacts = Record<string, string | number | boolean | null>;

/** What may be logged of a reason that another service gave: a code. Words of its own could quote what it was sent. */
export function codeWord(reason: string): string {
  return /^(?!(?:.*\d){4})[a-z][a-z0-9_]{0,99}$/i.test(reason) ? reason : "in_other_words";
}

/** Writes one structured line at error level. */
export function logError(event: string, facts: LogFacts): void {
  console.error(JSON.stringify({ level: "error", event, ...facts }));
}

const told = new Set<string>();

/** Writes the line about a wrong setting, once per isolate: every request meets it, and the same line again says nothing new. */
export function logInvalidSetting(error: SettingsError, facts: LogFacts): void {
  if (told.has(error.message)) return;
  told.add(error.message);
  logError("invalid_setting", { ...facts, ...errorFacts(error) });
}

/** Writes one structured line at warning level: something that works as it was set, and was hardly meant so. */
export function logWarning(event: string, facts: LogFacts): void {
  console.warn(JSON.stringify({ level: "warning", event, ...facts }));
}

/**
 * What may be logged of an exception: its name and where it was thrown.
 * The message stays out, because it can quote what a client sent: JSON.parse does, and so does a failed query with its parameters.
 */
export function errorFacts(error: unknown): LogFacts {
  if (!(error instanceof Error)) return { error: typeof error };
  if (error instanceof SettingsError) return { error: error.name, reason: error.message };
  const at = (error.stack ?? "")
    .split("\n")
    .filter((line) => line.startsWith("    at "))
    .slice(0, 6);
  const facts = { error: error.name, at: at.map((line) => line.slice(7)).join(" < ") };
  // What the database itself said names tables and codes, not values; of an RPC only codes are kept.
  return error instanceof StoreUnavailable || error instanceof RpcFailure ? { ...facts, reason: error.reason } : facts;
}
