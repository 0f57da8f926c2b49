// Decides which sockets may connect, how long they may stay unregistered, and how much each may send. Sockets that send too much wait for everyone else.
import { LIMITS } from "../../protocol/limits.ts";
import { RETRY_AFTER, TIMING } from "../../protocol/times.ts";
import { CLOSE, isProgress } from "../../protocol/worker-messages.ts";
import type { Settings } from "../config.ts";
import type { EventOf } from "../dispatch/index.ts";
import { shareOwner, wideNetworkOf } from "../rates/network.ts";
import { SlidingWindow } from "../rates/sliding-window.ts";
import type { ChannelSocket } from "./channel-socket.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { FrameBudget } from "./frame-budget.ts";
import { CLIENT_HEADER } from "./rpc.ts";
import type { Conn, HubSocket, Sockets } from "./sockets.ts";

/** The part of the dispatcher that the gate uses. */
type GateDispatcher = Pick<Dispatcher, "send" | "close"> & { apply: (event: EventOf<"disconnect">) => void };

/** Accepts or refuses sockets, closes those that do not register in time, and limits what each may send [LM1, LM2, WS2]. */
export class SocketGate {
  readonly #settings: Settings;
  readonly #sockets: Sockets;
  readonly #dispatcher: GateDispatcher;
  readonly #clock: () => number;
  readonly #clientBudgets = new Map<string, FrameBudget>();
  readonly #connects = new SlidingWindow(TIMING.ratePeriod, LIMITS.countedClients);

  constructor(parts: { settings: Settings; sockets: Sockets; dispatcher: GateDispatcher; clock: () => number }) {
    this.#settings = parts.settings;
    this.#sockets = parts.sockets;
    this.#dispatcher = parts.dispatcher;
    this.#clock = parts.clock;
  }

  /**
   * Answers an upgrade: 101 and a challenge, 429 for a client with too many sockets, open or closed and still connected, 503 if there is no room. The router
   * adds the bodies of 429 and 503.
   */
  accept(request: Request): Response {
    const client = request.headers.get(CLIENT_HEADER) ?? "";
    const refused = this.#refusal(client);
    if (refused !== null) return refused;
    const { 0: far, 1: near } = new WebSocketPair();
    this.#open(near, client, request.url);
    return new Response(null, { status: 101, webSocket: far });
  }

  /** The same for a socket that ends at the front: null if it is open. */
  acceptChannelSocket(socket: ChannelSocket, client: string, url: string): Response | null {
    const refused = this.#refusal(client);
    if (refused === null) this.#open(socket, client, url);
    return refused;
  }

  /** The answer to a client that gets no socket now. */
  #refusal(client: string): Response | null {
    const now = this.#clock();
    const { rateLimits, rates } = this.#settings;
    if (rateLimits) {
      const connect = this.#connects.take(client, rates.connectsPerMinute, now);
      const used = Math.max(this.#sockets.countOf(client), this.#sockets.lingeringOf(client));
      if (!connect.ok || used >= rates.socketsPerIp) {
        const seconds = connect.ok ? RETRY_AFTER.rate_limited : Math.ceil(connect.reason.retryAfter / 1_000);
        return new Response(null, { status: 429, headers: { "Retry-After": String(seconds) } });
      }
    }
    return this.#sockets.hasRoom && this.#makeRoom(client, now) ? null : new Response(null, { status: 503 });
  }

  #open(near: HubSocket, client: string, url: string): void {
    const now = this.#clock();
    const { network, local, publicHost } = this.#settings;
    const nonce = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex");
    // A local coordinator answers to several names of its machine, and the worker signs the one that it dialled.
    const host = local || publicHost === null ? new URL(url).host : publicHost;
    const conn = this.#sockets.accept(near, { conn: crypto.randomUUID(), nonce, host, client, openedAt: now, seenAt: now, worker: null });
    this.#sockets.send(conn.id, { type: "challenge", nonce, network, host });
  }

  /**
   * True if a frame of `bytes` may be read: its socket, and all sockets of its client together, keep their rates. A frame over a rate gets an error, and a
   * socket that floods, or that adds to the flood of its client, is closed [LM2]. A frame is always read if `exempt` returns true.
   */
  mayRead(conn: Conn, data: string | ArrayBuffer, bytes: number, exempt: () => boolean): boolean {
    // An exemption can be taken once, and both buckets of a budget ask for it.
    let taken: boolean | null = null;
    const isExempt = () => (taken ??= exempt());
    return this.#keepsRate(
      conn,
      (budget, now) => budget.take(now, bytes, isExempt),
      () => !isProgress(data),
    );
  }

  /**
   * True if a socket that is registered may register again. It may name a hundred new models each time, and is in a pool for each of them. So such frames have
   * a rate of their own, for the socket and for all sockets of its client together. One over it is treated like another frame over its rate [LM2].
   */
  mayUpdate(conn: Conn): boolean {
    return this.#keepsRate(
      conn,
      (budget, now) => budget.takeUpdate(now),
      () => true,
    );
  }

  #keepsRate(conn: Conn, take: (budget: FrameBudget, now: number) => ReturnType<FrameBudget["take"]>, isAnswered: () => boolean): boolean {
    if (!this.#settings.rateLimits) return true;
    const now = this.#clock();
    for (const budget of (conn.budgets ??= this.#budgetsOf(conn.attachment.client, now))) {
      const taken = take(budget, now);
      if (taken.kind === "pass") continue;
      if (taken.kind === "flood") {
        this.#dispatcher.apply({ type: "disconnect", connId: conn.id });
        this.#dispatcher.close(conn.id, CLOSE.silent, "flooding");
      } else if (taken.nth <= this.#settings.rates.messageBurst && isAnswered()) {
        // A worker that sends so much may not read its answers, and unsent answers cost memory. So only the first ones of a flood are sent.
        const from = budget === conn.budgets[0] ? "" : " from one address";
        const message = `more ${taken.of} than ${budget.rates[taken.of].perSecond} a second${from}; this frame was not read`;
        this.#dispatcher.send(conn.id, { type: "error", code: "rate_limited", message });
      }
      return false;
    }
    return true;
  }

  /** A new budget for a socket, and the one that all sockets of its client share if its address is known. A client whose sockets are all gone is forgotten. */
  #budgetsOf(client: string, now: number): FrameBudget[] {
    const { rates } = this.#settings;
    const own = new FrameBudget(
      {
        messages: { perSecond: rates.messagesPerSecond, burst: rates.messageBurst },
        bytes: { perSecond: rates.bytesPerSecond, burst: rates.byteBurst },
        updates: { perSecond: rates.updatesPerSecond, burst: rates.updateBurst },
      },
      now,
    );
    const owner = shareOwner(client, true);
    if (owner === null) return [own];
    const known = this.#clientBudgets.get(owner);
    if (known !== undefined) return [own, known];
    if (this.#clientBudgets.size >= LIMITS.sockets) {
      for (const other of this.#clientBudgets.keys()) if (this.#sockets.countOf(other) === 0) this.#clientBudgets.delete(other);
    }
    const shared = new FrameBudget(
      {
        messages: { perSecond: rates.clientMessagesPerSecond, burst: rates.clientMessageBurst },
        bytes: { perSecond: rates.clientBytesPerSecond, burst: rates.clientByteBurst },
        updates: { perSecond: rates.clientUpdatesPerSecond, burst: rates.clientUpdateBurst },
      },
      now,
    );
    this.#clientBudgets.set(owner, shared);
    return [own, shared];
  }

  /** Closes the sockets that have not registered in time [WS2]. */
  closeUnregistered(): void {
    const before = this.#clock() - TIMING.register;
    for (const conn of [...this.#sockets.unregistered()]) {
      if (conn.attachment.openedAt > before) return;
      this.#sockets.close(conn.id, CLOSE.silent, "not registered in time");
    }
  }

  /** When the oldest unregistered socket must be closed, ms since the epoch; null if there is none. */
  get due(): number | null {
    const [oldest] = this.#sockets.unregistered();
    return oldest === undefined ? null : oldest.attachment.openedAt + TIMING.register;
  }

  /**
   * True if there is room for one more unregistered socket of this client, or if one was closed to make room. A client that has its share makes room with its
   * own oldest socket. If all places are taken, the client with the most loses its oldest one, if it has more than this client would have. Otherwise this
   * client's own oldest one is closed, or for a client that has none the oldest of all, but only if it had time to register.
   */
  #makeRoom(client: string, now: number): boolean {
    const room = this.#sockets.roomFor(client);
    if (room.all && room.own) return true;
    const candidates = [...this.#sockets.unregistered()].filter((conn) => !conn.registering);
    const byNetwork = Map.groupBy(candidates, (conn) => wideNetworkOf(conn.attachment.client));
    const own = byNetwork.get(wideNetworkOf(client)) ?? [];
    const [greediest = []] = room.own ? [...byNetwork.values()].toSorted((a, b) => b.length - a.length) : [];
    const hasMore = greediest.length > own.length + 1;
    // As many clients as there are places, with one silent socket each, must not shut out a newcomer for good.
    const others = own.length > 0 ? own : candidates;
    const oldest = (hasMore ? greediest : others)[0];
    if (oldest === undefined || (!hasMore && now - oldest.attachment.openedAt < TIMING.unregisteredSafe)) return false;
    this.#sockets.close(oldest.id, CLOSE.silent, "made room for another");
    return true;
  }
}
