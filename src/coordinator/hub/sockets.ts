import * as z from "zod";
import { JobType } from "../../protocol/job.ts";
import { TIMING } from "../../protocol/limits.ts";
import type { Announcing } from "../../protocol/models.ts";
import { type CoordinatorFrame, HEARTBEAT, HEARTBEAT_ACK, Tier } from "../../protocol/worker-messages.ts";
import type { TokenBucket } from "../rates.ts";
import { TUNING } from "../tuning.ts";

/** The identity of a socket: all that outlives the hub's memory, so nothing else may be needed to go on. Times in ms. */
const Attachment = z.object({
  conn: z.string(),
  /** What the challenge said; a registration is signed over both. */
  nonce: z.string(),
  host: z.string(),
  /** Who dialled, as far as the router can tell [LM2]. */
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
      /** When its stake is to be read again, ms since the epoch. */
      tierDue: z.number(),
      acks: z.boolean(),
      registeredAt: z.number(),
      context: z.number(),
      lastUsedAt: z.number(),
      draining: z.boolean(),
      /** Names of its models, one a line: the attachment is written at every claim, and one text costs no more the more names are in it [JB10]. */
      models: z.string(),
    })
    .nullable(),
});
export type Attachment = z.infer<typeof Attachment>;
/** Who registered on a socket. */
export type Registered = NonNullable<Attachment["worker"]>;

/** One live worker socket. */
export type Conn = {
  ws: WebSocket;
  attachment: Attachment;
  seenAt: number;
  badFrames: number;
  /** How much it has sent lately; null before its first frame. */
  bucket: TokenBucket | null;
  registering: boolean;
  /** Its close is about to be sent: what it still delivers counts for nothing. */
  leaving: boolean;
};

/** What the platform does for sockets. */
type Platform = Pick<DurableObjectState, "acceptWebSocket" | "getWebSockets" | "setWebSocketAutoResponse" | "getWebSocketAutoResponseTimestamp">;

/** Closes a socket; one that is closed on both sides already says nothing. */
export function hangUp(ws: WebSocket, code: number, reason?: string): void {
  try {
    ws.close(code, reason);
  } catch {
    // Nothing left to close.
  }
}

/** An attachment whose times are not in the future: a clock that has been put back since must not keep a silent socket, nor an old tier. */
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
  readonly #strangers = new Map<string, Conn>();
  /** How many sockets each client has. */
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
    return this.#strangers.size;
  }

  /** How many sockets of this client there are. */
  countOf(client: string): number {
    return this.#perClient.get(client) ?? 0;
  }

  /** Takes over a new socket. */
  accept(ws: WebSocket, attachment: Attachment): Conn {
    this.#ctx.acceptWebSocket(ws);
    ws.serializeAttachment(attachment);
    return this.#keep(ws, attachment);
  }

  /** Finds the sockets that outlived the hub's memory, in the order in which they were opened. */
  reload(now: number): Conn[] {
    this.#conns.clear();
    this.#strangers.clear();
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

  /** Whether this socket is still one of the hub's and is to stay so. */
  isHere(conn: Conn): boolean {
    return this.#conns.get(conn.attachment.conn) === conn && !conn.leaving;
  }

  get(id: string): Conn | undefined {
    return this.#conns.get(id);
  }

  /** The unregistered sockets, the one that has been open for longest first. */
  unregistered(): Iterable<Conn> {
    return this.#strangers.values();
  }

  /** The sockets that a worker has registered on, with their workers. */
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

  /** Keeps who registered on the socket. */
  identify(conn: Conn, worker: Registered): void {
    conn.attachment = { ...conn.attachment, worker };
    conn.ws.serializeAttachment(conn.attachment);
    this.#strangers.delete(conn.attachment.conn);
  }

  /** Notes a sign of life. */
  heard(conn: Conn, now: number): void {
    conn.seenAt = now;
    // Written now and then, so that a hub that slept knows who was silent.
    if (now - conn.attachment.seenAt < TUNING.seenSaved) return;
    conn.attachment.seenAt = now;
    conn.ws.serializeAttachment(conn.attachment);
  }

  /** Notes that its worker was given a job, for "least recently used" after a sleep. */
  used(id: string, now: number): void {
    const conn = this.#conns.get(id);
    if (conn?.attachment.worker) this.identify(conn, { ...conn.attachment.worker, lastUsedAt: now });
  }

  /** Notes that its worker takes no more jobs, for after a sleep. */
  drain(conn: Conn): void {
    if (conn.attachment.worker) this.identify(conn, { ...conn.attachment.worker, draining: true });
  }

  /** When a socket was last heard, heartbeats that the platform answered included. */
  lastSeen(id: string): number {
    const conn = this.#conns.get(id);
    if (conn === undefined) return 0;
    const beat = this.#ctx.getWebSocketAutoResponseTimestamp(conn.ws)?.getTime() ?? 0;
    return beat > Date.now() + TUNING.clockSlack ? conn.seenAt : Math.max(conn.seenAt, beat);
  }

  /** Hears nothing more from a socket that is to be closed at the end of this turn. */
  leave(id: string): void {
    const conn = this.#conns.get(id);
    if (conn !== undefined) conn.leaving = true;
  }

  /** Sends a frame; false when the socket is not there any more. */
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

  /** Closes a socket and forgets it, so that whatever it still delivers changes nothing. */
  close(id: string, code: number, reason: string): void {
    const conn = this.#conns.get(id);
    if (conn === undefined) return;
    this.forget(conn);
    hangUp(conn.ws, code, reason);
  }

  forget(conn: Conn): void {
    if (this.#conns.delete(conn.attachment.conn)) this.#count(conn.attachment.client, -1);
    this.#strangers.delete(conn.attachment.conn);
  }

  #keep(ws: WebSocket, attachment: Attachment): Conn {
    const conn: Conn = { ws, attachment, seenAt: attachment.seenAt, badFrames: 0, bucket: null, registering: false, leaving: false };
    this.#conns.set(attachment.conn, conn);
    this.#count(attachment.client, 1);
    this.#bySocket.set(ws, conn);
    if (attachment.worker === null) this.#strangers.set(attachment.conn, conn);
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
