import type { StreamEvent } from "./event-log.ts";

/** What is sent to a reader for whom there is nothing else: a comment, which a parser skips [API6]. */
export const COMMENT = ":\n\n";

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
