// Reads the headers of WebSocket frames (RFC 6455, section 5.2), and decides which frames of a client may reach workerd. Pure: its users move the bytes.
import { type Rate, TokenBucket } from "../src/coordinator/rates/token-bucket.ts";
import { LIMITS, KiB, MiB } from "../src/protocol/limits.ts";
import { SECOND } from "../src/protocol/times.ts";

/** What the header of a frame says. `length` is that of its payload in bytes. */
export type FrameHeader = { opcode: number; isLast: boolean; hasReserved: boolean; isMasked: boolean; length: number };

/** Why a connection ends: the code and the text of its close frame. */
export type Refusal = { code: number; reason: string };

const CONTINUATION = 0;
const FIRST_CONTROL = 8;
/** The opcode of a close frame. */
export const CLOSE_FRAME = 8;
const LAST_DATA = 2;
const LAST_CONTROL = 10;
const CONTROL_BYTES = 125;
const LONGEST_HEADER = 14;

/**
 * The largest message that is passed on, all parts together. The hub itself closes a socket above the limit of the protocol, and knows then which job that
 * ends: a message that is only a little too large still reaches it.
 */
export const MOST_MESSAGE_BYTES = 2 * LIMITS.frameBytes;
/** Parts of one message. Browsers send parts of 64 KiB and more. */
const MOST_PARTS = 256;
/** A message must be complete after so many ms. */
export const MESSAGE_MS = 60 * SECOND;
/** Bytes of messages that all sockets of one client have begun and not finished. */
const UNFINISHED_PER_CLIENT = 64 * MiB;

/** The front allows so many times the frames that the hub reads, so that an honest worker meets the limits of the hub first. */
const MORE_THAN_HUB = 4;
/** Pings, pongs and empty frames, which workerd would read without the hub. */
const SMALL_FRAMES: Rate = { perSecond: 10, burst: 100 };
/** How many sockets of one client may send at their full rate at the same time. */
const SOCKETS_AT_FULL_RATE = 16;

const times = ({ perSecond, burst }: Rate, factor: number): Rate => ({ perSecond: perSecond * factor, burst: burst * factor });

/** The token buckets of one sender: of a socket, or of all sockets of a client. */
class FrameBuckets {
  readonly #all: TokenBucket;
  readonly #small: TokenBucket;

  /** `messages` is what the hub reads of a socket. */
  constructor(messages: Rate, factor: number, now: number) {
    this.#all = new TokenBucket(times(messages, MORE_THAN_HUB * factor), now);
    this.#small = new TokenBucket(times(SMALL_FRAMES, factor), now);
  }

  /** Whether one more frame may pass. */
  take(isSmall: boolean, now: number): boolean {
    return this.#all.take(now).kind === "pass" && (!isSmall || this.#small.take(now).kind === "pass");
  }
}

/** What all sockets of one client share. */
export class ClientFrames {
  readonly buckets: FrameBuckets;
  unfinishedBytes = 0;

  constructor(messages: Rate, now: number) {
    this.buckets = new FrameBuckets(messages, SOCKETS_AT_FULL_RATE, now);
  }
}

/** Finds the headers of frames in a stream of bytes that comes in any pieces. It keeps no payload. */
export class FrameReader {
  readonly #header = new Uint8Array(LONGEST_HEADER);
  #headerBytes = 0;
  #payloadLeft = 0;

  /** Whether the bytes so far end where a frame ends. */
  get isAtBorder(): boolean {
    return this.#headerBytes === 0 && this.#payloadLeft === 0;
  }

  /** Calls `onFrame` for each header that is complete, until one is refused. Returns why. */
  read(chunk: Uint8Array, onFrame: (frame: FrameHeader) => Refusal | null): Refusal | null {
    let at = 0;
    while (at < chunk.length) {
      if (this.#payloadLeft > 0) {
        const skipped = Math.min(this.#payloadLeft, chunk.length - at);
        this.#payloadLeft -= skipped;
        at += skipped;
        continue;
      }
      this.#header[this.#headerBytes++] = chunk[at++] ?? 0;
      const frame = this.#parsed();
      if (frame === null) continue;
      this.#headerBytes = 0;
      this.#payloadLeft = frame.length;
      const refusal = onFrame(frame);
      if (refusal !== null) return refusal;
    }
    return null;
  }

  /** The header, if all its bytes are here. */
  #parsed(): FrameHeader | null {
    if (this.#headerBytes < 2) return null;
    const [first = 0, second = 0] = this.#header;
    const isMasked = (second & 0x80) !== 0;
    const short = second & 0x7f;
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
    if (this.#headerBytes < 2 + lengthBytes + (isMasked ? 4 : 0)) return null;
    let length = lengthBytes === 0 ? short : 0;
    for (let at = 2; at < 2 + lengthBytes; at++) length = length * 256 + (this.#header[at] ?? 0);
    return { opcode: first & 0x0f, isLast: (first & 0x80) !== 0, hasReserved: (first & 0x70) !== 0, isMasked, length };
  }
}

/** Judges the frames of one client's socket. After a refusal it must not be used. */
export class FrameGuard {
  readonly #reader = new FrameReader();
  readonly #client: ClientFrames | null;
  readonly #buckets: FrameBuckets;
  #messageBytes = 0;
  #parts = 0;
  #isOpen = false;
  #begunAt: number | null = null;

  /** `messages` is what the hub reads of a socket. `client` is what all sockets of its address share; null if the address is not known. */
  constructor(messages: Rate, client: ClientFrames | null, now: number) {
    this.#client = client;
    this.#buckets = new FrameBuckets(messages, 1, now);
  }

  /** Reads the next bytes. If it returns a refusal, these bytes must not be passed on. */
  read(chunk: Uint8Array, now: number): Refusal | null {
    const refusal = this.#reader.read(chunk, (frame) => this.#judge(frame, now));
    if (refusal !== null) return refusal;
    if (this.#reader.isAtBorder && !this.#isOpen) this.#finish();
    else this.#begunAt ??= now;
    return null;
  }

  /** Whether a message or a frame was begun too long ago. */
  isLate(now: number): boolean {
    return this.#begunAt !== null && now - this.#begunAt > MESSAGE_MS;
  }

  /** Starts the time limit of an unfinished message again: until now the front did not read what the client sent. */
  excuse(now: number): void {
    if (this.#begunAt !== null) this.#begunAt = now;
  }

  /** Whether a message was begun, ever. Pings, pongs and close frames are none. */
  get hasMessage(): boolean {
    return this.#parts > 0;
  }

  /** The bytes of the message that is not complete, as its frames announce them; 0 without one. */
  get unfinishedBytes(): number {
    return this.#messageBytes;
  }

  /** Gives back what the socket has of its client's share. */
  release(): void {
    this.#finish();
  }

  #finish(): void {
    if (this.#client !== null) this.#client.unfinishedBytes -= this.#messageBytes;
    this.#messageBytes = 0;
    this.#begunAt = null;
  }

  #judge(frame: FrameHeader, now: number): Refusal | null {
    const isControl = frame.opcode >= FIRST_CONTROL;
    const wrong = frame.hasReserved || !frame.isMasked || frame.opcode > LAST_CONTROL || (frame.opcode > LAST_DATA && !isControl);
    if (wrong || (isControl && (!frame.isLast || frame.length > CONTROL_BYTES))) return { code: 1002, reason: "not a frame of RFC 6455" };
    const isSmall = isControl || frame.length === 0;
    if (!this.#buckets.take(isSmall, now) || this.#client?.buckets.take(isSmall, now) === false) return { code: 1008, reason: "too many frames" };
    return isControl ? null : this.#judgePart(frame, now);
  }

  #judgePart({ opcode, isLast, length }: FrameHeader, now: number): Refusal | null {
    if ((opcode === CONTINUATION) !== this.#isOpen) return { code: 1002, reason: "a part without its message" };
    if (!this.#isOpen) {
      this.#finish();
      this.#parts = 0;
      this.#begunAt = now;
    }
    this.#isOpen = !isLast;
    if (this.#messageBytes + length > MOST_MESSAGE_BYTES) return { code: 1009, reason: `a message may have ${LIMITS.frameBytes / KiB} KiB` };
    if (++this.#parts > MOST_PARTS) return { code: 1008, reason: "a message of too many parts" };
    this.#messageBytes += length;
    if (this.#client === null) return null;
    this.#client.unfinishedBytes += length;
    return this.#client.unfinishedBytes > UNFINISHED_PER_CLIENT ? { code: 1008, reason: "too many unfinished messages" } : null;
  }
}

/** A close frame of a server. */
export function closeFrame({ code, reason }: Refusal): Uint8Array {
  const text = new TextEncoder().encode(reason);
  return Uint8Array.from([0x88, 2 + text.length, code >> 8, code & 0xff, ...text]);
}
