// The front before workerd: it passes connections on, at most so many, and the frames of WebSockets only as frame-guard.ts allows. workerd itself reads pings,
// empty frames and unfinished messages without limits, and ends when it may open no more files. It knows of HTTP only what tells where frames begin.
import { once } from "node:events";
import { connect, createServer, isIP, type Server, type Socket } from "node:net";
import { type Flow, networkOf, shareOwner } from "../src/coordinator/rates.ts";
import { isLoopback } from "../src/protocol/text.ts";
import { ClientFrames, closeFrame, FrameGuard, FrameReader, type Refusal } from "./frame-guard.ts";

/** Files that workerd needs for itself. */
const OWN_FILES = 128;
/** Files that workerd opens for one connection at most: a worker's socket needs two. */
const FILES_PER_CONNECTION = 3;
const LEAST = 8;
/** More would use up the ports of the loopback interface. */
const MOST = 20_000;
/** Connections of one client: its sockets, as many that linger, and its requests. */
const PER_CLIENT = 1_024;

/** A client that reads nothing of what waits for it for so long is dropped: workerd would keep all that follows. */
const STALLED_MS = 60_000;
/** A WebSocket on which its client sends nothing for so long is dropped. A worker sends a heartbeat every 10 s. */
const SILENT_MS = 90_000;
const SWEEP_MS = 5_000;
/** How long a client may take to read its close frame. */
const CLOSING_MS = 5_000;

const HEAD_END = "\r\n\r\n";
const UPGRADE = /\r\nupgrade:[ \t]*websocket[ \t]*(?:\r\n|$)/i;
const LONGEST_HEAD = 32 * 1024;
/**
 * How workerd's switch to WebSocket begins. No body of the coordinator has these bytes: JSON, events and pages have no raw CR. So a search finds each switch, and
 * nothing else.
 */
const SWITCHED = "HTTP/1.1 101 Switching Protocols\r\n";
const NOTHING = Buffer.alloc(0);

/** What a front is told. */
export type FrontOptions = {
  host: string;
  port: number;
  /** The port of workerd on this machine. */
  to: number;
  /** Connections at the same time; one more is closed at once. */
  most: number;
  /** Whether one client is limited, and not only one connection. */
  limitsClients: boolean;
  /** The header that a proxy sets to the client's address; null if clients connect by themselves. */
  trustedIpHeader: string | null;
  /** The frames that the hub reads of one socket. */
  messages: Flow;
};

type Client = { name: string; connections: number; sockets: number; frames: ClientFrames };

/** How many connections workerd can hold if it may open so many files. */
export function connectionsFor(files: number): number {
  return Math.min(MOST, Math.max(LEAST, Math.floor((files - OWN_FILES) / FILES_PER_CONNECTION)));
}

/** Passes connections on to a port of this machine. Resolves when it listens. */
export async function listenInFront(options: FrontOptions): Promise<Server> {
  const clients = new Clients(options);
  const passages = new Set<Passage>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const peer = clients.ofPeer(socket.remoteAddress ?? "");
    if (peer !== null && peer.connections >= PER_CLIENT) {
      socket.destroy();
      return;
    }
    const passage = new Passage(socket, connect({ host: "127.0.0.1", port: options.to, allowHalfOpen: true, noDelay: true }), clients, peer);
    passages.add(passage);
    socket.once("close", () => passages.delete(passage));
  });
  const sweep = setInterval(() => {
    const now = performance.now();
    for (const passage of passages) passage.sweep(now);
  }, SWEEP_MS);
  sweep.unref();
  server.once("close", () => clearInterval(sweep));
  server.maxConnections = options.most;
  server.listen({ host: options.host, port: options.port });
  await once(server, "listening");
  return server;
}

/** What is counted for each client that has a connection. A client is an IPv4 address or an IPv6 /48, as in the hub. */
class Clients {
  readonly #options: FrontOptions;
  readonly #known = new Map<string, Client>();

  constructor(options: FrontOptions) {
    this.#options = options;
  }

  /** The frames that the hub reads of one socket. */
  get messages(): Flow {
    return this.#options.messages;
  }

  /** The client that connects by itself; null if it is a proxy, or may be one of this machine. */
  ofPeer(address: string): Client | null {
    if (this.#options.trustedIpHeader !== null || address === "::1" || isLoopback(networkOf(address))) return null;
    return this.#of(address);
  }

  /** The client that a proxy names in the head of a request; null if it names none. */
  ofHead(head: string): Client | null {
    const name = this.#options.trustedIpHeader?.toLowerCase();
    if (name === undefined) return null;
    const lines = head.split("\r\n").filter((line) => line.slice(0, line.indexOf(":")).toLowerCase() === name);
    const address =
      lines
        .at(-1)
        ?.slice(name.length + 1)
        .split(",")
        .at(-1)
        ?.trim() ?? "";
    return isIP(address) === 0 ? null : this.#of(address);
  }

  /** Forgets clients without a connection. */
  forget(client: Client): void {
    if (client.connections === 0 && client.sockets === 0) this.#known.delete(client.name);
  }

  #of(address: string): Client | null {
    const name = shareOwner(networkOf(address), this.#options.limitsClients);
    if (name === null) return null;
    const client = this.#known.get(name) ?? { name, connections: 0, sockets: 0, frames: new ClientFrames(this.#options.messages, performance.now()) };
    this.#known.set(name, client);
    return client;
  }
}

/** One connection of a client, and the one to workerd that belongs to it. */
class Passage {
  readonly #client: Socket;
  readonly #workerd: Socket;
  readonly #clients: Clients;
  readonly #peer: Client | null;
  /** What the client sent since workerd's last answer, as far as a head may be in it. */
  #recent: Buffer = NOTHING;
  /** The last bytes of workerd's, in which a switch may begin. */
  #tail: Buffer = NOTHING;
  /** The head of an upgrade, if it is the last thing that was passed on. */
  #upgrade: string | null = null;
  /** Whether workerd has answered since that head, perhaps an earlier request. */
  #isAnswered = false;
  /** What follows the head, while workerd has not answered. */
  #held: Buffer = NOTHING;
  #guard: FrameGuard | null = null;
  #owner: Client | null = null;
  readonly #answers = new FrameReader();
  #stalledSince: number | null = null;
  #heardAt = 0;
  #isRefused = false;

  constructor(client: Socket, workerd: Socket, clients: Clients, peer: Client | null) {
    this.#client = client;
    this.#workerd = workerd;
    this.#clients = clients;
    this.#peer = peer;
    if (peer !== null) peer.connections++;
    client.on("data", (chunk: Buffer) => this.#fromClient(chunk));
    workerd.on("data", (chunk: Buffer) => this.#fromWorkerd(chunk));
    client.on("drain", () => {
      this.#stalledSince = null;
      workerd.resume();
    });
    workerd.on("drain", () => this.#readOn());
    client.once("end", () => workerd.end());
    workerd.once("end", () => this.#isRefused || client.end());
    // What was written before is still sent, unless the connection broke.
    client.once("close", (broke) => (broke ? workerd.destroy() : workerd.destroySoon()));
    workerd.once("close", (broke) => {
      if (broke) client.destroy();
      else if (!this.#isRefused) client.destroySoon();
    });
    client.on("error", () => {});
    workerd.on("error", () => {});
    client.once("close", () => this.#forget());
  }

  /** Ends the connection if its client is too slow. */
  sweep(now: number): void {
    if (this.#stalledSince !== null && now - this.#stalledSince > STALLED_MS) this.#end();
    else if (this.#guard?.isLate(now) === true) this.#refuse({ code: 1008, reason: "a message that does not end" });
    else if (this.#guard !== null && now - this.#heardAt > SILENT_MS) this.#end();
  }

  #fromClient(chunk: Buffer): void {
    if (this.#isRefused) return;
    if (this.#guard !== null) this.#frames(chunk, this.#guard);
    else if (this.#upgrade !== null && !this.#isAnswered) this.#hold(chunk);
    else {
      this.#upgrade = null;
      this.#request(chunk);
    }
  }

  /** Passes bytes of requests on, up to the end of an upgrade's head: what follows waits until workerd has answered. */
  #request(chunk: Buffer): void {
    const carried = this.#recent.length;
    const all = carried === 0 ? chunk : Buffer.concat([this.#recent, chunk]);
    let from = 0;
    for (let end = all.indexOf(HEAD_END); end >= 0; end = all.indexOf(HEAD_END, from)) {
      const head = all.toString("latin1", from, end);
      from = end + HEAD_END.length;
      // A head that ends in bytes that were passed on before was looked at before.
      if (from <= carried || !UPGRADE.test(head)) continue;
      this.#recent = NOTHING;
      this.#upgrade = head;
      this.#isAnswered = false;
      this.#send(all.subarray(carried, from));
      this.#hold(all.subarray(from));
      return;
    }
    this.#recent = all.subarray(Math.max(from - HEAD_END.length, all.length - LONGEST_HEAD, 0));
    this.#send(chunk);
  }

  /** Nothing more is read until workerd answers, so at most two pieces of 64 KiB wait here. */
  #hold(chunk: Buffer): void {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    if (this.#held.length > 0) this.#client.pause();
  }

  #frames(chunk: Buffer, guard: FrameGuard): void {
    const now = performance.now();
    this.#heardAt = now;
    const refusal = guard.read(chunk, now);
    if (refusal === null) this.#send(chunk);
    else this.#refuse(refusal);
  }

  #send(chunk: Buffer): void {
    if (chunk.length > 0 && !this.#workerd.write(chunk)) this.#client.pause();
  }

  #readOn(): void {
    if (this.#held.length === 0) this.#client.resume();
  }

  #fromWorkerd(chunk: Buffer): void {
    if (this.#isRefused) return;
    if (this.#guard === null) this.#answer(chunk);
    else this.#answers.read(chunk, () => null);
    if (this.#isRefused || this.#client.destroyed || this.#client.write(chunk)) return;
    this.#stalledSince ??= performance.now();
    this.#workerd.pause();
  }

  /** Looks for a switch to WebSocket. Without one, what was held was no frame, and is passed on. */
  #answer(chunk: Buffer): void {
    const carried = this.#tail.length;
    const all = carried === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    const at = all.indexOf(SWITCHED);
    const end = at < 0 ? -1 : all.indexOf(HEAD_END, at);
    this.#recent = NOTHING;
    if (end >= 0) this.#switch(all.subarray(Math.max(end + HEAD_END.length, carried)));
    else if (at >= 0) this.#tail = all.subarray(at);
    else {
      this.#tail = all.subarray(Math.max(0, all.length - SWITCHED.length + 1));
      // The beginning of an answer says already whether it is a switch, as soon as it has as many bytes.
      if (this.#upgrade !== null && all.length >= SWITCHED.length) this.#release();
    }
  }

  /** Frames begin now, on both sides. `first` are those of workerd. */
  #switch(first: Buffer): void {
    // It switched for a head that this front did not recognize: nobody knows where the frames of the client begin.
    if (this.#upgrade === null) {
      this.#end();
      return;
    }
    this.#owner = this.#peer ?? this.#clients.ofHead(this.#upgrade);
    if (this.#owner !== null) this.#owner.sockets++;
    this.#heardAt = performance.now();
    this.#guard = new FrameGuard(this.#clients.messages, this.#owner?.frames ?? null, this.#heardAt);
    this.#answers.read(first, () => null);
    this.#tail = NOTHING;
    this.#release();
  }

  #release(): void {
    this.#isAnswered = true;
    const held = this.#held;
    // Without bytes after it the head is still the last thing that was passed on, and its answer may come.
    if (held.length === 0) return;
    this.#held = NOTHING;
    this.#client.resume();
    this.#fromClient(held);
  }

  /** Says why, if a frame of workerd's has just ended, and ends both connections. workerd sees a broken one. */
  #refuse(refusal: Refusal): void {
    this.#isRefused = true;
    this.#workerd.destroy();
    if (!this.#answers.isAtBorder || this.#stalledSince !== null) {
      this.#client.destroy();
      return;
    }
    this.#client.end(closeFrame(refusal));
    // What it still sends is read and thrown away, because a reset could overtake the close frame.
    this.#client.resume();
    setTimeout(() => this.#client.destroy(), CLOSING_MS).unref();
  }

  #end(): void {
    this.#isRefused = true;
    this.#client.destroy();
    this.#workerd.destroy();
  }

  #forget(): void {
    this.#guard?.release();
    if (this.#peer !== null) {
      this.#peer.connections--;
      this.#clients.forget(this.#peer);
    }
    if (this.#owner === null) return;
    this.#owner.sockets--;
    this.#clients.forget(this.#owner);
  }
}
