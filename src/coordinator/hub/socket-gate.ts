// Decides which sockets may connect, how long they may stay unregistered, and how much each may send. Beside a job's way: before a worker registers.
import { LIMITS, RETRY_AFTER, TIMING } from "../../protocol/limits.ts";
import { CLOSE, isProgress } from "../../protocol/worker-messages.ts";
import type { Settings } from "../config.ts";
import type { EventOf } from "../dispatch/index.ts";
import { SlidingWindow, TokenBucket } from "../rates.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { CLIENT_HEADER } from "./rpc.ts";
import type { Conn, Sockets } from "./sockets.ts";

/** The part of the dispatcher that the gate uses. */
type GateDispatcher = Pick<Dispatcher, "send" | "close"> & { apply: (event: EventOf<"disconnect">) => void };

/** Accepts or refuses sockets, closes those that do not register in time, and limits what each may send [LM1, LM2, WS2]. */
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

  /** Answers an upgrade: 101 and a challenge, 429 for a client with too many sockets, 503 if there is no room. The router adds the bodies of 429 and 503. */
  accept(request: Request): Response {
    const now = this.#clock();
    const client = request.headers.get(CLIENT_HEADER) ?? "";
    const { rateLimits, rates, network } = this.#settings;
    if (rateLimits) {
      const dial = this.#dials.take(client, rates.connectsPerMinute, now);
      if (!dial.ok || this.#sockets.countOf(client) >= rates.socketsPerIp) {
        const seconds = dial.ok ? RETRY_AFTER.rate_limited : Math.ceil(dial.reason.retryAfter / 1_000);
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

  /**
   * True if a frame of `bytes` may be read. A frame over the rate gets an error, and a socket that floods is closed [LM2]. The result that `isAwaited` names
   * is always read.
   */
  mayRead(conn: Conn, data: string | ArrayBuffer, bytes: number, isAwaited: () => boolean): boolean {
    if (!this.#settings.rateLimits) return true;
    const { messagesPerSecond, messageBurst, bytesPerSecond, byteBurst } = this.#settings.rates;
    const now = this.#clock();
    conn.buckets ??= { frames: new TokenBucket(messagesPerSecond, messageBurst, now), bytes: new TokenBucket(bytesPerSecond, byteBurst, now) };
    let awaited: boolean | null = null;
    const isSpared = () => (awaited ??= isAwaited());
    const counted = conn.buckets.frames.take(now, 1, isSpared);
    const taken = counted.kind === "pass" ? conn.buckets.bytes.take(now, bytes, isSpared) : counted;
    switch (taken.kind) {
      case "pass":
        return true;
      case "excess":
        // A worker that sends so much may not read its answers, and unsent answers cost memory. So only the first ones of a flood are sent.
        if (taken.nth <= messageBurst && !isProgress(data)) {
          const rate = counted.kind === "pass" ? `${bytesPerSecond} bytes` : `${messagesPerSecond} messages`;
          const message = `more than ${rate} a second; this one was not read`;
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

  /** When the oldest unregistered socket must be closed, ms since the epoch; null if there is none. */
  get due(): number | null {
    const [oldest] = this.#sockets.unregistered();
    return oldest === undefined ? null : oldest.attachment.openedAt + TIMING.register;
  }

  /**
   * Whether there is room for one more unregistered socket of this client. If there is none, the oldest socket of the client with the most is closed, so
   * that a client that only opens sockets cannot keep honest workers out. If both have as many, it is closed only if it had time to register.
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
