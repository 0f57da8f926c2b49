// The worker sockets of the hub. On a job's way: assign and complete go through them.
import { LIMITS } from "../../protocol/limits.ts";
import { CLOSE, type CoordinatorFrame, HEARTBEAT, HEARTBEAT_ACK } from "../../protocol/worker-messages.ts";
import { FairShare } from "../dispatch/index.ts";
import { wideNetworkOf } from "../rates/network.ts";
import { TUNING } from "../tuning.ts";
import { asOf, Attachment, type Registered } from "./attachment.ts";
import { ChannelSocket } from "./channel-socket.ts";
import type { FrameBudget } from "./frame-budget.ts";

/** A socket of the platform, or one that ends at the front. */
export type HubSocket = WebSocket | ChannelSocket;

/** One open worker socket. */
export type Conn = {
  readonly id: string;
  ws: HubSocket;
  attachment: Attachment;
  seenAt: number;
  /**
   * Bad frames since the last good one, and the last heartbeat that the hub knew of when it counted them. The platform answers heartbeats: they are good frames
   * that the hub does not see.
   */
  badFrames: number;
  beatAt: number;
  /**
   * Bytes sent since the worker last showed that it reads: it acknowledged the job that it got, sent progress of it, or completed it. The platform keeps in
   * memory what it still has to send, and does not tell how much that is.
   */
  unreadBytes: number;
  /** What it may send, and then what all sockets of its client together may send, if the client is known; null before its first frame. */
  budgets: readonly FrameBudget[] | null;
  /** The attempt whose result was last read although the socket was over its rate; null if there was none. */
  exempted: string | null;
  /** Results since the last one of a job that its key has held. */
  foreignResults: number;
  /** True while its registration waits for a tier. */
  registering: boolean;
  /** The number of its registration among all that this hub has seen since it started; 0 without one. */
  registration: number;
  /** True if it is about to be closed: frames that still arrive change nothing. */
  leaving: boolean;
};

/** How many unregistered sockets there may be, in all and of one client. */
const UNREGISTERED = { most: LIMITS.unregisteredSockets, each: LIMITS.unregisteredSocketsPerClient };

/** How many bytes may be unread of one client. */
const UNREAD = { most: Infinity, each: LIMITS.unreadBytesPerClient };

/** How many sockets may linger. */
const LINGERING = { most: LIMITS.lingeringSockets };

/** The methods of the platform that sockets need. */
type Platform = Pick<DurableObjectState, "acceptWebSocket" | "getWebSockets" | "setWebSocketAutoResponse" | "getWebSocketAutoResponseTimestamp">;

/** Closes a socket. Does nothing if it is closed already. */
export function hangUp(ws: HubSocket, code: number, reason?: string): void {
  try {
    ws.close(code, reason);
  } catch {
    // It is closed already.
  }
}

/** A connection that is rebuilt from its attachment alone. */
function connOf(ws: HubSocket, attachment: Attachment): Conn {
  return {
    id: attachment.conn,
    ws,
    attachment,
    seenAt: attachment.seenAt,
    badFrames: 0,
    beatAt: 0,
    unreadBytes: 0,
    budgets: null,
    exempted: null,
    foreignResults: 0,
    registering: false,
    registration: 0,
    leaving: false,
  };
}

/** The worker sockets of one hub, by connection id. A socket is disposable; its identity is its attachment. */
export class Sockets {
  readonly #ctx: Platform;
  readonly #conns = new Map<string, Conn>();
  /** Unregistered sockets, oldest first. */
  readonly #unregistered = new Map<string, Conn>();
  /** The sockets of each network, and the unregistered ones by the owner of the client's shares [LM1, LM2]. */
  #open = new FairShare({ most: LIMITS.sockets });
  #unregisteredShare = new FairShare(UNREGISTERED);
  /** The bytes that each client's sockets have not shown to have read. */
  #unread = new FairShare(UNREAD);
  /**
   * The sockets of each network that the hub has closed and whose connection has not ended. The platform waits without a time limit until the other side
   * answers the close. Until then it keeps the connection and all that is unread. It still delivers frames, which nobody reads.
   */
  #lingering = new FairShare(LINGERING);
  readonly #closed = new Map<string, Conn>();
  readonly #ownerOf: (client: string) => string | null;
  readonly #left: (worker: Registered) => void;
  readonly #bySocket = new WeakMap<HubSocket, Conn>();
  readonly #channelSockets = new Set<ChannelSocket>();

  /**
   * `ownerOf` names the owner of a client's shares; null if the client is not known or not limited. `left` is called when the socket of a worker is closed, by
   * whichever side.
   */
  constructor(ctx: Platform, ownerOf: (client: string) => string | null, left: (worker: Registered) => void = () => {}) {
    this.#ctx = ctx;
    this.#ownerOf = ownerOf;
    this.#left = left;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(HEARTBEAT, HEARTBEAT_ACK));
  }

  get size(): number {
    return this.#conns.size;
  }

  /** The number of sockets of this client's network. */
  countOf(client: string): number {
    return this.#open.of(wideNetworkOf(client));
  }

  /** The number of sockets of this client's network that the hub has closed and whose connection has not ended. */
  lingeringOf(client: string): number {
    return this.#lingering.of(wideNetworkOf(client));
  }

  /** True if there is room for one more socket. */
  get hasRoom(): boolean {
    return this.#open.hasRoom(null) && this.#lingering.hasRoom(null);
  }

  /** `all`: there is room for one more unregistered socket. `own`: this client's share has room for it. */
  roomFor(client: string): { all: boolean; own: boolean } {
    const owner = this.#ownerOf(client);
    return { all: this.#unregisteredShare.hasRoom(null), own: owner === null || this.#unregisteredShare.of(owner) < UNREGISTERED.each };
  }

  /** Accepts a new socket. */
  accept(ws: HubSocket, attachment: Attachment): Conn {
    if (ws instanceof ChannelSocket) this.#channelSockets.add(ws);
    else this.#ctx.acceptWebSocket(ws);
    ws.serializeAttachment(attachment);
    return this.#keep(ws, attachment);
  }

  /** Finds the sockets that survived the loss of the hub's memory, in the order in which they were opened. */
  reload(now: number): Conn[] {
    this.#conns.clear();
    this.#unregistered.clear();
    this.#open = new FairShare({ most: LIMITS.sockets });
    this.#unregisteredShare = new FairShare(UNREGISTERED);
    this.#unread = new FairShare(UNREAD);
    this.#lingering = new FairShare(LINGERING);
    this.#closed.clear();
    const found: { ws: HubSocket; attachment: Attachment }[] = [];
    for (const ws of [...this.#ctx.getWebSockets(), ...this.#channelSockets]) {
      const attachment = Attachment.safeParse(ws.deserializeAttachment());
      if (ws.readyState !== WebSocket.OPEN) {
        if (attachment.success) this.#linger(connOf(ws, attachment.data));
        continue;
      }
      if (attachment.success) found.push({ ws, attachment: attachment.data });
      else ws.close(CLOSE.restart, "unknown socket");
    }
    // The platform lists the newest first.
    return found.toSorted((a, b) => a.attachment.openedAt - b.attachment.openedAt).map(({ ws, attachment }) => this.#keep(ws, asOf(now, attachment)));
  }

  of(ws: HubSocket): Conn | undefined {
    // This check comes first, because a client that ignores the close may send as fast as it can.
    if (ws.readyState !== WebSocket.OPEN) return undefined;
    const conn = this.#bySocket.get(ws) ?? this.#byAttachment(ws);
    return conn !== undefined && this.isHere(conn) ? conn : undefined;
  }

  /** Forgets a socket whose connection has ended. Returns it if the hub had not closed it. */
  ended(ws: HubSocket): Conn | undefined {
    if (ws instanceof ChannelSocket) this.#channelSockets.delete(ws);
    const conn = this.#bySocket.get(ws) ?? this.#byAttachment(ws);
    if (conn === undefined) return undefined;
    if (this.#closed.delete(conn.id)) {
      this.#lingering.give(wideNetworkOf(conn.attachment.client));
      this.noteRead(conn);
      return undefined;
    }
    const wasHere = this.isHere(conn);
    this.forget(conn);
    return wasHere ? conn : undefined;
  }

  /** True if the hub still has this socket and will not close it in this turn. */
  isHere(conn: Conn): boolean {
    return this.#conns.get(conn.id) === conn && !conn.leaving;
  }

  get(id: string): Conn | undefined {
    return this.#conns.get(id);
  }

  /** When the worker of a socket registered, ms since the epoch; null without such a worker. */
  registeredAt(connId: string): number | null {
    return this.get(connId)?.attachment.worker?.registeredAt ?? null;
  }

  /** The unregistered sockets, oldest first. */
  unregistered(): Iterable<Conn> {
    return this.#unregistered.values();
  }

  /** The sockets with a registered worker, and these workers. */
  registered(): { conn: Conn; worker: Registered }[] {
    const found: { conn: Conn; worker: Registered }[] = [];
    for (const conn of this.#conns.values()) {
      const { worker } = conn.attachment;
      if (worker !== null && !conn.leaving) found.push({ conn, worker });
    }
    return found;
  }

  /** Stores the worker that registered on the socket. */
  identify(conn: Conn, worker: Registered): void {
    conn.attachment = { ...conn.attachment, worker };
    conn.ws.serializeAttachment(conn.attachment);
    this.#leaveUnregistered(conn);
  }

  /** Notes that the socket has sent something. */
  heard(conn: Conn, now: number): void {
    conn.seenAt = now;
    // Written from time to time, so that a hub that lost its memory knows which sockets were silent.
    if (now - conn.attachment.seenAt < TUNING.seenSaved) return;
    conn.attachment.seenAt = now;
    conn.ws.serializeAttachment(conn.attachment);
  }

  /** Notes that its worker got a job, for the order "least recently used" after a loss of memory. If it gets one after the other, `heard` writes that. */
  used(id: string, now: number): void {
    const conn = this.#conns.get(id);
    const worker = conn?.attachment.worker;
    if (conn === undefined || worker == null) return;
    const isRested = now - worker.lastUsedAt >= TUNING.seenSaved;
    worker.lastUsedAt = now;
    if (isRested) conn.ws.serializeAttachment(conn.attachment);
  }

  /** Notes that its worker takes no more jobs, for after a loss of memory. */
  drain(conn: Conn): void {
    if (conn.attachment.worker) this.identify(conn, { ...conn.attachment.worker, draining: true });
  }

  /** When a socket last sent something, including heartbeats that the platform answered; ms since the epoch. */
  lastSeen(id: string): number {
    const conn = this.#conns.get(id);
    if (conn === undefined) return 0;
    // `seenFresh` is shorter than every limit that this time is compared with. To ask the platform costs more than the whole claim.
    if (Math.abs(Date.now() - conn.seenAt) < TUNING.seenFresh) return conn.seenAt;
    const beat = conn.ws instanceof ChannelSocket ? conn.ws.heardAt : this.#beatAt(conn.ws);
    return beat > Date.now() + TUNING.clockSlack ? conn.seenAt : Math.max(conn.seenAt, beat);
  }

  /** Counts a bad frame, and returns how many there were in a row [WS1]. */
  countBad(conn: Conn): number {
    const beat = conn.ws instanceof ChannelSocket ? conn.ws.beats : this.#beatAt(conn.ws);
    if (beat !== conn.beatAt) conn.badFrames = 0;
    conn.beatAt = beat;
    return ++conn.badFrames;
  }

  /** When the platform last answered a heartbeat, ms since the epoch; 0 for never. */
  #beatAt(ws: WebSocket): number {
    return this.#ctx.getWebSocketAutoResponseTimestamp(ws)?.getTime() ?? 0;
  }

  /** Ignores everything from a socket that will be closed at the end of this turn. */
  leave(id: string): void {
    const conn = this.#conns.get(id);
    if (conn !== undefined) conn.leaving = true;
  }

  /** True if an optional frame may be sent: half of what the worker may leave unread is free. So an optional frame never closes a socket [WS6]. */
  maySendOptional({ attachment, unreadBytes }: Conn): boolean {
    const owner = this.#ownerOf(attachment.client);
    return unreadBytes <= LIMITS.unreadBytes / 2 && (owner === null || this.#unread.of(owner) <= UNREAD.each / 2);
  }

  /** Sends a frame; false if the socket is gone, or if its worker reads so little that it is closed instead [LM1]. */
  send(id: string, frame: CoordinatorFrame | string): boolean {
    const conn = this.#conns.get(id);
    if (conn === undefined) return false;
    const text = typeof frame === "string" ? frame : JSON.stringify(frame);
    const bytes = Buffer.byteLength(text) + LIMITS.unreadFrameBytes;
    const owner = this.#ownerOf(conn.attachment.client);
    if (conn.unreadBytes + bytes > LIMITS.unreadBytes || !this.#unread.take(owner, bytes)) {
      this.close(id, CLOSE.silent, "reads nothing");
      return false;
    }
    conn.unreadBytes += bytes;
    try {
      conn.ws.send(text);
      return true;
    } catch {
      return false;
    }
  }

  /** Notes that the worker of a socket has read what it was sent. */
  noteRead(conn: Conn): void {
    this.#unread.give(this.#ownerOf(conn.attachment.client), conn.unreadBytes);
    conn.unreadBytes = 0;
  }

  /** Closes a socket, so that frames that still arrive change nothing. It lingers until its connection has ended. */
  close(id: string, code: number, reason: string): void {
    const conn = this.#conns.get(id);
    if (conn === undefined) return;
    this.#remove(conn);
    this.#linger(conn);
    hangUp(conn.ws, code, reason);
    if (conn.attachment.worker !== null) this.#left(conn.attachment.worker);
  }

  /** Forgets a socket that is gone. */
  forget(conn: Conn): void {
    if (!this.#remove(conn)) return;
    this.noteRead(conn);
    if (conn.attachment.worker !== null) this.#left(conn.attachment.worker);
  }

  #remove(conn: Conn): boolean {
    this.#leaveUnregistered(conn);
    const wasOpen = this.#conns.delete(conn.id);
    if (wasOpen) this.#open.give(wideNetworkOf(conn.attachment.client));
    return wasOpen;
  }

  /** Counts a closed socket until its connection has ended. What it has not read stays in its client's share. */
  #linger(conn: Conn): void {
    this.#bySocket.set(conn.ws, conn);
    this.#closed.set(conn.id, conn);
    this.#lingering.add(wideNetworkOf(conn.attachment.client));
  }

  /** The socket is not an unregistered one any more. */
  #leaveUnregistered({ id, attachment }: Conn): void {
    if (this.#unregistered.delete(id)) this.#unregisteredShare.give(this.#ownerOf(attachment.client));
  }

  #keep(ws: HubSocket, attachment: Attachment): Conn {
    const conn = connOf(ws, attachment);
    this.#conns.set(conn.id, conn);
    this.#open.add(wideNetworkOf(attachment.client));
    this.#bySocket.set(ws, conn);
    if (attachment.worker !== null) return conn;
    this.#unregistered.set(conn.id, conn);
    this.#unregisteredShare.add(this.#ownerOf(attachment.client));
    return conn;
  }

  #byAttachment(ws: HubSocket): Conn | undefined {
    const attachment = Attachment.safeParse(ws.deserializeAttachment());
    if (!attachment.success) return undefined;
    return this.#conns.get(attachment.data.conn) ?? this.#closed.get(attachment.data.conn);
  }
}
