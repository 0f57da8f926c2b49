// A job as a stream, in three forms: its events, its text alone, and its result at the end. All readers of a stream see it whole, whenever they begin.
import { MAX_BYTES } from "./response.ts";
import { ProtocolError, UnexpectedOutputError } from "./errors.ts";
import type { JobEvent } from "./job-stream.ts";
import { isText, type RouterResult } from "./result.ts";

/** What `stream` returns: an iterator of the events, with the text and the result beside it. Nothing is sent before one of the three is read. */
export type JobStream = AsyncGenerator<JobEvent, void, undefined> & {
  /**
   * The text alone, as it comes. All pieces together are the text of the result. A piece that was given cannot be taken back: if another worker begins again
   * and writes another text, the loop throws UnexpectedOutputError at the end, and `result` has the whole text. Otherwise it throws as the events do.
   */
  readonly text: AsyncIterable<string>;
  /** The result at the end, as that of `run`: the text with its receipt checked. It rejects as the events throw. If all loops were left, it waits for the job. */
  readonly result: Promise<RouterResult>;
};

type Events = AsyncGenerator<JobEvent, void, undefined>;

/** The most that a stream keeps for readers that begin later, in characters. An honest router sends a part of it. */
const KEPT = 4 * MAX_BYTES;
/** What each event counts beside its text. */
const EVENT = 100;

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
  #kept = 0;
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
    // Who takes it and reads the text first gets the error there.
    this.#result.catch(() => {});
    return this.#result;
  }

  async *events(): Events {
    this.#readers += 1;
    try {
      for (let at = 0; ; at++) {
        const step = await (this.#steps[at] ??= this.#step());
        if (step.done === true) return;
        yield step.value;
      }
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) await this.#source.return();
    }
  }

  async #step(): Promise<IteratorResult<JobEvent, void>> {
    const step = await this.#source.next();
    if (step.done !== true) this.#kept += EVENT + (step.value.type === "delta" ? step.value.delta.length : 0);
    if (this.#kept > KEPT) throw new ProtocolError("the router sent more events than a job can have", { reason: "too_long" });
    return step;
  }

  async *#texts(): AsyncGenerator<string, void, undefined> {
    let given = "";
    /** The text since a reset, while it is what was given before; null if the next piece is new. */
    let repeated: string | null = null;
    /** The number of the next piece. If a piece has another number, those before it are lost, and the rest comes with the result. */
    let next = 0;
    for await (const event of this.events()) {
      if (event.type === "reset") {
        next = 0;
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
        if (!output.startsWith(given)) throw new UnexpectedOutputError("the text that was streamed, because another worker has finished the job", event.result);
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
