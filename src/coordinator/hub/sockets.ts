// The worker sockets of the hub and their attachments, which survive the loss of memory. On a job's way: assign and complete go through them.
import * as z from "zod";
import { JobType } from "../../protocol/job.ts";
import { TIMING } from "../../protocol/limits.ts";
import type { Announcing } from "../../protocol/models.ts";
import { type CoordinatorFrame, HEARTBEAT, HEARTBEAT_ACK, Tier } from "../../protocol/worker-messages.ts";
import type { TokenBucket } from "../rates.ts";
import { TUNING } from "../tuning.ts";

/** The identity of a socket. It survives the loss of the hub's memory, so it holds all that the socket needs to go on. Times in ms. */
const Attachment = z.object({
  conn: z.string(),
  /** Nonce and host of the challenge; a registration is signed over both. */
  nonce: z.string(),
  host: z.string(),
  /** The client that opened the socket, as the router named it [LM2]. */
  client: z.string(),
  openedAt: z.number(),
  seenAt: z.number(),
  worker: z
    .object({
      key: z.string(),
      id: z.string(),
      authenticated: z.boolean(),
      mobile: z.boolean(),
      capabilities: z.array(JobType),
      tier: Tier,
      /** When its stake must be read again, ms since the epoch. */
      tierDue: z.number(),
      acks: z.boolean(),
      registeredAt: z.number(),
      context: z.number(),
      lastUsedAt: z.number(),
      draining: z.boolean(),
      /** The names of its models, one per line. The attachment is written at every claim, and one text is cheaper than a list [JB10]. */
      models: z.string(),
    })
    .nullable(),
});
export type Attachment = z.infer<typeof Attachment>;
/** The worker that registered on a socket. */
export type Registered = NonNullable<Attachment["worker"]>;

/** One open worker socket. */
export type Conn = {
  ws: WebSocket;
  attachment: Attachment;
  seenAt: number;
  badFrames: number;
  /** Limit its frames and their bytes; null before its first frame. */
  buckets: { frames: TokenBucket; bytes: TokenBucket } | null;
  /** The attempt whose result was last read although the socket was over its rate; null if there was none. */
  spared: string | null;
  /** Results since the last one of a job that its key has held. */
  foreignResults: number;
  registering: boolean;
  /** True if it is about to be closed: frames that still arrive change nothing. */
  leaving: boolean;
};

/** The methods of the platform that sockets need. */
type Platform = Pick<DurableObjectState, "acceptWebSocket" | "getWebSockets" | "setWebSocketAutoResponse" | "getWebSocketAutoResponseTimestamp">;

/** Closes a socket. Does nothing if it is closed already. */
export function hangUp(ws: WebSocket, code: number, reason?: string): void {
  try {
    ws.close(code, reason);
  } catch {
    // It is closed already.
  }
}

/** The attachment with no time in the future: if the clock was set back since, a silent socket or an old tier must not stay longer. */
function asOf(now: number, attachment: Attachment): Attachment {
  const { openedAt, seenAt, worker } = attachment;
  const times = { openedAt: Math.min(openedAt, now), seenAt: Math.min(seenAt, now) };
  if (worker === null) return { ...attachment, ...times };
  return { ...attachment, ...times, worker: { ...worker, tierDue: Math.min(worker.tierDue, now + TIMING.stakeRefresh) } };
}

/** The worker sockets of one hub, by connection id. A socket is disposable; its identity is its attachment. */
export class Sockets {
  readonly #ctx: Platform;
  readonly #conns = new Map<string, Conn>();
  /** Unregistered sockets, oldest first. */
  readonly #unregistered = new Map<string, Conn>();
  /** The number of sockets of each client. */
  readonly #perClient = new Map<string, number>();
  readonly #bySocket = new WeakMap<WebSocket, Conn>();

  constructor(ctx: Platform) {
    this.#ctx = ctx;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(HEARTBEAT, HEARTBEAT_ACK));
  }

  get size(): number {
    return this.#conns.size;
  }

  get unregisteredCount(): number {
    return this.#unregistered.size;
  }

  /** The number of sockets of this client. */
  countOf(client: string): number {
    return this.#perClient.get(client) ?? 0;
  }

  /** Accepts a new socket. */
  accept(ws: WebSocket, attachment: Attachment): Conn {
    this.#ctx.acceptWebSocket(ws);
    ws.serializeAttachment(attachment);
    return this.#keep(ws, attachment);
  }

  /** Finds the sockets that survived the loss of the hub's memory, in the order in which they were opened. */
  reload(now: number): Conn[] {
    this.#conns.clear();
    this.#unregistered.clear();
    this.#perClient.clear();
    const found: { ws: WebSocket; attachment: Attachment }[] = [];
    for (const ws of this.#ctx.getWebSockets()) {
      const attachment = Attachment.safeParse(ws.deserializeAttachment());
      if (ws.readyState !== WebSocket.OPEN) continue;
      if (attachment.success) found.push({ ws, attachment: attachment.data });
      else ws.close(1012, "unknown socket");
    }
    // The platform lists the newest first.
    return found.toSorted((a, b) => a.attachment.openedAt - b.attachment.openedAt).map(({ ws, attachment }) => this.#keep(ws, asOf(now, attachment)));
  }

  of(ws: WebSocket): Conn | undefined {
    const conn = this.#bySocket.get(ws) ?? this.#byAttachment(ws);
    return conn !== undefined && this.isHere(conn) ? conn : undefined;
  }

  /** True if the hub still has this socket and will not close it in this turn. */
  isHere(conn: Conn): boolean {
    return this.#conns.get(conn.attachment.conn) === conn && !conn.leaving;
  }

  get(id: string): Conn | undefined {
    return this.#conns.get(id);
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

  /** The workers that take LLM jobs, with the models that they announced [JB10]. */
  *llmWorkers(): Generator<Announcing, void, undefined> {
    for (const { conn, worker } of this.registered()) {
      if (worker.draining || !worker.capabilities.includes("LLM_INFER")) continue;
      yield { models: worker.models === "" ? [] : worker.models.split("\n"), connectedAt: conn.attachment.openedAt };
    }
  }

  /** Stores the worker that registered on the socket. */
  identify(conn: Conn, worker: Registered): void {
    conn.attachment = { ...conn.attachment, worker };
    conn.ws.serializeAttachment(conn.attachment);
    this.#unregistered.delete(conn.attachment.conn);
  }

  /** Notes that the socket has sent something. */
  heard(conn: Conn, now: number): void {
    conn.seenAt = now;
    // Written from time to time, so that a hub that lost its memory knows which sockets were silent.
    if (now - conn.attachment.seenAt < TUNING.seenSaved) return;
    conn.attachment.seenAt = now;
    conn.ws.serializeAttachment(conn.attachment);
  }

  /** Notes that its worker got a job, for the order "least recently used" after a loss of memory. */
  used(id: string, now: number): void {
    const conn = this.#conns.get(id);
    if (conn?.attachment.worker) this.identify(conn, { ...conn.attachment.worker, lastUsedAt: now });
  }

  /** Notes that its worker takes no more jobs, for after a loss of memory. */
  drain(conn: Conn): void {
    if (conn.attachment.worker) this.identify(conn, { ...conn.attachment.worker, draining: true });
  }

  /** When a socket last sent something, including heartbeats that the platform answered; ms since the epoch. */
  lastSeen(id: string): number {
    const conn = this.#conns.get(id);
    if (conn === undefined) return 0;
    const beat = this.#ctx.getWebSocketAutoResponseTimestamp(conn.ws)?.getTime() ?? 0;
    return beat > Date.now() + TUNING.clockSlack ? conn.seenAt : Math.max(conn.seenAt, beat);
  }

  /** Ignores everything from a socket that will be closed at the end of this turn. */
  leave(id: string): void {
    const conn = this.#conns.get(id);
    if (conn !== undefined) conn.leaving = true;
  }

  /** Sends a frame; false if the socket is gone. */
  send(id: string, frame: CoordinatorFrame | string): boolean {
    const conn = this.#conns.get(id);
    if (conn === undefined) return false;
    try {
      conn.ws.send(typeof frame === "string" ? frame : JSON.stringify(frame));
      return true;
    } catch {
      return false;
    }
  }

  /** Closes a socket and forgets it, so that frames that still arrive change nothing. */
  close(id: string, code: number, reason: string): void {
    const conn = this.#conns.get(id);
    if (conn === undefined) return;
    this.forget(conn);
    hangUp(conn.ws, code, reason);
  }

  forget(conn: Conn): void {
    if (this.#conns.delete(conn.attachment.conn)) this.#count(conn.attachment.client, -1);
    this.#unregistered.delete(conn.attachment.conn);
  }

  #keep(ws: WebSocket, attachment: Attachment): Conn {
    const conn: Conn = {
      ws,
      attachment,
      seenAt: attachment.seenAt,
      badFrames: 0,
      buckets: null,
      spared: null,
      foreignResults: 0,
      registering: false,
      leaving: false,
    };
    this.#conns.set(attachment.conn, conn);
    this.#count(attachment.client, 1);
    this.#bySocket.set(ws, conn);
    if (attachment.worker === null) this.#unregistered.set(attachment.conn, conn);
    return conn;
  }

  #count(client: string, change: 1 | -1): void {
    const count = this.countOf(client) + change;
    if (count === 0) this.#perClient.delete(client);
    else this.#perClient.set(client, count);
  }

  #byAttachment(ws: WebSocket): Conn | undefined {
    const attachment = Attachment.safeParse(ws.deserializeAttachment());
    return attachment.success ? this.#conns.get(attachment.data.conn) : undefined;
  }
}
