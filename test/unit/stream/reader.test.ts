import { createParser } from "eventsource-parser";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { EventLog } from "../../../src/coordinator/stream/event-log.ts";
import { Reader } from "../../../src/coordinator/stream/reader.ts";

const VIEW = { status: "running", attempt: 1, lease: { number: 1, key: "worker" } } as const;

function opened(): { log: EventLog; reader: Reader; out: ReadableStreamDefaultReader<Uint8Array>; closed: () => number } {
  const log = new EventLog(1_000, VIEW);
  let closed = 0;
  const reader = new Reader(log, log.cursor(null), () => closed++);
  return { log, reader, out: reader.stream.getReader(), closed: () => closed };
}

async function text(out: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const { value } = await out.read();
  return new TextDecoder().decode(value);
}

describe("a reader of a stream", () => {
  it("[API6] is sent a comment when it has taken everything", async () => {
    const { reader, out } = opened();
    await text(out);
    reader.comment();
    expect(await text(out)).toBe(":\n\n");
  });

  it("[API6] is sent none in the middle of an event", async () => {
    const { log, reader, out } = opened();
    const delta = "\u{1F600}é".repeat(100_000);
    log.delta(0, delta);
    reader.wake();
    const events: string[] = [];
    let comments = 0;
    const parser = createParser({ onEvent: ({ data }) => events.push(data), onComment: () => void comments++ });
    const decoder = new TextDecoder("utf-8", { fatal: true });
    while (events.length < 2) {
      reader.comment();
      parser.feed(decoder.decode((await out.read()).value, { stream: true }));
    }
    expect(JSON.parse(events[1] ?? "")).toEqual({ attempt: 1, seq: 0, delta });
    expect(comments).toBeLessThanOrEqual(1);
  });

  it("[API6] that takes nothing from one look to the next is stuck; one that has nothing to take is not", async () => {
    const { log, reader, out } = opened();
    await text(out);
    for (let look = 0; look < 3; look++) expect(reader.isStuck()).toBe(false);
    log.delta(0, "x".repeat(LIMITS.streamTextBytes / 2));
    reader.wake();
    await text(out);
    expect(reader.isStuck()).toBe(false);
    expect(reader.isStuck()).toBe(true);
  });

  it("[API6] holds one part of what it has not taken, however much there is", async () => {
    const { log, reader, out } = opened();
    await text(out);
    for (let seq = 0; seq < 40; seq++) {
      log.delta(seq, "x".repeat(LIMITS.streamTextBytes / 40));
      reader.wake();
    }
    // What the platform has been handed and not asked for more of.
    expect((await out.read()).value?.length).toBeLessThan(70_000);
  });

  it("[API6] that leaves, or is dropped, or has come to the end is told so once", async () => {
    const left = opened();
    await left.out.cancel();
    const dropped = opened();
    dropped.reader.drop();
    const done = opened();
    done.log.end({ status: "failed", attempt: 1, json: "{}", key: null });
    done.reader.wake();
    for (const { reader, out, closed } of [left, dropped, done]) {
      while (!(await out.read()).done);
      reader.drop();
      reader.wake();
      reader.comment();
      expect(closed()).toBe(1);
    }
  });
});
