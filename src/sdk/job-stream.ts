// A job as a stream, in three forms: its events, its text alone, and its result at the end. The events come from the router's event stream, or from polling if
// it has none. All readers of a stream see it whole, whenever they begin. On a job's way: from the commit to the end, beside poll.
import { createParser, type EventSourceMessage } from "eventsource-parser";
import type { Job, JobStatus } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/json.ts";
import { TIMING } from "../protocol/times.ts";
import type { Poll } from "./accepted-jobs.ts";
import { type Connection, MAX_BYTES, readJsonText, type RouterRequest } from "./connection.ts";
import { NotFoundError, ProtocolError, RouterConnectionError, UnavailableError, UnexpectedOutputError } from "./errors.ts";
import { isText, type RouterResult } from "./result.ts";
import { askedPause, backoff, isOutage, type Limit, sleep, within } from "./retry.ts";
import { isJob, isStatus } from "./shapes.ts";

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
type WireEvent = Exclude<JobEvent, { type: "job" | "done" }> | { type: "done"; job: Job };

/** One connection to the stream of a job: its events after `lastId`, with their ids. Unknown events are ignored, because the protocol may add some. */
async function* wireEvents(
  { connection, settings, jobId }: Poll,
  lastId: string,
  limit: Limit,
): AsyncGenerator<{ id: string; event: WireEvent }, void, undefined> {
  const headers = new Headers(lastId === "" ? {} : { "last-event-id": lastId });
  const request = { method: "GET", path: `/v1/jobs/${jobId}/events`, headers, timeout: settings.requestTimeout } as const;
  for await (const message of serverSentEvents(connection, request, limit)) {
    const event = readEvent(message, jobId);
    if (event !== null) yield { id: message.id ?? "", event };
  }
}

function readEvent({ event, data }: EventSourceMessage, jobId: string): WireEvent | null {
  const json = readJsonText(data);
  const value = json.ok ? json.value : undefined;
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
  throw new ProtocolError(`the router sent a malformed event (${event})`, { reason: json.ok ? "unexpected_shape" : json.reason });
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

/** The most that is read of the event stream of one job, in characters: it is kept for readers that begin later. No result has as much text. */
const READ = 4 * MAX_BYTES;
/** What each event counts beside its text. */
const EVENT = 100;
/** After this many streams in a row that brought no event and did not break, something between here and the router lets no stream through. */
const EMPTY = 3;

/**
 * Follows a job to its end. An accepted job survives an outage, so a broken stream is opened again after its last event as long as the limit allows. If the
 * router has no event stream (404) or no free one (503), if a proxy lets none through, or if a worker writes text without end, the job is polled.
 */
export async function* followJob(poll: Poll, limit: Limit): AsyncGenerator<WireEvent, void, undefined> {
  let lastId = "";
  let read = 0;
  let empty = 0;
  for (let failures = 0; ; failures++) {
    let trouble: unknown;
    let isEmpty = true;
    try {
      for await (const { id, event } of wireEvents(poll, lastId, limit)) {
        lastId = id;
        failures = 0;
        isEmpty = false;
        read += EVENT + (event.type === "delta" ? event.delta.length : 0);
        if (read > READ) break;
        if (event.type === "status") poll.saw(event.status);
        yield event;
        if (event.type === "done") return;
      }
    } catch (error) {
      limit.signal.throwIfAborted();
      if (error instanceof NotFoundError || (error instanceof UnavailableError && error.status === 503)) return yield* polled(poll, limit);
      if (!isOutage(error)) throw error;
      trouble = error;
    }
    if (!isEmpty) empty = 0;
    else if (trouble === undefined || (trouble instanceof RouterConnectionError && trouble.reason === "timeout")) empty++;
    // Too much text does not make the result of the job wrong.
    if (read > READ || empty >= EMPTY) return yield* polled(poll, limit);
    await sleep(Math.max(askedPause(trouble), backoff(poll.settings.retry.delay, failures)), limit);
  }
}

async function* polled(poll: Poll, limit: Limit): AsyncGenerator<WireEvent, void, undefined> {
  const changes = poll.changes(limit);
  let step = await changes.next();
  for (; step.done !== true; step = await changes.next()) yield { type: "status", status: step.value.status, attempt: null };
  yield { type: "done", job: step.value };
}

/** What `stream` returns: an iterator of the events, with the text and the result beside it. Nothing is sent before one of the three is read. */
export type JobStream = AsyncGenerator<JobEvent, void, undefined> & {
  /**
   * The text alone, as it comes. All pieces together are the text of the result. A piece that was given cannot be taken back: if another worker begins again
   * and writes another text, the loop throws UnexpectedOutputError at the end, and `result` has the whole text. Otherwise it throws as the events do.
   */
  readonly text: AsyncIterable<string>;
  /**
   * The result at the end, as that of `run`: the text with its receipt checked. It rejects as the events throw. If all loops were left, it waits for the job.
   */
  readonly result: Promise<RouterResult>;
};

type Events = AsyncGenerator<JobEvent, void, undefined>;

/** The stream of a job. `waitFor` resolves to its result after the source was closed. */
export function jobStream(source: Events, waitFor: (jobId: string) => Promise<RouterResult>): JobStream {
  const shared = new SharedStream(source, waitFor);
  const events = shared.events();
  addForms(events, shared);
  return events;
}

function addForms(events: Events, shared: SharedStream): asserts events is JobStream {
  Object.defineProperties(events, { text: { get: () => shared.text }, result: { get: () => shared.result } });
}

/** The events of one source for any number of readers. The source is closed when the last one leaves. */
class SharedStream {
  readonly #source: Events;
  readonly #waitFor: (jobId: string) => Promise<RouterResult>;
  /** The steps of the source that were asked for. */
  readonly #steps: Promise<IteratorResult<JobEvent, void>>[] = [];
  #readers = 0;
  #result: Promise<RouterResult> | undefined;

  constructor(source: Events, waitFor: (jobId: string) => Promise<RouterResult>) {
    this.#source = source;
    this.#waitFor = waitFor;
  }

  get text(): AsyncIterable<string> {
    return { [Symbol.asyncIterator]: () => this.#texts() };
  }

  get result(): Promise<RouterResult> {
    this.#result ??= this.#end();
    // A caller that reads the text first gets the error from that loop.
    this.#result.catch(() => {});
    return this.#result;
  }

  async *events(): Events {
    this.#readers += 1;
    try {
      for (let at = 0; ; at++) {
        const step = await (this.#steps[at] ??= this.#source.next());
        if (step.done === true) return;
        yield step.value;
      }
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) await this.#source.return();
    }
  }

  async *#texts(): AsyncGenerator<string, void, undefined> {
    let given = "";
    /** The text since a reset, while it is what was given before; null if the next piece is new. */
    let repeated: string | null = null;
    /** The number of the next piece. If a piece has another number, those before it are lost, and the rest comes with the result. */
    let next = 0;
    let isRestarted = false;
    for await (const event of this.events()) {
      if (event.type === "reset") {
        next = 0;
        isRestarted = true;
        repeated = given === "" ? null : "";
      }
      if (event.type === "delta" && event.seq === next) {
        next += 1;
        let piece = event.delta;
        if (repeated !== null) {
          repeated += piece;
          if (repeated.length <= given.length) continue;
          if (!repeated.startsWith(given)) {
            next = Number.NaN;
            continue;
          }
          piece = repeated.slice(given.length);
          repeated = null;
        }
        given += piece;
        if (piece !== "") yield piece;
      }
      if (event.type === "done") {
        const { output } = event.result;
        if (!isText(output)) throw new UnexpectedOutputError("a text", event.result);
        const why = isRestarted ? ", because another worker has finished the job" : "";
        if (!output.startsWith(given)) throw new UnexpectedOutputError(`the text that was streamed${why}`, event.result);
        if (output.length > given.length) yield output.slice(given.length);
        return;
      }
    }
    throw new ProtocolError("the stream was closed before its end");
  }

  async #end(): Promise<RouterResult> {
    let jobId: string | undefined;
    for await (const event of this.events()) {
      if (event.type === "job") jobId = event.jobId;
      if (event.type === "done") return event.result;
    }
    if (jobId === undefined) throw new ProtocolError("the stream was closed before its beginning");
    return this.#waitFor(jobId);
  }
}
