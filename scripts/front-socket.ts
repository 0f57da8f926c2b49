// A worker's socket that ends at the front: the front is its WebSocket server, and its frames go to the hub on the channel with those of others. They may come
// only as frame-guard.ts allows. A socket that is asked for in an unusual way is passed on as bytes (front-passage.ts).
import { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { LONG } from "../src/coordinator/http/channel-messages.ts";
import { SECOND } from "../src/protocol/times.ts";
import { CLOSE, HEARTBEAT, HEARTBEAT_ACK } from "../src/protocol/worker-messages.ts";
import { FrameGuard, MOST_MESSAGE_BYTES, type Refusal } from "./frame-guard.ts";
import type { HubChannel, ShortAnswer } from "./front-channel.ts";
import type { Client } from "./front-clients.ts";
import { CLOSING_MS, type Parts, SILENT_MS } from "./front-passage.ts";
import type { ShortRequest } from "./front-short-requests.ts";

/** The hub is told that a socket has been quiet for so long. It asks for times of 15 s and more [WS6, WS7], and a worker sends a heartbeat every 10 s. */
export const QUIET_MS = 13 * SECOND;
/** The code of a connection that broke (RFC 6455, 7.1.5). */
const BROKEN = 1006;
const NOTHING = Buffer.alloc(0);
const BEAT = Buffer.from(HEARTBEAT);

const SERVER = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: MOST_MESSAGE_BYTES });

type SocketParts = Parts & { channel: Pick<HubChannel, "connect" | "frame" | "note" | "holds"> };

/** The socket of one worker. */
export class WorkerSocket {
  readonly #client: Socket;
  readonly #request: ShortRequest;
  readonly #parts: SocketParts;
  /** Who is counted for this connection, and who answers for its frames; null if nobody is known. */
  #owner: Client | null;
  /** Its number on the channel. */
  #id = 0;
  #ws: WebSocket | null = null;
  /** What came for it before it was open. */
  #early: (() => void)[] = [];
  #guard: FrameGuard | null = null;
  /** When its client last sent anything, and when a message: pings are no sign of life of a worker [WS6]. */
  #heardAt = 0;
  #spokeAt = 0;
  /** Whether the hub was told that it is quiet, and whether it has sent a heartbeat of which the hub was not told. */
  #isQuiet = false;
  #hasBeaten = false;
  /** Since when it is closed from this side; nothing that still comes counts. */
  #closingAt: number | null = null;

  /** `peer` is counted already. `request` is the upgrade. */
  constructor({ client, peer, request }: { client: Socket; peer: Client | null; request: ShortRequest }, parts: SocketParts) {
    this.#client = client;
    this.#owner = peer;
    this.#request = request;
    this.#parts = parts;
  }

  get owner(): Client | null {
    return this.#owner;
  }

  /** Asks the hub. With 101 the socket must be opened or given up. */
  dial(answered: (answer: ShortAnswer) => void): void {
    const reader = {
      frame: (text: string | Buffer): void => this.#whenOpen(() => this.#send(text)),
      close: (code: number, reason: string): void => this.#whenOpen(() => this.#close(code, reason)),
    };
    this.#id = this.#parts.channel.connect(this.#request, reader, answered);
  }

  /** The client has left before the socket was open. */
  giveUp(): void {
    this.#parts.channel.note(this.#id, { closed: BROKEN });
  }

  /** Switches to WebSocket. `rest` is what the client has sent after its upgrade. False if its client has too many connections: then they end. */
  open(rest: Buffer): boolean {
    const { clients, messages, now, stalls } = this.#parts;
    this.#heardAt = this.#spokeAt = now();
    if (this.#owner === null) {
      const named = clients.ofHead(this.#request.headers.map((member) => member.join(": ")).join("\n"), this.#heardAt);
      if (named !== null && !clients.open(named, this.#heardAt)) {
        this.giveUp();
        this.#client.destroy();
        return false;
      }
      this.#owner = named;
    }
    this.#guard = new FrameGuard(messages, this.#owner?.frames ?? null, this.#heardAt);
    this.#client.once("close", () => this.#forget());
    // Before the server reads it.
    this.#client.on("data", (chunk: Buffer) => this.#judge(chunk)).on("drain", () => stalls.end(this));
    const upgrade = Object.assign(new IncomingMessage(this.#client), { method: "GET", headers: Object.fromEntries(this.#request.headers) });
    SERVER.handleUpgrade(upgrade, this.#client, NOTHING, (ws) => this.#begin(ws, rest));
    return true;
  }

  #begin(ws: WebSocket, rest: Buffer): void {
    this.#ws = ws;
    ws.on("message", (data: Buffer, isBinary) => this.#read(data, isBinary));
    // Its close follows.
    ws.on("error", () => {});
    ws.once("close", (code) => this.#parts.channel.note(this.#id, { closed: code }));
    for (const act of this.#early.splice(0)) act();
    if (rest.length > 0) this.#client.unshift(rest);
    // It is not read while it waits for an answer and has sent much.
    this.#client.resume();
  }

  #forget(): void {
    const { clients, now, stalls } = this.#parts;
    stalls.end(this);
    this.#guard?.release();
    if (this.#owner !== null) clients.close(this.#owner, now());
    // The connection ended before it was a WebSocket.
    if (this.#ws === null) this.giveUp();
  }

  #whenOpen(act: () => void): void {
    if (this.#ws === null) this.#early.push(act);
    else act();
  }

  /** Ends the connection if its client is too slow. Tells the hub if it is quiet. */
  sweep(now: number): void {
    // Nobody has read what it sent meanwhile.
    if (this.#ws?.isPaused === true) {
      this.#heardAt = this.#spokeAt = now;
      this.#guard?.excuse(now);
    }
    const ms = now - this.#spokeAt;
    if (this.#parts.stalls.isLate(this, now) || now - this.#heardAt > SILENT_MS) this.end();
    else if (this.#closingAt !== null && now - this.#closingAt > CLOSING_MS) this.end();
    else if (this.#guard?.isLate(now) === true) this.#refuse({ code: 1008, reason: "a message that does not end" });
    else if (!this.#isQuiet && ms >= QUIET_MS) {
      this.#isQuiet = true;
      this.#parts.channel.note(this.#id, { quiet: ms });
    }
  }

  /** The coordinator stops. */
  endSocket(): void {
    this.#close(CLOSE.restart, "the coordinator restarts");
  }

  /** Ends the connection at once. */
  end(): void {
    this.#ws?.terminate();
  }

  /** Looks at bytes before they are read as frames. */
  #judge(chunk: Buffer): void {
    const now = this.#parts.now();
    this.#heardAt = now;
    const refusal = this.#guard?.read(chunk, now) ?? null;
    // A worker that is closed and goes on as before would keep the WebSocket library busy.
    if (refusal !== null && this.#closingAt !== null) this.end();
    else if (refusal !== null) this.#refuse(refusal);
    else if ((this.#guard?.unfinishedBytes ?? 0) > LONG) this.#holdBack(true);
  }

  /** Reads nothing more until the hub has read enough, so that frames do not pile up here. */
  #holdBack(isLong: boolean): void {
    const ws = this.#ws;
    if (ws === null || ws.isPaused || !this.#parts.channel.holds(isLong, () => ws.resume())) return;
    ws.pause();
  }

  #read(data: Buffer, isBinary: boolean): void {
    const { channel } = this.#parts;
    if (this.#closingAt !== null) return;
    this.#spokeAt = this.#heardAt;
    if (!isBinary && BEAT.equals(data)) return this.#beat();
    if (this.#hasBeaten) channel.note(this.#id, { quiet: 0 });
    this.#hasBeaten = false;
    this.#isQuiet = false;
    if (isBinary) channel.note(this.#id, { binary: true });
    else channel.frame(this.#id, data);
    this.#holdBack(data.length > LONG);
  }

  /** Answers a heartbeat, as the platform does, without the hub [WS6]. */
  #beat(): void {
    this.#send(HEARTBEAT_ACK);
    this.#hasBeaten = !this.#isQuiet;
    if (this.#isQuiet) this.#parts.channel.note(this.#id, { quiet: 0 });
    this.#isQuiet = false;
  }

  #send(text: string | Buffer): void {
    const { stalls, now } = this.#parts;
    this.#ws?.send(text, { binary: false });
    if (this.#client.writableNeedDrain) stalls.begin(this, now());
  }

  #close(code: number, reason: string): void {
    if (this.#closingAt !== null) return;
    this.#closingAt = this.#parts.now();
    this.#ws?.close(code, reason);
  }

  /** Says why, and reads no frame any more. What the client still sends is thrown away, because a reset could overtake the last bytes. */
  #refuse({ code, reason }: Refusal): void {
    this.#close(code, reason);
    this.#client.removeAllListeners("data").resume().end();
  }
}
