import { CLIENT_HEADER } from "./rpc.ts";
import { LIMITS, RETRY_AFTER, TIMING } from "../../protocol/limits.ts";
import { CLOSE, isProgress } from "../../protocol/worker-messages.ts";
import type { Settings } from "../config.ts";
import { SlidingWindow, TokenBucket } from "../rates.ts";
import type { EventOf } from "../dispatch/index.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Conn, Sockets } from "./sockets.ts";

/** What the gate has the dispatcher do. */
type GateDispatcher = Pick<Dispatcher, "send" | "close"> & { apply: (event: EventOf<"disconnect">) => void };

/** Which sockets come in, how long they may stay without a name, and how much each may say [LM1, LM2, WS2]. */
export class SocketGate {
  readonly #settings: Settings;
  readonly #sockets: Sockets;
  readonly #dispatcher: GateDispatcher;
  readonly #clock: () => number;
  readonly #dials = new SlidingWindow(TIMING.minute, LIMITS.countedClients);

  constructor(parts: { settings: Settings; sockets: Sockets; dispatcher: GateDispatcher; clock: () => number }) {
    this.#settings = parts.settings;
    this.#sockets = parts.sockets;
    this.#dispatcher = parts.dispatcher;
    this.#clock = parts.clock;
  }

  /** Answers an upgrade: 101 with the socket challenged, 429 for a client that has too many, 503 when there is no room. The router makes answers of the latter. */
  accept(request: Request): Response {
    const now = this.#clock();
    const client = request.headers.get(CLIENT_HEADER) ?? "";
    const { rateLimits, rates, network } = this.#settings;
    if (rateLimits) {
      const dial = this.#dials.take(client, rates.connectsPerMinute, now);
      if (!dial.ok || this.#sockets.countOf(client) >= rates.socketsPerIp) {
        const seconds = dial.ok ? RETRY_AFTER.rate_limited : Math.ceil(dial.retryAfter / 1_000);
        return new Response(null, { status: 429, headers: { "Retry-After": String(seconds) } });
      }
    }
    if (this.#sockets.size >= LIMITS.sockets || !this.#makeRoom(client, now)) return new Response(null, { status: 503 });
    const { 0: far, 1: near } = new WebSocketPair();
    const nonce = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex");
    const host = this.#settings.publicHost ?? new URL(request.url).host;
    const conn = this.#sockets.accept(near, { conn: crypto.randomUUID(), nonce, host, client, openedAt: now, seenAt: now, worker: null });
    this.#sockets.send(conn.attachment.conn, { type: "challenge", nonce, network, host });
    return new Response(null, { status: 101, webSocket: far });
  }

  /** Whether a frame is to be read; one too many has been answered, and one of a flood has cost the socket [LM2]. */
  mayRead(conn: Conn, data: string | ArrayBuffer): boolean {
    if (!this.#settings.rateLimits) return true;
    const { messagesPerSecond, messageBurst } = this.#settings.rates;
    const now = this.#clock();
    conn.bucket ??= new TokenBucket(messagesPerSecond, messageBurst, now);
    const taken = conn.bucket.take(now);
    switch (taken.kind) {
      case "pass":
        return true;
      case "excess":
        // Who sends that much may not be reading at all, and what waits to be sent is memory: after a burst of them the answers stop.
        if (taken.nth <= messageBurst && !isProgress(data)) {
          const message = `more than ${messagesPerSecond} messages a second; this one was not read`;
          this.#dispatcher.send(conn.attachment.conn, { type: "error", code: "rate_limited", message });
        }
        return false;
      case "flood":
        this.#dispatcher.apply({ type: "disconnect", conn: conn.attachment.conn });
        this.#dispatcher.close(conn.attachment.conn, CLOSE.silent, "flooding");
        return false;
      default:
        return taken satisfies never;
    }
  }

  /** Closes the sockets that have not registered in time [WS2]. */
  closeUnregistered(): void {
    const before = this.#clock() - TIMING.register;
    for (const conn of [...this.#sockets.unregistered()]) {
      if (conn.attachment.openedAt > before) return;
      this.#sockets.close(conn.attachment.conn, CLOSE.silent, "not registered in time");
    }
  }

  /** When the first of them will have been open for too long, ms since the epoch; null while there are none. */
  get due(): number | null {
    const [oldest] = this.#sockets.unregistered();
    return oldest === undefined ? null : oldest.attachment.openedAt + TIMING.register;
  }

  /**
   * Whether there is room for one more unregistered socket of this client. When there is none, the oldest of the client that has most makes room,
   * so that nobody who dials and says nothing keeps honest workers out; among equals only if it had time to register.
   */
  #makeRoom(client: string, now: number): boolean {
    if (this.#sockets.unregisteredCount < LIMITS.unregisteredSockets) return true;
    const byClient = Map.groupBy(
      [...this.#sockets.unregistered()].filter((conn) => !conn.registering),
      (conn) => conn.attachment.client,
    );
    const [greediest] = [...byClient.values()].toSorted((a, b) => b.length - a.length);
    const oldest = greediest?.[0];
    if (greediest === undefined || oldest === undefined) return false;
    const hasMore = greediest.length > (byClient.get(client)?.length ?? 0) + 1;
    if (!hasMore && now - oldest.attachment.openedAt < TIMING.strangerSafe) return false;
    this.#sockets.close(oldest.attachment.conn, CLOSE.silent, "made room for another");
    return true;
  }
}
