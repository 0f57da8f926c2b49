// The beginning of a connection: as long as its client sends only short requests, one after the other, the hub gets them on the channel that all share, and
// workerd has no connection for it. At the first other request everything that follows is passed on as bytes (front-passage.ts), for good.
import { randomUUID } from "node:crypto";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { RETRY_AFTER } from "../src/protocol/times.ts";
import { OF_ANY_SIZE } from "../src/coordinator/http/channel-messages.ts";
import type { HubChannel, ShortAnswer } from "./front-channel.ts";
import type { Client } from "./front-clients.ts";
import { shortRequestOf, type ShortRequest, socketRequestOf } from "./front-short-requests.ts";
import type { WorkerSocket } from "./front-socket.ts";
import type { Stalls } from "./front-stalls.ts";

/** A client that sends nothing for so long after an answer, or at all, is dropped. */
export const IDLE_MS = 15_000;
/** A request that is not complete after so long, or after so many pieces, is passed on: workerd has time limits for its rest. */
const INCOMPLETE_MS = 1_000;
const MOST_PIECES = 8;
/** The most bytes that may wait behind a request. A client that has sent more is not read until it has its answer. */
const WAITING_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);

type Answer = Exclude<ShortAnswer, string>;

/** The parts of an opening. */
type OpeningParts = {
  client: Socket;
  /** Who is counted for the connection; null if nobody is known. */
  peer: Client | null;
  /** The header that names the client to the hub; null if a proxy does that. */
  mark: [name: string, value: string] | null;
  channel: Pick<HubChannel, "isOpen" | "ask">;
  /** Whether commits are short requests. */
  commits: boolean;
  stalls: Stalls;
  now: () => number;
  /** Creates the socket that an upgrade asks for; `begin` gets the connection as soon as it is open. */
  socket: (request: ShortRequest) => { socket: WorkerSocket; begin: (rest: Buffer) => void };
  /** Gets the bytes that were not answered, and the connection. */
  pass: (bytes: Buffer) => void;
};

/** One connection of a client that has sent nothing but short requests. */
export class Opening {
  readonly #parts: OpeningParts;
  /** The bytes that were read and wait: they were neither sent to the hub nor passed on. */
  #bytes: Buffer = NOTHING;
  #pieces = 0;
  /** The request that waits for its answer. */
  #asked: Buffer | null = null;
  #isLeaving = false;
  /** When something last happened. */
  #activeAt: number;
  readonly #onData = (chunk: Buffer): void => this.#read(chunk);
  readonly #onDrain = (): void => this.#goOn();
  // A client that ends its half of the connection has left, as in a passage.
  readonly #onEnd = (): void => this.#parts.client.destroySoon();

  constructor(parts: OpeningParts) {
    this.#parts = parts;
    this.#activeAt = parts.now();
    parts.client.on("data", this.#onData).on("drain", this.#onDrain).once("end", this.#onEnd).resume();
    parts.client.once("close", () => parts.stalls.end(this));
  }

  get owner(): Client | null {
    return this.#parts.peer;
  }

  /** Ends the connection if its client is too slow, and passes on a request that does not get complete. */
  sweep(now: number): void {
    const idle = now - this.#activeAt;
    if (this.#parts.stalls.isLate(this, now)) this.end();
    else if (this.#isBusy) return;
    else if (this.#bytes.length > 0 && idle > INCOMPLETE_MS) this.#pass(this.#bytes);
    else if (idle > IDLE_MS) this.#parts.client.destroySoon();
  }

  /** True while no further request is sent to the hub: a request waits for its answer, or an answer for its client. So at most one of each is kept. */
  get #isBusy(): boolean {
    return this.#asked !== null || this.#parts.stalls.has(this);
  }

  /** The coordinator stops: the connection ends with the answer that it waits for. */
  leave(): void {
    this.#isLeaving = true;
    if (this.#asked === null) this.#parts.client.destroySoon();
  }

  end(): void {
    this.#parts.client.destroy();
  }

  #read(chunk: Buffer): void {
    this.#activeAt = this.#parts.now();
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    if (!this.#isBusy) this.#next();
    else if (this.#bytes.length > WAITING_BYTES) this.#parts.client.pause();
  }

  /** Takes the next request. */
  #next(): void {
    const { channel, commits, mark } = this.#parts;
    const upgrade = channel.isOpen ? socketRequestOf(this.#bytes) : null;
    const request = upgrade ?? (channel.isOpen ? shortRequestOf(this.#bytes, commits) : null);
    if (request === null) return this.#pass(this.#bytes);
    if (request === "incomplete") {
      if (++this.#pieces > MOST_PIECES) this.#pass(this.#bytes);
      // Its rest may be long.
      else this.#parts.client.resume();
      return;
    }
    this.#pieces = 0;
    this.#asked = this.#bytes.subarray(0, request.bytes);
    this.#bytes = this.#bytes.subarray(request.bytes);
    // The last header of a name counts, so a client cannot name another one.
    if (mark !== null) request.headers.push(mark);
    if (upgrade === null) this.#ask(request);
    else this.#dial(request);
  }

  #ask(request: ShortRequest): void {
    this.#parts.channel.ask(request, (answer) => {
      // The coordinator stops: workerd accepts no connection any more, so the request cannot be passed on.
      if (answer === "large" && this.#isLeaving && request.body === null) this.#ask({ ...request, body: OF_ANY_SIZE });
      else this.#answer(answer);
    });
  }

  #dial(request: ShortRequest): void {
    const { client, socket: create } = this.#parts;
    const { socket, begin } = create(request);
    socket.dial((answer) => {
      if (typeof answer === "string" || answer.status !== 101) return this.#answer(answer);
      if (client.writableEnded || client.destroyed) return socket.giveUp();
      this.#detach();
      begin(this.#bytes);
    });
  }

  #answer(answer: ShortAnswer): void {
    const { client, stalls, now } = this.#parts;
    const asked = this.#asked ?? NOTHING;
    this.#asked = null;
    this.#activeAt = now();
    // The client has left.
    if (client.writableEnded || client.destroyed) return;
    if (answer === "large") return this.#pass(Buffer.concat([asked, this.#bytes]));
    const response = answer === "lost" ? lostAnswer() : answer;
    // Short ones are one write.
    const isShort = typeof response.body === "string";
    let isTaken = client.write(headOf(response, this.#isLeaving) + (isShort ? response.body : ""));
    if (!isShort) isTaken = client.write(response.body);
    if (this.#isLeaving) client.destroySoon();
    else if (isTaken) this.#goOn();
    else stalls.begin(this, now());
  }

  /** The client has all answers. */
  #goOn(): void {
    this.#parts.stalls.end(this);
    if (this.#bytes.length <= WAITING_BYTES) this.#parts.client.resume();
    if (this.#asked === null && this.#bytes.length > 0) this.#next();
  }

  #pass(bytes: Buffer): void {
    this.#detach();
    this.#parts.pass(bytes);
  }

  /** Stops reading: another object owns the connection from now on. */
  #detach(): void {
    this.#parts.client.off("data", this.#onData).off("drain", this.#onDrain).off("end", this.#onEnd);
  }
}

/** The head of a response of HTTP/1.1 with a body of a known length. */
function headOf({ status, headers, body }: Answer, isLast: boolean): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (const [name, value] of headers) text += `${name}: ${value}\r\n`;
  if (isLast) text += "Connection: close\r\n";
  return `${text}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
}

/** The answer to a client if the hub restarted before it had answered [API1]. */
function lostAnswer(): Answer {
  const id = randomUUID();
  return {
    status: 503,
    headers: [
      ["Content-Type", "application/json"],
      ["Retry-After", String(RETRY_AFTER.overloaded)],
      ["X-Request-Id", id],
      ["Access-Control-Allow-Origin", "*"],
      ["Access-Control-Expose-Headers", "Retry-After, X-Request-Id"],
      ["X-Content-Type-Options", "nosniff"],
      ["Cache-Control", "no-store"],
    ],
    body: JSON.stringify({ error: "overloaded", request_id: id }),
  };
}
