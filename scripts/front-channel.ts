// The socket from the front to the hub on which the short requests of all clients go together (docs/decisions/0019). It opens again when it has ended.
import { connect } from "node:net";
import { WebSocket } from "ws";
import type { SharedAnswer, SharedRequest } from "../src/coordinator/http/shared-messages.ts";
import type { WorkerdAddress } from "./front-passage.ts";
import type { ShortRequest } from "./front-short-requests.ts";

/** An answer of the hub; `"lost"` if the channel ended before it came, and `"large"` if it must be asked for at workerd. */
export type ShortAnswer = { status: number; headers: [name: string, value: string][]; body: string } | "lost" | "large";

/** So many requests may wait for their answers. Others are passed on as bytes. */
const MOST_WAITING = 4_096;
/** A message with more bytes of requests is sent at once. workerd takes messages of 32 MiB. */
const MESSAGE_BYTES = 1024 * 1024;
const AGAIN_MS = 200;

/** The channel of a front. */
export class HubChannel {
  readonly #dial: () => WebSocket;
  #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: ShortAnswer) => void>();
  #next = 1;
  #batch: SharedRequest[] = [];
  #batchBytes = 0;
  #isLeaving = false;

  /** `headers` open the channel at the Worker that listens at this address. */
  constructor(to: WorkerdAddress, headers: Record<string, string>) {
    const options = { headers, perMessageDeflate: false, skipUTF8Validation: true, createConnection: () => connect(to), generateMask: () => {} };
    this.#dial = () => new WebSocket("ws://channel/", options);
    this.#socket = this.#open();
  }

  /** True if it takes one more request. */
  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN && this.#waiting.size < MOST_WAITING && !this.#isLeaving;
  }

  /** Sends a request with all others of this turn. `answered` is called once. */
  ask({ method, url, headers, body, bytes }: ShortRequest, answered: (answer: ShortAnswer) => void): void {
    const id = this.#next++;
    this.#waiting.set(id, answered);
    if (this.#batch.push([id, method, url, headers, body]) === 1) setImmediate(() => this.#send());
    this.#batchBytes += bytes;
    if (this.#batchBytes > MESSAGE_BYTES) this.#send();
  }

  /** Takes no more requests, and ends when the last one has its answer. */
  drain(): void {
    this.#isLeaving = true;
    if (this.#waiting.size === 0) this.#socket.terminate();
  }

  close(): void {
    this.#isLeaving = true;
    this.#socket.terminate();
  }

  #open(): WebSocket {
    const socket = this.#dial();
    socket.on("message", (data: Buffer) => this.#read(data.toString()));
    // Its close follows.
    socket.on("error", () => {});
    socket.once("close", () => {
      const unanswered = [...this.#waiting.values()];
      this.#waiting.clear();
      this.#batch = [];
      this.#batchBytes = 0;
      for (const answered of unanswered) answered("lost");
      setTimeout(() => this.#isLeaving || (this.#socket = this.#open()), AGAIN_MS).unref();
    });
    return socket;
  }

  #send(): void {
    if (this.#batch.length === 0) return;
    const message = JSON.stringify(this.#batch);
    this.#batch = [];
    this.#batchBytes = 0;
    this.#socket.send(message);
  }

  #read(message: string): void {
    const answers: SharedAnswer[] = JSON.parse(message);
    for (const [id, status, headers, body] of answers) {
      const answered = this.#waiting.get(id);
      this.#waiting.delete(id);
      answered?.(status === 0 ? "large" : { status, headers, body });
    }
    if (this.#isLeaving && this.#waiting.size === 0) this.#socket.terminate();
  }
}
