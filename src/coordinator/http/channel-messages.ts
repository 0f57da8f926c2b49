// What the front outside Cloudflare (scripts/front-channel.ts) and the hub (channel.ts) say on the channel, the socket between them. Both import it. A
// message is a JSON array of what is below. What ends with a long text is a message of its own: as JSON without this text, a line feed, and the text as it is.
import { KiB } from "../../protocol/limits.ts";

/** To the hub: a request; its id on the channel, method, URL, headers, and body as text. An upgrade asks for a worker's socket with this id. */
export type ChannelRequest = [id: number, method: string, url: string, headers: [name: string, value: string][], body: string | null];
/** The body of a poll whose answer may have any size. */
export const OF_ANY_SIZE = "";
/**
 * To the front: the answer to the request with this id. A poll gets status 0 if its answer is too large for a channel that others wait for: the front passes it
 * on to workerd. An upgrade gets 101 if its socket is open.
 */
export type ChannelAnswer<Text = string> = [id: number, status: number, headers: [name: string, value: string][], body: Text];

/** In both directions: a text frame of a worker's socket. */
export type ChannelFrame<Text = string> = [socket: number, text: Text];
/**
 * To the hub: what else happened on a worker's socket. `quiet`: it was last heard so many ms ago; 0 for a heartbeat, which the front answers, and of which the
 * hub is told only if it was told before that the socket is quiet, or with the next frame. `binary`: a frame came that is no text. `closed`: the connection has
 * ended, with this code.
 */
export type ChannelNote = [socket: number, note: { quiet: number } | { binary: true } | { closed: number }];
/** To the front: close this socket. */
export type ChannelClose = [socket: number, code: number, reason: string];
/** To the front: the hub is done with one more message. Then the next one comes, with all that the front has got meanwhile. */
export type ChannelDone = [isDone: true];

/** What one side hears. */
export type ToHub = ChannelRequest | ChannelFrame | ChannelNote;
export type ToFront<Text = string> = ChannelAnswer<Text> | ChannelFrame<Text> | ChannelClose | ChannelDone;

/** A text of more UTF-16 units or bytes is long: to write and read it as JSON would cost more than all that the hub does with it. */
export const LONG = 16 * KiB;
/** Between the JSON and its long text. `JSON.stringify` never writes one. */
const BEFORE_TEXT = "\n";

/** Reads a message, which the hub gets as a string and the front as bytes. A long text stays what it is: bytes are neither decoded nor copied. */
export function readMessage(message: string): ToHub[];
export function readMessage(message: Buffer): ToFront<string | Buffer>[];
export function readMessage(message: string | Buffer): (ToHub | ToFront<string | Buffer>)[] {
  const end = message.indexOf(BEFORE_TEXT);
  if (end < 0) return JSON.parse(message.toString());
  const at = end + BEFORE_TEXT.length;
  const [json, text] = typeof message === "string" ? [message.slice(0, end), message.slice(at)] : [message.toString("utf8", 0, end), message.subarray(at)];
  const part = JSON.parse(json);
  part.push(text);
  return [part];
}

/** The message of a part that ends with a long text, from what comes before the text, and the text. */
export function longMessage(part: readonly unknown[], text: string): string;
export function longMessage(part: readonly unknown[], text: Buffer): Buffer;
export function longMessage(part: readonly unknown[], text: string | Buffer): string | Buffer {
  const before = JSON.stringify(part) + BEFORE_TEXT;
  return typeof text === "string" ? before + text : Buffer.concat([Buffer.from(before), text]);
}

type BatchParts = { most: number; later: (flush: () => void) => void; send: (message: string) => void };

/** Sends what comes in one turn as one message. */
export class ChannelBatch<Part extends ToHub | ToFront> {
  readonly #to: BatchParts;
  #parts: Part[] = [];
  #size = 0;

  /** `later` calls back at the end of the turn. Texts of more than `most` units or bytes do not wait for it. */
  constructor(to: BatchParts) {
    this.#to = to;
  }

  /** `size` is that of its texts. */
  add(part: Part, size: number): void {
    if (this.#parts.push(part) === 1) this.#to.later(() => this.flush());
    this.#size += size;
    if (this.#size > this.#to.most) this.flush();
  }

  flush(): void {
    if (this.#parts.length === 0) return;
    const message = JSON.stringify(this.#parts);
    this.drop();
    this.#to.send(message);
  }

  /** Forgets what was not sent. */
  drop(): void {
    this.#parts = [];
    this.#size = 0;
  }
}

/** The header with the key that opens a channel, and the setting with the same key. Only the process that runs both knows it. */
export const CHANNEL_KEY_HEADER = "x-channel-key";
export const CHANNEL_KEY = "CHANNEL_KEY";
