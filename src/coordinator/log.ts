import { untrusted } from "../protocol/text.ts";

/** The facts of a log line: ids, codes and numbers. A prompt, payment, signature or token must never be among them. */
export type LogFacts = Record<string, string | number | boolean | null>;

/** Returns the reason that another service gave if it looks like a code, else `redacted`: free text could quote what we sent to that service. */
export function safeReason(reason: string): string {
  return /^(?!(?:.*\d){4})[a-z][a-z0-9_]{0,99}$/i.test(reason) ? reason : "redacted";
}

/** Returns the line of an event: JSON without characters that could turn a line of the log around or break it. It is still the same JSON. */
export function logLine(level: "error" | "warning", event: string, facts: LogFacts): string {
  return untrusted(JSON.stringify({ level, event, ...facts }));
}

/** Writes one structured line at error level. */
export function logError(event: string, facts: LogFacts): void {
  console.error(logLine("error", event, facts));
}

const loggedSettings = new Set<string>();

/** Logs a wrong setting once per isolate: without this, every request would log the same line. */
export function logInvalidSetting(error: Error, facts: LogFacts): void {
  if (loggedSettings.has(error.message)) return;
  loggedSettings.add(error.message);
  logError("invalid_setting", { ...facts, ...errorFacts(error) });
}

/** Writes one structured line at warning level: the service works, but the operator should look at this. */
export function logWarning(event: string, facts: LogFacts): void {
  console.warn(logLine("warning", event, facts));
}

/**
 * Returns what may be logged of an exception: its name and where it was thrown.
 * The message is left out, because it can quote what a client sent. JSON.parse does that, and so does a failed query, with its parameters.
 */
export function errorFacts(error: unknown): LogFacts {
  if (!(error instanceof Error)) return { error: typeof error };
  const at = (error.stack ?? "")
    .split("\n")
    .filter((line) => line.startsWith("    at "))
    .slice(0, 6);
  const facts = { error: error.name, at: at.map((line) => line.slice(7)).join(" < ") };
  // Our own error classes say in `safeReason` what may be logged: codes and names of tables and settings, never a value.
  const reason: unknown = Reflect.get(error, "safeReason");
  return typeof reason === "string" ? { ...facts, reason } : facts;
}
