// The socket from the front to the hub on which the short requests of all clients and the frames of workers go together (docs/decisions/0019). It opens again
// when it has ended.
import { connect } from "node:net";
import { WebSocket } from "ws";
import { type ChannelAnswer, ChannelBatch, type ChannelNote, LONG, longMessage, readMessage, type ToHub } from "../src/coordinator/http/channel-messages.ts";
import { MiB } from "../src/protocol/limits.ts";
import { CLOSE } from "../src/protocol/worker-messages.ts";
import { codeOf } from "../src/worker/node/error-code.ts";
import type { WorkerdAddress } from "./front-passage.ts";
import type { ShortRequest } from "./front-short-requests.ts";

/** An answer of the hub; `"lost"` if the channel ended before it came; `"large"` if it is too large for the channel, so that workerd must be asked. */
export type ShortAnswer = { status: number; headers: [name: string, value: string][]; body: string | Buffer } | "lost" | "large";

/** Gets the frames and the close that come for a worker's socket. */
export type SocketReader = { frame(text: string | Buffer): void; close(code: number, reason: string): void };

/** So many requests may wait for their answers. Others are passed on as bytes. */
const MOST_WAITING = 4_096;
/** A message with more bytes is sent at once. workerd takes messages of 32 MiB. */
const MESSAGE_BYTES = 1 * MiB;
/** While the hub has not read so many bytes, no worker with a long frame is read, so that the frames of others need not wait for more. */
const FULL_BYTES = 1 * MiB;
/** While the hub has not read so many bytes, no worker that sends anything is read, and requests are passed on. */
const MOST_BYTES = 8 * MiB;
const AGAIN_MS = 200;

/** The channel of a front. */
export class HubChannel {
  readonly #dial: () => WebSocket;
  #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: ShortAnswer) => void>();
  readonly #readers = new Map<number, SocketReader>();
  readonly #batch = new ChannelBatch<ToHub>({
    ...{ most: MESSAGE_BYTES, later: (flush) => void setImmediate(() => this.#sendNext(flush)) },
    send: (message) => this.#send(message),
  });
  /** How many messages the hub has not handled yet, and the function that sends the next one. */
  #undone = 0;
  #held: (() => void) | null = null;
  #next = 1;
  #isLeaving = false;
  /** The workers that wait until the hub has read enough, longest first. */
  readonly #paused: (() => void)[] = [];

  /** `headers` open the channel at the Worker that listens at this address. */
  constructor(to: WorkerdAddress, headers: Record<string, string>) {
    const options = { headers, perMessageDeflate: false, skipUTF8Validation: true, createConnection: () => connect(to), generateMask: () => {} };
    this.#dial = () => new WebSocket("ws://channel/", options);
    this.#socket = this.#open();
  }

  /** True if it takes one more request. */
  get isOpen(): boolean {
    const isFull = this.#waiting.size >= MOST_WAITING || this.#socket.bufferedAmount > MOST_BYTES;
    return this.#socket.readyState === WebSocket.OPEN && !isFull && !this.#isLeaving;
  }

  /** Sends a request with all others of this turn. `answered` is called once. */
  ask({ method, url, headers, body, bytes }: ShortRequest, answered: (answer: ShortAnswer) => void): number {
    const id = this.#next++;
    this.#waiting.set(id, answered);
    this.#batch.add([id, method, url, headers, body], bytes);
    return id;
  }

  /** The same for the upgrade to a worker's socket. With 101 it is open, and `reader` gets what comes for it, perhaps before. Returns the id of the socket. */
  connect(request: ShortRequest, reader: SocketReader, answered: (answer: ShortAnswer) => void): number {
    const id = this.ask(request, (answer) => {
      if (typeof answer === "string" || answer.status !== 101) this.#readers.delete(id);
      answered(answer);
    });
    this.#readers.set(id, reader);
    return id;
  }

  /** Sends a text frame of a worker, whose bytes are UTF-8. */
  frame(socket: number, data: Buffer): void {
    if (!this.#readers.has(socket)) return;
    if (data.length <= LONG) return this.#batch.add([socket, data.toString()], data.length);
    this.#batch.flush();
    this.#send(longMessage([socket], data));
  }

  /** True if the front must read nothing more of this worker, whose last frame `isLong` or not; `resume` is called when it may go on. */
  holds(isLong: boolean, resume: () => void): boolean {
    if (this.#socket.bufferedAmount <= (isLong ? FULL_BYTES : MOST_BYTES)) return false;
    this.#paused.push(resume);
    return true;
  }

  /** Says what else happened on a worker's socket. */
  note(socket: number, note: ChannelNote[1]): void {
    if (!this.#readers.has(socket)) return;
    this.#batch.add([socket, note], 0);
    if (!("closed" in note)) return;
    this.#readers.delete(socket);
    this.#endIfDone();
  }

  /** Takes no more requests, and ends when the last one has its answer and the last socket is closed. */
  drain(): void {
    this.#isLeaving = true;
    this.#endIfDone();
  }

  close(): void {
    this.#isLeaving = true;
    this.#socket.terminate();
  }

  #endIfDone(): void {
    if (!this.#isLeaving || this.#waiting.size > 0 || this.#readers.size > 0) return;
    this.#batch.flush();
    this.#socket.close();
  }

  #open(): WebSocket {
    const socket = this.#dial();
    socket.on("message", (data: Buffer) => this.#read(data));
    // Its close follows. If workerd is not there, or has ended, other code reports that.
    socket.on("error", (error) => {
      if (!["ECONNREFUSED", "ENOENT", "ECONNRESET", "EPIPE"].includes(codeOf(error)) && !this.#isLeaving) console.error(`the channel failed: ${error.message}`);
    });
    socket.once("close", () => {
      const [unanswered, readers] = [[...this.#waiting.values()], [...this.#readers.values()]];
      this.#waiting.clear();
      this.#readers.clear();
      this.#batch.drop();
      this.#undone = 0;
      this.#held = null;
      for (const answered of unanswered) answered("lost");
      for (const reader of readers) reader.close(CLOSE.restart, "the coordinator restarts");
      for (const resume of this.#paused.splice(0)) resume();
      setTimeout(() => this.#isLeaving || (this.#socket = this.#open()), AGAIN_MS).unref();
    });
    return socket;
  }

  /** Sends now if the hub is idle. Otherwise it waits: what comes meanwhile then shares one message, and one write of the hub's journal. */
  #sendNext(flush: () => void): void {
    if (this.#undone === 0) flush();
    else this.#held = flush;
  }

  #send(message: string | Buffer): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#undone++;
    this.#socket.send(message, { binary: false }, () => this.#resume());
  }

  /** Lets one worker after the other go on, as long as the hub reads: each may bring the next long frame. */
  #resume(): void {
    if (this.#socket.bufferedAmount > FULL_BYTES) return;
    const resume = this.#paused.shift();
    if (resume === undefined) return;
    resume();
    setImmediate(() => this.#resume());
  }

  #read(message: Buffer): void {
    for (const part of readMessage(message)) {
      if (part.length === 1) this.#done();
      else if (part.length === 2) this.#readers.get(part[0])?.frame(part[1]);
      else if (part.length === 3) this.#readers.get(part[0])?.close(part[1], part[2]);
      else this.#answer(part);
    }
    this.#endIfDone();
  }

  #done(): void {
    this.#undone--;
    const flush = this.#held;
    if (this.#undone > 0 || flush === null) return;
    this.#held = null;
    // After one more look at all connections: meanwhile more has come.
    setImmediate(() => setImmediate(flush));
  }

  #answer([id, status, headers, body]: ChannelAnswer<string | Buffer>): void {
    const answered = this.#waiting.get(id);
    this.#waiting.delete(id);
    answered?.(status === 0 ? "large" : { status, headers, body });
  }
}
