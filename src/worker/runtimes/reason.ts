// Puts into words why a request had no answer, by the code of the system or of TLS. It is for coordinators and LLM servers alike.

/** What went wrong, with the code of the system or of TLS in brackets; null if the error has no code. */
export function reasonOf(error: unknown): string | null {
  if (isBlockedPort(error)) return "fetch blocks this port for every server: use another port";
  const code = codeIn(error);
  if (code === null) return null;
  return `${WORDS[code] ?? (/SSL|TLS|CERT/.test(code) ? "the TLS connection failed" : "the connection failed")} (${code})`;
}

const UNTRUSTED = "its TLS certificate is not signed by an authority that this machine trusts";
const NO_ROUTE = "the network has no route to it";
const NO_ANSWER = "it does not answer";
const CUT = "it closed the connection without an answer";
const NO_TLS = "it does not use TLS: try ws: or http: instead of wss: or https:";

const WORDS: Record<string, string> = {
  ENOTFOUND: "no host has that name",
  EAI_AGAIN: "the name service does not answer: is this machine online?",
  ECONNREFUSED: "nothing listens there",
  EHOSTUNREACH: NO_ROUTE,
  ENETUNREACH: NO_ROUTE,
  ETIMEDOUT: NO_ANSWER,
  UND_ERR_CONNECT_TIMEOUT: NO_ANSWER,
  UND_ERR_HEADERS_TIMEOUT: NO_ANSWER,
  ECONNRESET: CUT,
  UND_ERR_SOCKET: CUT,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  CERT_HAS_EXPIRED: "its TLS certificate has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "its TLS certificate is for another host",
};

/** True if fetch refused the port without a try (Fetch standard, "port blocking"). That error has no code. */
function isBlockedPort(error: unknown): boolean {
  return error instanceof Error && (error.message === "bad port" || isBlockedPort(error.cause));
}

/** The code of an error or of its cause. */
export function codeIn(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  return "code" in error && typeof error.code === "string" ? error.code : codeIn(error.cause);
}
