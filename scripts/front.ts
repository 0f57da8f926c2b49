// The front before workerd: it passes connections on, at most so many, and the frames of WebSockets only as frame-guard.ts allows. workerd itself reads pings,
// empty frames and unfinished messages without limits, and ends when it may open no more files. It knows of HTTP only what tells where frames begin.
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { CLOSE } from "../src/protocol/worker-messages.ts";
import { codeOf } from "../src/worker/node/atomic-files.ts";
import { CLOSE_FRAME, closeFrame, FrameGuard, FrameReader, type Refusal } from "./frame-guard.ts";
import { type Client, type ClientOptions, Clients, isOfThisMachine } from "./front-clients.ts";
import { RequestReader } from "./front-requests.ts";

/** Files that workerd needs for itself. */
const OWN_FILES = 128;
/** Files that workerd opens for one connection at most: a worker's socket needs two. */
const FILES_PER_CONNECTION = 3;
const LEAST = 8;
/** More would use up the ports of the loopback interface, where workerd has one. */
const MOST = 20_000;
/** When a connection to workerd is tried again that the system could not queue. */
const AGAIN_MS = 50;

/** A client that reads nothing of what waits for it for so long is dropped: workerd would keep all that follows. */
export const STALLED_MS = 60_000;
/**
 * So many connections may have a client that reads nothing. For one more, the client with the most of them loses its oldest one. workerd keeps up to about
 * 1 MiB for each. Who reads slowly is hardly ever among them: first the buffers of the system must be full.
 */
export const MOST_STALLED = 128;
/** A WebSocket on which its client sends nothing for so long is dropped. A worker sends a heartbeat every 10 s. */
export const SILENT_MS = 90_000;
/** How often these times are looked at. */
const SWEEP_MS = 5_000;
/** How long a client may take to read its close frame. */
const CLOSING_MS = 5_000;

const HEAD_END = "\r\n\r\n";
/**
 * How workerd's switch to WebSocket begins. No body of the coordinator has these bytes: JSON, events and pages have no raw CR. So a search finds each switch,
 * and nothing else.
 */
const SWITCHED = "HTTP/1.1 101 Switching Protocols\r\n";
/** The first byte of a TLS connection (RFC 8446, 5.1): somebody wrote https:// for http://. */
const TLS_HANDSHAKE = 0x16;
const NOTHING = Buffer.alloc(0);
const READ = Buffer.allocUnsafeSlow(64 * 1024);

/** Where workerd is on this machine: its port, or the path of its Unix socket. */
export type WorkerdAddress = { host: string; port: number } | { path: string };

/** What a front is told. */
export type FrontOptions = ClientOptions & {
  host: string;
  port: number;
  to: WorkerdAddress;
  /** Connections at the same time; one more is closed at once. */
  most: number;
  /** The header in which workerd is told the address of a client; null if a proxy names it. Nobody else may know its name. */
  peerHeader: string | null;
};

/** The clock of a front, in ms, how often it looks at its connections, how many of them may stall, and who they are. Tests have their own. */
type FrontTuning = { now: () => number; sweepMs: number; mostStalled: number; addressOf: (socket: Socket) => string };
const TUNING: FrontTuning = {
  ...{ now: () => performance.now(), sweepMs: SWEEP_MS, mostStalled: MOST_STALLED },
  addressOf: ({ remoteAddress = "" }) => remoteAddress,
};

/** How many connections workerd can have if it may open so many files. */
export function connectionsFor(files: number): number {
  return Math.min(MOST, Math.max(LEAST, Math.floor((files - OWN_FILES) / FILES_PER_CONNECTION)));
}

/** A front that listens. `endSockets` ends each WebSocket with 1012: the coordinator stops. */
export type Front = Server & { endSockets(): void };

/** Passes connections on to workerd. Resolves when it listens. */
export async function listenInFront(options: FrontOptions, tuning: FrontTuning = TUNING): Promise<Front> {
  const { now: clock, sweepMs, mostStalled, addressOf } = tuning;
  const { peerHeader } = options;
  const clients = new Clients(options);
  const passages = new Set<Passage>();
  const parts = { clients, stalled: new Set<Passage>(), mostStalled, messages: options.messages, isUnix: "path" in options.to, now: clock };
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (client) => {
    const now = clock();
    const address = addressOf(client);
    const peer = clients.ofPeer(address, now);
    if (peer !== null && !clients.open(peer, now)) {
      client.destroy();
      return;
    }
    const mark = peerHeader === null || isOfThisMachine(address) ? null : `${peerHeader}: ${address}\r\n`;
    let passage: Passage | null = null;
    client.on("error", () => {});
    client.once("close", () => {
      if (peer !== null && passage === null) clients.close(peer, clock());
      if (passage !== null) passages.delete(passage);
    });
    reach(
      options.to,
      client,
      (chunk) => passage?.fromWorkerd(chunk) ?? true,
      (workerd) => {
        passage = new Passage({ client, workerd, peer, mark }, parts);
        passages.add(passage);
        client.resume();
      },
    );
  });
  const sweep = setInterval(() => {
    const now = clock();
    for (const passage of passages) passage.sweep(now);
    clients.forget(now);
  }, sweepMs);
  sweep.unref();
  server.once("close", () => clearInterval(sweep));
  server.maxConnections = options.most;
  server.listen({ host: options.host, port: options.port });
  await once(server, "listening");
  // One connection that the system could not give ends nothing.
  server.on("error", (error) => console.error(`a connection was not accepted: ${error.message}`));
  return Object.assign(server, { endSockets: () => passages.forEach((passage) => passage.endSocket()) });
}

/**
 * Connects to workerd for a client. If more connections wait there than the system keeps, a Unix socket refuses the next one at once, where TCP would try again
 * by itself. `read` gets what workerd sends, and returns false to get nothing more until `resume`.
 */
function reach(to: WorkerdAddress, client: Socket, read: (chunk: Buffer) => boolean, reached: (workerd: Socket) => void): void {
  // One buffer for all connections: a copy of what was read costs less than 64 KiB of new memory for each read.
  const onread = { buffer: READ, callback: (length: number): boolean => read(Buffer.from(READ.subarray(0, length))) };
  const workerd = connect({ ...to, allowHalfOpen: true, noDelay: true, onread });
  workerd.once("connect", () => reached(workerd));
  workerd.on("error", (error) => {
    if (codeOf(error) === "EAGAIN") setTimeout(() => reach(to, client, read, reached), AGAIN_MS);
    else client.destroy();
  });
}

/** What all connections of a front share. `stalled` are those whose client reads nothing, in the order in which they began to wait. */
type Parts = { clients: Clients; stalled: Set<Passage>; mostStalled: number; messages: FrontOptions["messages"]; isUnix: boolean; now: () => number };

/** One connection of a client, and the one to workerd that belongs to it. */
class Passage {
  readonly #client: Socket;
  readonly #workerd: Socket;
  readonly #parts: Parts;
  /** Who is counted for this connection, and who answers for its frames; null if nobody is known. */
  #owner: Client | null;
  readonly #requests: RequestReader;
  /** The last bytes of workerd's, in which a switch may begin. */
  #tail: Buffer = NOTHING;
  /** The head of an upgrade, if it is the last thing that was passed on. */
  #upgrade: string | null = null;
  /** Whether workerd has answered since that head, perhaps an earlier request. */
  #isAnswered = false;
  /** What follows the head, while workerd has not answered. */
  #buffered: Buffer = NOTHING;
  #guard: FrameGuard | null = null;
  readonly #answers = new FrameReader();
  /** What the client sent after the head can be read now, as soon as the answer to the head has been written. */
  #isReleased = false;
  /** Whether workerd has begun its close frame. */
  #isClosing = false;
  #stalledSince: number | null = null;
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
      this.#stalledSince = null;
      parts.stalled.delete(this);
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

  /** Ends the connection if its client is too slow. */
  sweep(now: number): void {
    if (this.#stalledSince !== null && now - this.#stalledSince > STALLED_MS) this.#end();
    else if (this.#guard?.isLate(now) === true) this.#refuse({ code: 1008, reason: "a message that does not end" });
    else if (this.#guard !== null && now - this.#heardAt > SILENT_MS) this.#end();
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
    // Otherwise such a client would hear nothing until the time for its head is over.
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

  /** Ends a connection whose requests are not certain: one that does not name its client could be among them. Nor is anything passed on for a CONNECT. */
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
      this.#stall();
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

  #stall(): void {
    if (this.#stalledSince !== null) return;
    const { stalled, mostStalled, now } = this.#parts;
    this.#stalledSince = now();
    stalled.add(this);
    if (stalled.size <= mostStalled) return;
    // So a client with many connections cannot have those of another one dropped.
    const shares = [...Map.groupBy(stalled, (passage) => passage.#owner).values()];
    const [first] = shares.reduce((one, other) => (other.length > one.length ? other : one));
    if (first !== undefined) first.#end();
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
      this.#end();
      return;
    }
    const { clients, messages, now } = this.#parts;
    this.#heardAt = now();
    if (this.#owner === null) {
      const named = clients.ofHead(this.#upgrade, this.#heardAt);
      if (named !== null && !clients.open(named, this.#heardAt)) {
        this.#end();
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

  /** Says why, if a frame of workerd's has just ended, and ends both connections. workerd sees a broken one. */
  #refuse(refusal: Refusal): void {
    this.#isRefused = true;
    this.#workerd.destroy();
    if (!this.#answers.isAtBorder || this.#stalledSince !== null) {
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

  /** Ends the client's connection. What it still sends is read and thrown away, because a reset could overtake the last bytes. */
  #hangUp(last: Uint8Array | string = NOTHING): void {
    this.#client.end(last);
    this.#client.resume();
    setTimeout(() => this.#client.destroy(), CLOSING_MS).unref();
  }

  #end(): void {
    this.#isRefused = true;
    this.#parts.stalled.delete(this);
    this.#client.destroy();
    this.#workerd.destroy();
  }

  #forget(): void {
    this.#parts.stalled.delete(this);
    this.#guard?.release();
    if (this.#owner !== null) this.#parts.clients.close(this.#owner, this.#parts.now());
  }
}
