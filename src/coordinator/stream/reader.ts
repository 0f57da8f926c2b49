import { TUNING } from "../../protocol/limits.ts";
import type { Cursor, EventLog } from "./event-log.ts";
import { DONE_ID } from "./ended-events.ts";
import { COMMENT, eventPieces } from "./event-text.ts";

const encoder = new TextEncoder();

/**
 * One open stream. It keeps a place in the log and takes the next events only when the platform has passed on the ones before, so a reader that
 * is slow costs no memory: it finds the log further on, and a `reset` where what it missed is gone.
 */
export class Reader {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #log: EventLog;
  #cursor: Cursor;
  /** What is left of the event that is being sent, and its id. */
  #rest: string[] = [];
  #sending = 0;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #moved = true;
  readonly #closed: () => void;

  /** `onClose` is called once, when nothing more can be sent. */
  constructor(log: EventLog, cursor: Cursor, onClose: () => void) {
    this.#log = log;
    this.#cursor = cursor;
    this.#closed = onClose;
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => {
          this.#moved = true;
          this.#send();
        },
        cancel: () => this.#end(),
      },
      { highWaterMark: 1 },
    );
  }

  /** The log has something new. */
  wake(): void {
    // The rest of a large event that was dropped meanwhile would be kept for this reader alone.
    if (this.#rest.some((piece) => piece.length > TUNING.streamChunkChars) && !this.#log.keeps(this.#sending)) return this.drop();
    this.#send();
  }

  /** Shows the reader, and everything between here and there, that the stream is alive; not in the middle of an event. */
  comment(): void {
    if (this.#rest.length === 0 && (this.#controller?.desiredSize ?? 0) > 0) this.#controller?.enqueue(encoder.encode(COMMENT));
  }

  /** Whether the reader has something to take and has taken nothing since this was last asked. */
  isStuck(): boolean {
    const stuck = !this.#moved && (this.#controller?.desiredSize ?? 0) <= 0;
    this.#moved = false;
    return stuck;
  }

  /** Ends it before its time; a reader that is still there comes back and goes on where it was. Half an event at the end is none. */
  drop(): void {
    // Not an error: that would be logged as a fault of the hub's.
    this.#controller?.close();
    this.#end();
  }

  #send(): void {
    while (this.#controller !== undefined && (this.#controller.desiredSize ?? 0) > 0) {
      const chunk = this.#chunk();
      if (chunk !== "") this.#controller.enqueue(encoder.encode(chunk));
      if (this.#cursor === DONE_ID && this.#rest.length === 0) {
        this.#controller.close();
        return this.#end();
      }
      if (chunk === "") return;
    }
  }

  /** The next characters to send, of as many events as fit. */
  #chunk(): string {
    let chunk = "";
    while (chunk.length < TUNING.streamChunkChars) {
      const piece = this.#rest.shift();
      if (piece === undefined) {
        const event = this.#log.next(this.#cursor);
        if (event === null) break;
        this.#rest = eventPieces(event);
        this.#cursor = event.id;
        this.#sending = event.id;
        continue;
      }
      const end = cutAt(piece, TUNING.streamChunkChars - chunk.length);
      chunk += piece.slice(0, end);
      if (end < piece.length) {
        this.#rest.unshift(piece.slice(end));
        break;
      }
    }
    return chunk;
  }

  #end(): void {
    if (this.#controller === undefined) return;
    this.#controller = undefined;
    this.#rest = [];
    this.#closed();
  }
}

/** Where to cut a text of at most about `length` characters, never inside a surrogate pair. */
function cutAt(text: string, length: number): number {
  if (text.length <= length) return text.length;
  const unit = text.charCodeAt(length);
  return unit >= 0xdc00 && unit <= 0xdfff ? length + 1 : length;
}
