// The readers of event streams: each sends the events of a log to one client, at the speed of that client.
import { TUNING } from "../tuning.ts";
import { type Cursor, DONE_ID, type EventLog, type StreamEvent } from "./event-log.ts";

const encoder = new TextEncoder();

/** A comment of server-sent events: parsers skip it [API6]. */
const COMMENT = ":\n\n";

/** The callbacks by which a reader reports to its owner. */
type ReaderEvents = {
  /** Called once, when nothing more can be sent. */
  closed: () => void;
  /** Called after `closed`, if the reader ended because of a fault of this program. */
  failed: (error: unknown) => void;
};

/**
 * One open stream. It keeps a position in the log and takes the next events only when the platform has sent the previous ones, so a slow reader costs
 * no memory: the log moves on, and if the reader missed text that is gone, it gets a `reset`. No method throws: a fault ends only this reader, and
 * the others go on.
 */
export class Reader {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #log: EventLog;
  /** The id of the event that is sent now or was sent last. */
  #cursor: Cursor;
  /** The unsent rest of the present event. */
  #rest: string[] = [];
  /** Undefined after the stream ended. */
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  /** True if the reader took something since {@link isStuck} was last called. */
  #moved = true;
  /** True while `#send` runs. */
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

  /** Tells the reader that the log has new events. */
  wake(): void {
    // The rest of a large event that the log has dropped would stay in memory for this reader only.
    if (this.#rest.some((piece) => piece.length > TUNING.streamChunkChars) && !this.#log.keeps(this.#cursor)) return this.drop();
    this.#send();
  }

  /** Sends a comment, so that the client and all proxies see that the stream is alive. Does nothing in the middle of an event. */
  comment(): void {
    if (this.#rest.length > 0 || !this.#hasRoom()) return;
    this.#rest = [COMMENT];
    this.#send();
  }

  /** True if events wait for the reader and it has taken nothing since the last call. */
  isStuck(): boolean {
    const stuck = !this.#moved && !this.#hasRoom();
    this.#moved = false;
    return stuck;
  }

  /** Closes the stream early. A client that is still there reconnects and goes on after its last event; it ignores half an event at the end. */
  drop(): void {
    const controller = this.#controller;
    this.#end();
    try {
      // Closed, not ended with an error: the platform would log an error as a fault of the hub.
      controller?.close();
    } catch {
      // The platform has closed the stream already.
    }
  }

  #hasRoom(): boolean {
    return (this.#controller?.desiredSize ?? 0) > 0;
  }

  /** Sends while there is room. If the client waits for bytes, `enqueue` calls `pull` before it returns; the loop that runs already then goes on. */
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

  /** Returns the next characters to send, from as many events as fit in one chunk. */
  #chunk(): string {
    let chunk = "";
    while (chunk.length < TUNING.streamChunkChars) {
      const piece = this.#rest.shift();
      if (piece === undefined) {
        const event = this.#log.next(this.#cursor);
        if (event === null) break;
        this.#rest = eventPieces(event);
        this.#cursor = event.id;
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

/** Returns where to cut a text so that the first part has about `length` characters and no surrogate pair is split. */
function cutAt(text: string, length: number): number {
  if (text.length <= length) return text.length;
  const unit = text.charCodeAt(length);
  return unit >= 0xdc00 && unit <= 0xdfff ? length + 1 : length;
}

/** The response headers of a stream. */
export const STREAM_HEADERS = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-store",
  // Tells proxies not to buffer the answer, because they would delay the text.
  "X-Accel-Buffering": "no",
} as const;

/** Returns an event as text for the wire, in pieces, so that a large `data` is not copied. `data` is one line, because JSON text has no line breaks. */
export function eventPieces({ id, name, data }: StreamEvent): string[] {
  return [`id: ${id}\nevent: ${name}\ndata: `, data, "\n\n"];
}

/** Answers with a whole stream. If it is empty, the status is 204, which tells a browser's EventSource not to reconnect. */
export function eventStream(events: readonly StreamEvent[]): Response {
  if (events.length === 0) return new Response(null, { status: 204 });
  return new Response(events.flatMap(eventPieces).join(""), { headers: STREAM_HEADERS });
}

/**
 * Reads the header `Last-Event-ID`: the id, or null without one. A text that is not one of our ids gives 0, which no log knows: the reader may have
 * text, so it gets a `reset`.
 */
export function readLastEventId(header: string | null | undefined): number | null {
  if (header === null || header === undefined || header === "") return null;
  const id = /^\d{1,16}$/.test(header) ? Number(header) : 0;
  return Number.isSafeInteger(id) ? id : 0;
}
