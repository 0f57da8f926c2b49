// The events of a job while it runs. They come from the router's event stream, or from polling if the router has no stream.
import { createParser, type EventSourceMessage } from "eventsource-parser";
import type { Job, JobStatus } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/text.ts";
import type { Connection, RouterRequest } from "./connection.ts";
import { MAX_BYTES, readJsonText } from "./response.ts";
import { NotFoundError, ProtocolError, RouterConnectionError, UnavailableError } from "./errors.ts";
import { askedPause, backoff, isTransient, type Limit, sleep, within } from "./retry.ts";
import type { ClientSettings } from "./options.ts";
import type { RouterResult } from "./result.ts";
import { isJob, isStatus } from "./shapes.ts";
import { TIMING } from "../protocol/limits.ts";
import type { Poll } from "./poll.ts";

/** What `stream` yields. Only the text in `done` is final; the joined deltas are what a worker has generated so far. */
export type JobEvent =
  /** The router has the job. This is always the first event. `price` is that of a result. */
  | { type: "job"; jobId: string; price: string | null }
  /** The status has changed. `attempt` counts the workers that got the job; null while the client polls. */
  | { type: "status"; status: JobStatus; attempt: number | null }
  /** More text. If the first `seq` after a `reset` is above 0, the beginning is missing. */
  | { type: "delta"; attempt: number; seq: number; delta: string }
  /** Discard the text: another worker starts again, or some text was lost. */
  | { type: "reset"; attempt: number }
  /** The end, with the result that `run` would return. */
  | { type: "done"; result: RouterResult };

/** An event as the router sends it. */
export type WireEvent = Exclude<JobEvent, { type: "job" | "done" }> | { type: "done"; job: Job };

/** One connection to the stream of a job: its events after `lastId`, with their ids. Unknown events are ignored, because the protocol may add some. */
async function* wireEvents(
  connection: Connection,
  { requestTimeout }: ClientSettings,
  jobId: string,
  lastId: string,
  limit: Limit,
): AsyncGenerator<{ id: string; event: WireEvent }, void, undefined> {
  const headers = new Headers(lastId === "" ? {} : { "last-event-id": lastId });
  const request = { method: "GET", path: `/v1/jobs/${jobId}/events`, headers, timeout: requestTimeout } as const;
  for await (const message of serverSentEvents(connection, request, limit)) {
    const event = readEvent(message, jobId);
    if (event !== null) yield { id: message.id ?? "", event };
  }
}

function readEvent({ event, data }: EventSourceMessage, jobId: string): WireEvent | null {
  const reading = readJsonText(data);
  const value = reading.ok ? reading.value : undefined;
  switch (event) {
    case "status":
      if (isJsonObject(value) && isStatus(value.status) && isCount(value.attempt)) return { type: "status", status: value.status, attempt: value.attempt };
      break;
    case "delta":
      if (isJsonObject(value) && isCount(value.attempt) && isCount(value.seq) && typeof value.delta === "string") {
        return { type: "delta", attempt: value.attempt, seq: value.seq, delta: value.delta };
      }
      break;
    case "reset":
      if (isJsonObject(value) && isCount(value.attempt)) return { type: "reset", attempt: value.attempt };
      break;
    case "done":
      if (isJob(value) && value.id.toLowerCase() === jobId.toLowerCase()) return { type: "done", job: value };
      break;
    default:
      return null;
  }
  throw new ProtocolError(`the router sent a malformed event (${event})`, { reason: reading.ok ? "unexpected_shape" : reading.reason });
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** After this silence in ms the stream counts as broken: two comments should have arrived. */
const SILENCE = 2 * TIMING.streamComment + 5_000;

/**
 * The server-sent events of one answer, as they arrive, until it ends. Throws as `Connection.open` does, RouterConnectionError if the stream breaks or falls
 * silent, and ProtocolError if the answer is not an event stream. The connection closes when the caller leaves the loop.
 */
async function* serverSentEvents(connection: Connection, request: RouterRequest, limit: Limit): AsyncGenerator<EventSourceMessage, void, undefined> {
  const response = await connection.open(request, limit);
  const details = { status: response.status, requestId: response.headers.get("x-request-id") };
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  try {
    if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream")) throw new ProtocolError("the answer is not an event stream", details);
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
    // Not awaited: a peer that never stops sending would block this call.
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

/**
 * Follows a job to its end. An accepted job survives an outage, so a broken stream is opened again after its last event as long as the limit allows. If the
 * router has no event stream (404) or no free one (503), the job is polled.
 */
export async function* followJob(connection: Connection, settings: ClientSettings, poll: Poll, limit: Limit): AsyncGenerator<WireEvent, void, undefined> {
  let lastId = "";
  for (let failures = 0; ; failures++) {
    let trouble: unknown;
    try {
      for await (const { id, event } of wireEvents(connection, settings, poll.jobId, lastId, limit)) {
        lastId = id;
        failures = 0;
        if (event.type === "status") poll.saw(event.status);
        yield event;
        if (event.type === "done") return;
      }
    } catch (error) {
      limit.signal.throwIfAborted();
      if (error instanceof NotFoundError || (error instanceof UnavailableError && error.status === 503))
        return yield* polled(connection, settings, poll, limit);
      if (!isTransient(error) && !(error instanceof UnavailableError)) throw error;
      trouble = error;
    }
    await sleep(Math.max(askedPause(trouble), backoff(settings.retry.delay, failures)), limit);
  }
}

async function* polled(connection: Connection, settings: ClientSettings, poll: Poll, limit: Limit): AsyncGenerator<WireEvent, void, undefined> {
  const changes = poll.changes(connection, settings, limit);
  let step = await changes.next();
  for (; step.done !== true; step = await changes.next()) yield { type: "status", status: step.value.status, attempt: null };
  yield { type: "done", job: step.value };
}
