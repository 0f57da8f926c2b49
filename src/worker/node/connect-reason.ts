// Explains why a coordinator cannot be reached. Node's WebSocket does not report its cause (the error event of Node 24 has an empty message), but its HTTP
// client publishes each failed request on a diagnostics channel, with the error of the system.
import { subscribe } from "node:diagnostics_channel";
import * as z from "zod";
import { reasonOf } from "../runtimes/reason.ts";
import type { Socket } from "../session/index.ts";

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
