import { createParser, type EventSourceMessage } from "eventsource-parser";
import { TIMING } from "../protocol/limits.ts";
import type { Connection, RouterRequest } from "./connection.ts";
import { ProtocolError, RouterConnectionError } from "./errors.ts";
import { type Limit, within } from "./limit.ts";
import { MAX_BYTES } from "./response-body.ts";

/** A stream that was silent for longer has lost its other end, ms: two comments were due. */
const SILENCE = 2 * TIMING.streamComment + 5_000;

/**
 * The server-sent events of one answer, as they arrive, until it ends. Throws what `Connection.open` does, RouterConnectionError when it breaks
 * or falls silent, and ProtocolError for what is no event stream. Leaving the loop early closes the connection.
 */
export async function* serverSentEvents(connection: Connection, request: RouterRequest, limit: Limit): AsyncGenerator<EventSourceMessage, void, undefined> {
  const response = await connection.open(request, limit);
  const details = { status: response.status, requestId: response.headers.get("x-request-id") };
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  try {
    if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream")) throw new ProtocolError("the answer is no event stream", details);
    const ready: EventSourceMessage[] = [];
    const parser = createParser({
      maxBufferSize: MAX_BYTES,
      onEvent: (event) => ready.push(event),
      onError: (error) => {
        if (error.type === "max-buffer-size-exceeded") throw new ProtocolError("the router sent an event that is too long", { ...details, reason: "too_long" });
      },
    });
    const decoder = new TextDecoder("utf-8", { fatal: true });
    for (;;) {
      const { done, value } = await within(SILENCE, limit, broken, () => reader.read().catch((cause: unknown) => Promise.reject(broken(cause))));
      if (done) return;
      parser.feed(decode(decoder, value, details));
      yield* ready.splice(0);
    }
  } finally {
    // Not awaited: a peer that never stops sending would hold us here.
    reader.cancel().catch(() => {});
  }
}

function decode(decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array, details: { status: number; requestId: string | null }): string {
  try {
    return decoder.decode(bytes, { stream: true });
  } catch {
    throw new ProtocolError("the router sent events that are not UTF-8", { ...details, reason: "not_utf8" });
  }
}

function broken(cause?: unknown): RouterConnectionError {
  return new RouterConnectionError("the event stream broke", { reason: cause === undefined ? "timeout" : "broken", cause });
}
