/** Facts of a log line: ids, codes and numbers. Never a prompt, a payment, a signature or a token. */
export type LogFacts = Record<string, string | number | boolean | null>;

/** The reason that another service gave, if it is a code; else `redacted`, because its own words could quote what it was sent. */
export function safeReason(reason: string): string {
  return /^(?!(?:.*\d){4})[a-z][a-z0-9_]{0,99}$/i.test(reason) ? reason : "redacted";
}

/** Writes one structured line at error level. */
export function logError(event: string, facts: LogFacts): void {
  console.error(JSON.stringify({ level: "error", event, ...facts }));
}

const told = new Set<string>();

/** Writes the line about a wrong setting once per isolate: every request meets the same setting. */
export function logInvalidSetting(error: Error, facts: LogFacts): void {
  if (told.has(error.message)) return;
  told.add(error.message);
  logError("invalid_setting", { ...facts, ...errorFacts(error) });
}

/** Writes one structured line at warning level: a setting or an event that works, but that the operator should look at. */
export function logWarning(event: string, facts: LogFacts): void {
  console.warn(JSON.stringify({ level: "warning", event, ...facts }));
}

/**
 * What may be logged of an exception: its name and where it was thrown.
 * The message stays out, because it can quote what a client sent: JSON.parse does, and so does a failed query with its parameters.
 */
export function errorFacts(error: unknown): LogFacts {
  if (!(error instanceof Error)) return { error: typeof error };
  const at = (error.stack ?? "")
    .split("\n")
    .filter((line) => line.startsWith("    at "))
    .slice(0, 6);
  const facts = { error: error.name, at: at.map((line) => line.slice(7)).join(" < ") };
  // Our own error classes state in `safeReason` what may be logged of them: codes, and names of tables and settings, never a value.
  const reason: unknown = Reflect.get(error, "safeReason");
  return typeof reason === "string" ? { ...facts, reason } : facts;
}
