// One connection of a client, and the one to workerd that belongs to it: the front passes bytes on between them, and the frames of a WebSocket only as
// frame-guard.ts allows. It reads only so much of HTTP that it knows where frames begin.
import { connect, type Socket } from "node:net";
import { CLOSE } from "../src/protocol/worker-messages.ts";
import { codeOf } from "../src/worker/node/error-code.ts";
import { CLOSE_FRAME, closeFrame, FrameGuard, FrameReader, type Refusal } from "./frame-guard.ts";
import type { Client, ClientOptions, Clients } from "./front-clients.ts";
import { RequestReader } from "./front-requests.ts";
import type { Stalls } from "./front-stalls.ts";

/** A WebSocket on which its client sends nothing for so long is dropped. A worker sends a heartbeat every 10 s. */
export const SILENT_MS = 90_000;
/** How long a client may take to read its close frame. */
export const CLOSING_MS = 5_000;
/** The pause before another try to connect to workerd, after the system could not queue the connection. */
const AGAIN_MS = 50;

const HEAD_END = "\r\n\r\n";
/**
 * The first bytes of workerd's switch to WebSocket. No body of the coordinator has them: JSON, events and pages have no raw CR. So a search for them finds
 * every switch and nothing else.
 */
const SWITCHED = "HTTP/1.1 101 Switching Protocols\r\n";
/** The first byte of a TLS connection (RFC 8446, 5.1): somebody wrote https:// for http://. */
const TLS_HANDSHAKE = 0x16;
const NOTHING = Buffer.alloc(0);
const READ = Buffer.allocUnsafeSlow(64 * 1024);

/** Where workerd is on this machine: its port, or the path of its Unix socket. */
export type WorkerdAddress = { host: string; port: number } | { path: string };

/**
 * Connects to workerd for a client. If more connections wait there than the system keeps, a Unix socket refuses the next one at once, and this tries again; TCP
 * tries again by itself. `read` gets what workerd sends, and returns false to get nothing more until `resume`.
 */
export function reach(to: WorkerdAddress, client: Socket, read: (chunk: Buffer) => boolean, reached: (workerd: Socket) => void): void {
  // One buffer for all connections: a copy of what was read costs less than 64 KiB of new memory for each read.
  const onread = { buffer: READ, callback: (length: number): boolean => read(Buffer.from(READ.subarray(0, length))) };
  const workerd = connect({ ...to, allowHalfOpen: true, noDelay: true, onread });
  workerd.once("connect", () => reached(workerd));
  workerd.on("error", (error) => {
    if (codeOf(error) !== "EAGAIN") client.destroy();
    else setTimeout(() => client.destroyed || reach(to, client, read, reached), AGAIN_MS);
  });
}

/** What all connections of a front share. */
export type Parts = { clients: Clients; stalls: Stalls; messages: ClientOptions["messages"]; isUnix: boolean; now: () => number };

/** One connection of a client, and the one to workerd that belongs to it. */
export class Passage {
  readonly #client: Socket;
  readonly #workerd: Socket;
  readonly #parts: Parts;
  /** The client that this connection and its frames count for; null if it is not known. */
  #owner: Client | null;
  readonly #requests: RequestReader;
  /** The last bytes of workerd's, in which a switch may begin. */
  #tail: Buffer = NOTHING;
  /** The head of an upgrade, if it is the last thing that was passed on. */
  #upgrade: string | null = null;
  /** Whether workerd has answered since that head; the answer may belong to an earlier request. */
  #isAnswered = false;
  /** What follows the head, while workerd has not answered. */
  #buffered: Buffer = NOTHING;
  #guard: FrameGuard | null = null;
  readonly #answers = new FrameReader();
  /** What the client sent after the head can be read now, as soon as the answer to the head has been written. */
  #isReleased = false;
  /** Whether workerd has begun its close frame. */
  #isClosing = false;
  #heardAt = 0;
  #isRefused = false;

  /** `peer` is counted already. `mark` is the line that names the client in each of its requests. */
  constructor({ client, workerd, peer, mark }: { client: Socket; workerd: Socket; peer: Client | null; mark: string | null }, parts: Parts) {
    this.#client = client;
    this.#workerd = workerd;
    this.#parts = parts;
    this.#owner = peer;
    this.#requests = new RequestReader((bytes) => this.#send(bytes), mark);
    client.on("data", (chunk: Buffer) => this.#fromClient(chunk));
    client.on("drain", () => {
      parts.stalls.end(this);
      workerd.resume();
    });
    workerd.on("drain", () => this.#readOn());
    client.once("end", () => this.#leave());
    workerd.once("end", () => this.#isRefused || client.end());
    // What was written before is still sent, unless the connection broke.
    client.once("close", (broke) => (broke ? this.#leave() : workerd.destroySoon()));
    workerd.once("close", (broke) => {
      if (broke) client.destroy();
      else if (!this.#isRefused) client.destroySoon();
    });
    client.once("close", () => this.#forget());
  }

  /**
   * The client has left. workerd notices an ended connection only at its next write, but a broken one at once, and then it cancels the request: a job that has
   * not started must not be paid for nobody [API9]. So a client that ends only its half gets no answer, as at nginx. The last frames of a socket must still
   * arrive.
   */
  #leave(): void {
    if (this.#guard !== null) this.#workerd.end();
    // A Unix socket that is closed counts as broken on its other side; a TCP connection only if it is reset.
    else if (this.#parts.isUnix) this.#workerd.destroy();
    else this.#workerd.resetAndDestroy();
  }

  get owner(): Client | null {
    return this.#owner;
  }

  /** Takes what the client sent before. */
  begin(bytes: Buffer): void {
    if (bytes.length > 0) this.#fromClient(bytes);
  }

  /** Ends the connection if its client is too slow. */
  sweep(now: number): void {
    if (this.#parts.stalls.isLate(this, now)) this.end();
    else if (this.#guard?.isLate(now) === true) this.#refuse({ code: 1008, reason: "a message that does not end" });
    else if (this.#guard !== null && now - this.#heardAt > SILENT_MS) this.end();
  }

  /** Ends the connection if it is a WebSocket. */
  endSocket(): void {
    if (this.#guard !== null && !this.#isRefused) this.#refuse({ code: CLOSE.restart, reason: "the coordinator restarts" });
  }

  #fromClient(chunk: Buffer): void {
    if (this.#isRefused) return;
    if (this.#guard !== null) this.#frames(chunk, this.#guard);
    else if (this.#upgrade !== null && !this.#isAnswered) this.#buffer(chunk);
    else {
      this.#upgrade = null;
      this.#request(chunk);
    }
  }

  /** Passes bytes of requests on, up to the end of an upgrade's head: what follows waits until workerd has answered. */
  #request(chunk: Buffer): void {
    // Otherwise such a client would get no answer until the time limit of its head.
    if (chunk[0] === TLS_HANDSHAKE && this.#workerd.bytesWritten === 0) return this.#refuseRequest();
    // The head and the body of a request are one write.
    this.#workerd.cork();
    const upgrade = this.#requests.read(chunk);
    this.#workerd.uncork();
    if (this.#requests.isRefused) this.#refuseRequest();
    if (upgrade === null) return;
    this.#upgrade = upgrade.head;
    this.#isAnswered = false;
    this.#buffer(upgrade.rest);
  }

  /** Ends a connection whose requests are not certain: one of them might not name its client. A connection with a CONNECT ends here too. */
  #refuseRequest(): void {
    this.#isRefused = true;
    const isFirst = this.#workerd.bytesWritten === 0;
    this.#workerd.destroy();
    // RFC 9110, 15.5.6 wants `Allow`; it is empty because no method is for the target of a tunnel.
    const status = this.#requests.asksForTunnel ? "405 Method Not Allowed\r\nAllow:" : "400 Bad Request";
    if (isFirst) this.#hangUp(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    else this.#client.destroy();
  }

  /** Nothing more is read until workerd answers, so at most two pieces of 64 KiB wait here. */
  #buffer(chunk: Buffer): void {
    this.#buffered = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk]);
    if (this.#buffered.length > 0) this.#client.pause();
  }

  #frames(chunk: Buffer, guard: FrameGuard): void {
    const now = this.#parts.now();
    this.#heardAt = now;
    const refusal = guard.read(chunk, now);
    if (refusal === null) this.#send(chunk);
    else this.#refuse(refusal);
  }

  #send(chunk: Buffer): void {
    if (chunk.length > 0 && !this.#workerd.write(chunk)) this.#client.pause();
  }

  #readOn(): void {
    if (this.#buffered.length === 0) this.#client.resume();
  }

  /** False if its client reads too slowly: then nothing more is read until `resume`. */
  fromWorkerd(chunk: Buffer): boolean {
    if (this.#isRefused) return true;
    if (this.#guard === null) this.#answer(chunk);
    else this.#readAnswers(chunk);
    if (this.#isRefused || this.#client.destroyed) return true;
    const isTaken = this.#client.write(chunk);
    if (this.#isReleased) this.#release();
    if (this.#isRefused) return true;
    if (this.#isClosing && this.#answers.isAtBorder && this.#guard?.hasMessage === false) this.#finish();
    else if (!isTaken) {
      this.#parts.stalls.begin(this, this.#parts.now());
      return false;
    }
    return true;
  }

  #readAnswers(chunk: Buffer): void {
    this.#answers.read(chunk, ({ opcode }) => {
      if (opcode === CLOSE_FRAME) this.#isClosing = true;
      return null;
    });
  }

  /** Looks for a switch to WebSocket. Without one, the bytes that waited are no frame, and are passed on. */
  #answer(chunk: Buffer): void {
    const carried = this.#tail.length;
    const all = carried === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    const at = all.indexOf(SWITCHED);
    const end = at < 0 ? -1 : all.indexOf(HEAD_END, at);
    if (end >= 0) this.#switch(all.subarray(Math.max(end + HEAD_END.length, carried)));
    else if (at >= 0) this.#tail = all.subarray(at);
    else {
      this.#tail = all.subarray(Math.max(0, all.length - SWITCHED.length + 1));
      // The beginning of an answer says already whether it is a switch, as soon as it has as many bytes.
      if (this.#upgrade !== null && all.length >= SWITCHED.length) this.#isReleased = true;
    }
  }

  /** Frames begin now, on both sides. `first` are those of workerd. */
  #switch(first: Buffer): void {
    // It switched for a head that this front did not recognize: nobody knows where the frames of the client begin.
    if (this.#upgrade === null) {
      this.end();
      return;
    }
    const { clients, messages, now } = this.#parts;
    this.#heardAt = now();
    if (this.#owner === null) {
      const named = clients.ofHead(this.#upgrade, this.#heardAt);
      if (named !== null && !clients.open(named, this.#heardAt)) {
        this.end();
        return;
      }
      this.#owner = named;
    }
    this.#guard = new FrameGuard(messages, this.#owner?.frames ?? null, this.#heardAt);
    this.#readAnswers(first);
    this.#tail = NOTHING;
    this.#isReleased = true;
  }

  #release(): void {
    this.#isReleased = false;
    this.#isAnswered = true;
    const buffered = this.#buffered;
    // Without bytes after it the head is still the last thing that was passed on, and its answer may come.
    if (buffered.length === 0) return;
    this.#buffered = NOTHING;
    this.#client.resume();
    this.#fromClient(buffered);
  }

  /** Ends both connections; workerd sees a broken one. The client gets a close frame with the reason, unless it is in the middle of another frame. */
  #refuse(refusal: Refusal): void {
    this.#isRefused = true;
    this.#workerd.destroy();
    if (!this.#answers.isAtBorder || this.#parts.stalls.has(this)) {
      this.#client.destroy();
      return;
    }
    this.#hangUp(closeFrame(refusal));
  }

  /**
   * workerd has closed the socket of a client that has never sent a message. Its answer to the close frame must not be the first thing that workerd reads: then
   * workerd would keep both connections open for as long as the hub is in memory.
   */
  #finish(): void {
    this.#isRefused = true;
    this.#workerd.destroy();
    this.#hangUp();
  }

  /** Ends the client's connection. The front reads what the client still sends and drops it, because a reset could overtake the last bytes. */
  #hangUp(last: Uint8Array | string = NOTHING): void {
    this.#client.end(last);
    this.#client.resume();
    setTimeout(() => this.#client.destroy(), CLOSING_MS).unref();
  }

  /** Ends both connections at once. */
  end(): void {
    this.#isRefused = true;
    this.#parts.stalls.end(this);
    this.#client.destroy();
    this.#workerd.destroy();
  }

  #forget(): void {
    this.#parts.stalls.end(this);
    this.#guard?.release();
    if (this.#owner !== null) this.#parts.clients.close(this.#owner, this.#parts.now());
  }
}
