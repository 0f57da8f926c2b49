// Explains why a coordinator cannot be reached. Node's WebSocket does not report its cause (the error event of Node 24 has an empty message), but its HTTP
// client publishes each failed request on a diagnostics channel, with the error of the system.
import { subscribe } from "node:diagnostics_channel";
import * as z from "zod";
import type { Socket } from "../session/index.ts";

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
function codeIn(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  return "code" in error && typeof error.code === "string" ? error.code : codeIn(error.cause);
}

const OpeningRequest = z.object({ origin: z.string(), upgrade: z.literal("websocket") });
const Failed = z.object({ request: OpeningRequest, error: z.instanceof(Error) });
const Answered = z.object({ request: OpeningRequest, response: z.object({ statusCode: z.number() }) });

/** The newest failure of a WebSocket's opening request, by origin. */
const failures = new Map<string, string>();
let listening = false;

function listen(): void {
  if (listening) return;
  listening = true;
  subscribe("undici:request:error", (message) => {
    const failed = Failed.safeParse(message).data;
    if (failed === undefined) return;
    const reason = reasonOf(failed.error);
    if (reason !== null) failures.set(failed.request.origin, reason);
  });
  subscribe("undici:request:headers", (message) => {
    const answered = Answered.safeParse(message).data;
    if (answered === undefined || answered.response.statusCode === 101) return;
    failures.set(answered.request.origin, `it answers HTTP ${answered.response.statusCode} instead of opening a WebSocket`);
  });
}

/** Node's WebSocket with a `close` event that states why the socket could not be opened. */
export class ReasonedSocket implements Socket {
  readonly #socket: WebSocket;
  readonly #origin: string;
  #opened = false;

  constructor(url: string) {
    listen();
    const { protocol, host } = new URL(url);
    this.#origin = `${protocol === "wss:" ? "https" : "http"}://${host}`;
    failures.delete(this.#origin);
    this.#socket = new WebSocket(url);
    this.#socket.addEventListener("open", () => (this.#opened = true));
  }

  send(text: string): void {
    this.#socket.send(text);
  }

  close(code?: number, reason?: string): void {
    this.#socket.close(code, reason);
  }

  addEventListener(type: "open" | "message" | "close" | "error", listener: (event: { data?: unknown; code?: number; reason?: string }) => void): void {
    if (type === "message") this.#socket.addEventListener(type, ({ data }) => listener({ data }));
    else if (type !== "close") this.#socket.addEventListener(type, () => listener({}));
    else this.#socket.addEventListener("close", ({ code, reason }) => listener({ code, reason: reason === "" ? this.#why() : reason }));
  }

  /** Why there is no connection. Empty for a socket that was open, because then the connection was lost later. */
  #why(): string {
    return this.#opened ? "" : `no connection: ${failures.get(this.#origin) ?? "the address does not accept WebSockets"}`;
  }
}
