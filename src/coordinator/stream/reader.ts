import { TUNING } from "../../protocol/limits.ts";
import type { Cursor, EventLog } from "./event-log.ts";
import { DONE_ID } from "./ended-events.ts";
import { COMMENT, eventPieces } from "./event-text.ts";

const encoder = new TextEncoder();

/** What a reader reports to the one who opened it. */
export type ReaderEvents = {
  /** Called once, when nothing more can be sent. */
  closed: () => void;
  /** Called after `closed`, when it ended because of a fault of this program. */
  failed: (error: unknown) => void;
};

/**
 * One open stream. It keeps a place in the log and takes the next events only when the platform has passed on the ones before, so a reader that
 * is slow costs no memory: it finds the log further on, and a `reset` where what it missed is gone. No method throws: a fault of one reader ends
 * that reader, and the others are still told.
 */
export class Reader {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #log: EventLog;
  #cursor: Cursor;
  /** What is left of the event that is being sent, and its id. */
  #rest: string[] = [];
  #sending = 0;
  /** Undefined once it has ended. */
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #moved = true;
  /** Whether `#send` runs now. */
  #busy = false;
  readonly #events: ReaderEvents;

  constructor(log: EventLog, cursor: Cursor, events: ReaderEvents) {
    this.#log = log;
    this.#cursor = cursor;
    this.#events = events;
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
    if (this.#rest.length > 0 || !this.#hasRoom()) return;
    this.#rest = [COMMENT];
    this.#send();
  }

  /** Whether the reader has something to take and has taken nothing since this was last asked. */
  isStuck(): boolean {
    const stuck = !this.#moved && !this.#hasRoom();
    this.#moved = false;
    return stuck;
  }

  /** Ends it before its time; a reader that is still there comes back and goes on where it was. Half an event at the end is none. */
  drop(): void {
    const controller = this.#controller;
    this.#end();
    try {
      // Not an error: that would be logged as a fault of the hub's.
      controller?.close();
    } catch {
      // The platform has broken the stream off already.
    }
  }

  #hasRoom(): boolean {
    return (this.#controller?.desiredSize ?? 0) > 0;
  }

  /** Sends while there is room. `enqueue` calls `pull` before it returns when somebody waits for bytes: the loop that runs goes on instead. */
  #send(): void {
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#hasRoom()) {
        const chunk = this.#chunk();
        if (chunk !== "") this.#controller?.enqueue(encoder.encode(chunk));
        if (this.#cursor === DONE_ID && this.#rest.length === 0) this.drop();
        else if (chunk === "") break;
      }
    } catch (error) {
      this.drop();
      this.#events.failed(error);
    } finally {
      this.#busy = false;
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
    this.#events.closed();
  }
}

/** Where to cut a text of at most about `length` characters, never inside a surrogate pair. */
function cutAt(text: string, length: number): number {
  if (text.length <= length) return text.length;
  const unit = text.charCodeAt(length);
  return unit >= 0xdc00 && unit <= 0xdfff ? length + 1 : length;
}
