// Reads an event stream step by step, for the edge tests.
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { onTestFinished } from "vitest";

/** How long a test waits for an event, ms. */
const PATIENCE = 5_000;

export type Told = { id: string; event: string; data: Record<string, unknown> };

/** The seeker's end of an event stream. It reads only when a test asks for an event. */
export class EventReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #ready: EventSourceMessage[] = [];
  readonly #parser = createParser({ onEvent: (event) => this.#ready.push(event), onComment: () => void this.comments++ });
  readonly #decoder = new TextDecoder();
  /** The number of comments and bytes that were read. */
  comments = 0;
  bytes = 0;

  constructor(response: Response) {
    if (response.status !== 200 || response.body === null) throw new Error(`no stream: ${response.status}`);
    this.#reader = response.body.getReader();
    onTestFinished(() => this.leave());
  }

  /** Returns the next event; null at the end. Rejects if the stream breaks. */
  async next(): Promise<Told | null> {
    for (;;) {
      const event = this.#ready.shift();
      if (event !== undefined) return { id: event.id ?? "", event: event.event ?? "", data: JSON.parse(event.data) };
      const { done, value } = await this.#read();
      if (done) return null;
      this.bytes += value.length;
      this.#parser.feed(this.#decoder.decode(value, { stream: true }));
    }
  }

  /** Returns the next `count` events. */
  async take(count: number): Promise<Told[]> {
    const told: Told[] = [];
    while (told.length < count) {
      const event = await this.next();
      if (event === null) throw new Error(`ended after ${JSON.stringify(told)}`);
      told.push(event);
    }
    return told;
  }

  /** Returns all events up to the end. */
  async rest(): Promise<Told[]> {
    const told: Told[] = [];
    for (let event = await this.next(); event !== null; event = await this.next()) told.push(event);
    return told;
  }

  async leave(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
  }

  async #read(): Promise<ReadableStreamReadResult<Uint8Array>> {
    const { promise, reject } = Promise.withResolvers<never>();
    const guard = setTimeout(() => reject(new Error(`nothing in ${PATIENCE} ms`)), PATIENCE);
    return Promise.race([this.#reader.read(), promise]).finally(() => clearTimeout(guard));
  }
}

/** Returns an event in a short form for comparisons. */
export function inShort({ event, data }: Told): string {
  switch (event) {
    case "status":
      return `status ${String(data.status)} ${String(data.attempt)}`;
    case "delta":
      return `delta ${String(data.attempt)}.${String(data.seq)} ${String(data.delta).slice(0, 20)}`;
    case "reset":
      return `reset ${String(data.attempt)}`;
    default:
      return `${event} ${String(data.status)}`;
  }
}
