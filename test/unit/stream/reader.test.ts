import { createParser } from "eventsource-parser";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { EventLog } from "../../../src/coordinator/stream/event-log.ts";
import { Reader } from "../../../src/coordinator/stream/reader.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";

const VIEW = { status: "running", attempt: 1, lease: { number: 1, key: "worker" } } as const;

function failsTest(error: unknown): never {
  throw error;
}

function opened(): { log: EventLog; reader: Reader; out: ReadableStreamDefaultReader<Uint8Array>; closed: () => number } {
  const log = new EventLog(1_000, VIEW);
  let closed = 0;
  const reader = new Reader(log, log.cursor(null), { closed: () => closed++, failed: failsTest });
  return { log, reader, out: reader.stream.getReader(), closed: () => closed };
}

async function text(out: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const { value } = await out.read();
  return new TextDecoder().decode(value);
}

/** Resolves when the stream has asked for bytes, for a reader that waits, and has been told that there are none yet. */
function asked(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Everything up to the end. */
async function whole(out: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let told = "";
  for (let part = await out.read(); !part.done; part = await out.read()) told += decoder.decode(part.value, { stream: true });
  return told;
}

describe("a reader of a stream", () => {
  it("[API6] gets a comment when it has read everything", async () => {
    const { reader, out } = opened();
    await text(out);
    reader.comment();
    expect(await text(out)).toBe(":\n\n");
  });

  it("[API6] gets no comment in the middle of an event", async () => {
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

  it("[API6] is stuck if it reads nothing between two checks although there are events", async () => {
    const { log, reader, out } = opened();
    await text(out);
    for (let look = 0; look < 3; look++) expect(reader.isStuck()).toBe(false);
    log.delta(0, "x".repeat(LIMITS.streamTextBytes / 2));
    reader.wake();
    await text(out);
    expect(reader.isStuck()).toBe(false);
    expect(reader.isStuck()).toBe(true);
  });

  it("[API6] holds one chunk that was not read yet, however many there are", async () => {
    const { log, reader, out } = opened();
    await text(out);
    for (let seq = 0; seq < 40; seq++) {
      log.delta(seq, "x".repeat(LIMITS.streamTextBytes / 40));
      reader.wake();
    }
    // What the platform has been handed and not asked for more of.
    expect((await out.read()).value?.length).toBeLessThan(70_000);
  });

  it("[API6] reports its end once: when it leaves, is dropped or has read everything", async () => {
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

  it("[API6] gets the end once while it waits for bytes, although `enqueue` asks for more before it returns", async () => {
    for (const text of ["", "x", "x".repeat(3 * TUNING.streamChunkChars)]) {
      const { log, reader, out, closed } = opened();
      await out.read();
      const waiting = whole(out);
      await asked();
      log.delta(0, text);
      log.end({ status: "completed", attempt: 1, json: '{"id":"j"}', key: "worker" });
      reader.wake();
      expect(closed()).toBe(text.length > TUNING.streamChunkChars ? 0 : 1);
      const told = await waiting;
      expect(told.match(/^event: .*$/gm)).toEqual(["event: delta", "event: status", "event: done"]);
      expect(closed()).toBe(1);
    }
  });

  it("[API6] gets new events once if it waits for bytes while a comment is sent", async () => {
    const { log, reader, out } = opened();
    await out.read();
    const waiting = whole(out);
    await asked();
    log.delta(0, "new");
    reader.comment();
    log.end({ status: "completed", attempt: 1, json: "{}", key: "worker" });
    reader.wake();
    const told = await waiting;
    expect(told.match(/^:$/gm)).toHaveLength(1);
    expect(told.match(/^event: .*$/gm)).toEqual(["event: delta", "event: status", "event: done"]);
  });

  it.each([2, 3])("[API6] %i readers of one log get everything at once, those that wait and the one that reads later", async (count) => {
    const log = new EventLog(1_000, VIEW);
    const readers = Array.from({ length: count }, () => new Reader(log, log.cursor(null), { closed: () => {}, failed: failsTest }));
    const outs = readers.map(({ stream }) => stream.getReader());
    const waiting = outs.slice(1).map(whole);
    for (const [seq, text] of ["a", "b"].entries()) {
      await asked();
      log.delta(seq, text);
      for (const reader of readers) reader.wake();
    }
    await asked();
    log.end({ status: "completed", attempt: 1, json: "{}", key: "worker" });
    for (const reader of readers) reader.wake();
    for (const told of [...(await Promise.all(waiting)), ...(await Promise.all(outs.slice(0, 1).map(whole)))])
      expect(told.match(/^event: .*$/gm)).toEqual(["event: status", "event: delta", "event: delta", "event: status", "event: done"]);
  });

  it("[API6] whose log is damaged ends, reports that once, and does not throw into the caller that wakes it", async () => {
    const log = new EventLog(1_000, VIEW);
    const faults: unknown[] = [];
    let closed = 0;
    const reader = new Reader(log, log.cursor(null), { closed: () => closed++, failed: (error) => faults.push(error) });
    const out = reader.stream.getReader();
    await out.read();
    const damage = new Error("damaged");
    const waiting = out.read();
    await asked();
    log.next = () => {
      throw damage;
    };
    reader.wake();
    reader.wake();
    reader.comment();
    reader.drop();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(faults).toEqual([damage]);
    expect(closed).toBe(1);
  });

  it("[API6] whose log is damaged when the platform asks for bytes ends in the same way", async () => {
    const log = new EventLog(1_000, VIEW);
    const faults: unknown[] = [];
    let closed = 0;
    log.next = () => {
      throw new Error("damaged");
    };
    const reader = new Reader(log, log.cursor(null), { closed: () => closed++, failed: (error) => faults.push(error) });
    expect(await reader.stream.getReader().read()).toEqual({ done: true, value: undefined });
    expect([faults.length, closed]).toEqual([1, 1]);
  });
});
