import { type Cursor, DONE_ID, type EventLog, type StreamEvent } from "./event-log.ts";
import { TUNING } from "../tuning.ts";

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

/** What is sent to a reader for whom there is nothing else: a comment, which a parser skips [API6]. */
const COMMENT = ":\n\n";

/** Headers of a stream. */
export const STREAM_HEADERS = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-store",
  // A proxy that gathers answers would hold the text back.
  "X-Accel-Buffering": "no",
} as const;

/** The lines of an event, in pieces, so that a large `data` is never copied whole. JSON text has no line breaks. */
export function eventPieces({ id, name, data }: StreamEvent): string[] {
  return [`id: ${id}\nevent: ${name}\ndata: `, data, "\n\n"];
}

/** The whole of a stream that ends; 204 when it is empty, which tells a browser's EventSource not to come back. */
export function eventStream(events: readonly StreamEvent[]): Response {
  if (events.length === 0) return new Response(null, { status: 204 });
  return new Response(events.flatMap(eventPieces).join(""), { headers: STREAM_HEADERS });
}

/**
 * Reads a `Last-Event-ID` header: the id, or null without one. Whatever is no id of ours is 0, which no log knows: its reader may have text.
 */
export function readLastEventId(header: string | null | undefined): number | null {
  if (header === null || header === undefined || header === "") return null;
  const id = /^\d{1,16}$/.test(header) ? Number(header) : 0;
  return Number.isSafeInteger(id) ? id : 0;
}
