/** Untrusted text as one printable line of at most `max` characters. */
export function oneLine(text: string, max = 300): string {
  // Formatting characters and line separators go too, because they could reorder the line where the error is printed.
  const line = text.replaceAll(/[\s\p{C}\p{Zl}\p{Zp}]+/gu, " ").trim();
  return line.length > max ? `${line.slice(0, max).toWellFormed()}…` : line;
}

/** The `code` of an error and of the causes below it. */
export function errorCodes(error: unknown): string[] {
  const codes: string[] = [];
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if ("code" in at && typeof at.code === "string") codes.push(at.code);
  }
  return codes;
}

/** Error codes that prove that no byte of the request was sent: of Node, Deno and undici, then of Bun. */
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT", "ConnectionRefused"]);

/** Describes why a `fetch` to `place` got no answer. The reason `connect` means that nothing was sent; after `broken` the request may have arrived. */
export function describeBreak(place: string, cause: unknown): { message: string; reason: "connect" | "broken" } {
  const codes = errorCodes(cause);
  const unsent = codes.some((code) => NEVER_SENT.has(code));
  const [code] = codes;
  const why = code === undefined ? "" : ` (${code})`;
  return unsent ? { message: `cannot connect to ${place}${why}`, reason: "connect" } : { message: `the connection to ${place} broke${why}`, reason: "broken" };
}
