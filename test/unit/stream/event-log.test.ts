import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { DONE_ID, ENDED_ID, endedEvents, EventLog, type JobView, type StreamEvent } from "../../../src/coordinator/stream/event-log.ts";

import { eventPieces, eventStream, readLastEventId } from "../../../src/coordinator/stream/reader.ts";

const START = 1_000_000;
const running = (attempt: number, number = attempt, key = "worker"): JobView => ({ status: "running", attempt, lease: { number, key } });
const pending = (attempt: number): JobView => ({ status: "pending", attempt, lease: null });

/** Everything a reader is told that has the event `lastId` and what came before it. */
function read(log: EventLog, lastId: number | null): { id: number; name: string; data: unknown }[] {
  const told: { id: number; name: string; data: unknown }[] = [];
  let cursor = log.cursor(lastId);
  for (let event = log.next(cursor); event !== null; event = log.next(cursor)) {
    told.push({ ...event, data: JSON.parse(event.data) });
    cursor = event.id;
  }
  return told;
}
const names = (log: EventLog, lastId: number | null): string[] => read(log, lastId).map(({ name }) => name);

describe("numbering", () => {
  it("[API6] a reader gets the status, then the text in order, and nothing twice", () => {
    const log = new EventLog(START, running(1));
    log.delta(0, "a");
    log.delta(1, "b");
    const told = read(log, null);
    expect(told.map(({ name, data }) => [name, data])).toEqual([
      ["status", { status: "running", attempt: 1 }],
      ["delta", { attempt: 1, seq: 0, delta: "a" }],
      ["delta", { attempt: 1, seq: 1, delta: "b" }],
    ]);
    for (const [index, { id }] of told.entries()) expect(read(log, id)).toEqual(told.slice(index + 1));
  });

  it.each([START - 1, 0, START + 50, ENDED_ID, DONE_ID])("[API6] after an id that this log never used (%d) the reader gets a reset", (id) => {
    const log = new EventLog(START, running(2));
    log.delta(0, "a");
    expect(names(log, id)).toEqual(["reset", "status", "delta"]);
  });

  it("[API6] ids of a later log are higher than those of the earlier one, and are not confused with them", () => {
    const before = new EventLog(START, running(1));
    for (let seq = 0; seq < 20; seq++) before.delta(seq, "x");
    const after = new EventLog(START + 1_000_000, running(1));
    after.delta(0, "again");
    for (const { id } of read(before, null)) expect(names(after, id)).toEqual(["reset", "status", "delta"]);
    expect(Math.min(...read(after, null).map(({ id }) => id))).toBeGreaterThan(Math.max(...read(before, null).map(({ id }) => id)));
  });

  it("[API6] the last two events have the same ids after every restart of the hub", () => {
    const log = new EventLog(START, running(1));
    log.delta(0, "a");
    log.end({ status: "completed", attempt: 1, json: '{"id":1}', key: "worker" });
    const told = read(log, null);
    expect(told.slice(-2)).toEqual(
      endedEvents({ status: "completed", attempt: 1, json: '{"id":1}' }, null).map((event) => ({ ...event, data: JSON.parse(event.data) })),
    );
    expect(told.slice(-2).map(({ id }) => id)).toEqual([ENDED_ID, DONE_ID]);
    expect(read(log, ENDED_ID).map(({ name }) => name)).toEqual(["done"]);
    expect(read(log, DONE_ID)).toEqual([]);
    expect(log.cursor(DONE_ID)).toBe(DONE_ID);
  });
});

describe("text", () => {
  it("[WS9] a repeat is ignored", () => {
    const log = new EventLog(START, running(1));
    for (const seq of [0, 1, 0, 1, 2]) log.delta(seq, String(seq));
    expect(read(log, null).slice(1)).toMatchObject([{ data: { seq: 0 } }, { data: { seq: 1 } }, { data: { seq: 2 } }]);
  });

  it("[API6, API9] no event ends within a character: its first half waits for the second, and a half that stays alone is replaced", () => {
    const log = new EventLog(START, running(1));
    const texts = (): string[] => read(log, null).flatMap(({ name, data }) => (name === "delta" ? [(data as { delta: string }).delta] : []));
    for (const [seq, text] of ["a \ud83d", "\ude00!", "\ud83d", "\ude00", "\ud83d", "b", "\ude00 c", "d\ud83d"].entries()) log.delta(seq, text);
    expect(texts()).toEqual(["a ", "😀!", "", "😀", "", "\ufffdb", "\ufffd c", "d"]);
    // What a missing delta would have ended is gone, and kept text may be forgotten in between.
    log.delta(9, "e\ud83d");
    log.forgetText();
    log.delta(10, "\ude00");
    expect(texts()).toEqual(["😀"]);
    log.see({ ...running(2), lease: { number: 2, key: "b" } });
    log.delta(0, "\ude00");
    expect(texts()).toEqual(["\ufffd"]);
  });

  it("[API6] after missing text there is a reset, and the text begins again", () => {
    const log = new EventLog(START, running(1));
    log.delta(0, "a");
    const [, first] = read(log, null);
    log.delta(5, "f");
    expect(read(log, first?.id ?? 0)).toMatchObject([
      { name: "reset", data: { attempt: 1 } },
      { name: "delta", data: { seq: 5 } },
    ]);
  });

  it("[API6] a requeue resets, and the status follows", () => {
    const log = new EventLog(START, running(1));
    log.delta(0, "a");
    const last = read(log, null).at(-1)?.id ?? 0;
    log.see(pending(1));
    expect(read(log, last)).toMatchObject([
      { name: "reset", data: { attempt: 1 } },
      { name: "status", data: { status: "pending", attempt: 1 } },
    ]);
    log.see(running(2));
    log.delta(0, "b");
    expect(read(log, last).map(({ name, data }) => [name, data])).toEqual([
      ["reset", { attempt: 1 }],
      ["status", { status: "running", attempt: 2 }],
      ["delta", { attempt: 2, seq: 0, delta: "b" }],
    ]);
  });

  it("[WS9] after a rejection the same attempt number means another lease, with its own text", () => {
    const log = new EventLog(START, running(1, 1, "a"));
    log.delta(0, "from a");
    log.see(running(1, 2, "b"));
    log.delta(0, "from b");
    expect(read(log, null)).toMatchObject([{ name: "status" }, { name: "reset" }, { name: "delta", data: { delta: "from b" } }]);
  });

  it("[JB6] a result that comes late from another worker resets the text of the present one", () => {
    const log = new EventLog(START, running(2, 2, "second"));
    log.delta(0, "half an ans");
    log.end({ status: "completed", attempt: 2, json: "{}", key: "first" });
    expect(names(log, null)).toEqual(["reset", "status", "done"]);
  });

  it("[API6] keeps 1 MiB at most: a reader that has read everything goes on, others get a reset", () => {
    const log = new EventLog(START, running(1));
    const piece = "x".repeat(LIMITS.streamTextBytes / 16);
    for (let seq = 0; seq < 8; seq++) log.delta(seq, piece);
    const upToDate = read(log, null).at(-1)?.id ?? 0;
    for (let seq = 8; seq < 20; seq++) log.delta(seq, piece);
    expect(log.bytes).toBeLessThanOrEqual(LIMITS.streamTextBytes);
    expect(log.bytes).toBeGreaterThan(LIMITS.streamTextBytes / 2);
    expect(names(log, upToDate)).not.toContain("reset");
    expect(read(log, null)).toMatchObject([
      { name: "status" },
      { name: "reset" },
      { data: { seq: 5 } },
      ...Array.from({ length: 14 }, () => ({ name: "delta" })),
    ]);
  });

  it("[API6] a delta that is larger than that is never kept", () => {
    const log = new EventLog(START, running(1));
    log.delta(0, "x".repeat(LIMITS.streamTextBytes + 1));
    const told = names(log, null);
    expect(told).toEqual(["status", "reset"]);
    log.forgetText();
    expect(names(log, null)).toEqual(told);
    expect(log.bytes).toBe(0);
  });

  it("[API6] the log of a small ended job counts more bytes than its text, because it needs more memory", () => {
    const log = new EventLog(START, running(1));
    log.end({ status: "failed", attempt: 1, json: "{}", key: null });
    expect(log.bytes).toBeGreaterThan(1_000);
  });

  it("[API6] empty deltas cannot fill the memory", () => {
    const log = new EventLog(START, running(1));
    for (let seq = 0; seq < 100_000; seq++) log.delta(seq, "");
    expect(read(log, null).length).toBeLessThan(20_000);
  });
});

describe("the rest of a job whose text is gone", () => {
  const job = { status: "failed", attempt: 3, json: "{}" } as const;

  it.each([
    ["a new reader", null, ["status", "done"]],
    ["one that has text", START, ["reset", "status", "done"]],
    ["one whose id says nothing", 0, ["reset", "status", "done"]],
    ["one that has the last status", ENDED_ID, ["done"]],
    ["one that has all", DONE_ID, []],
  ])("[API6] %s", (_who, lastId, expected) => {
    expect(endedEvents(job, lastId).map(({ name }) => name)).toEqual(expected);
  });

  it("[API6] without further events the answer is 204, so that an EventSource does not reconnect", () => {
    expect(eventStream([]).status).toBe(204);
  });
});

describe("Last-Event-ID", () => {
  it.each([
    [undefined, null],
    ["", null],
    ["17", 17],
    ["9007199254740991", DONE_ID],
    ["9007199254740993", 0],
    ["-1", 0],
    ["x", 0],
    ["1.5", 0],
    ["99999999999999999999", 0],
  ])("[API6] %o is read as %o", (header, id) => {
    expect(readLastEventId(header)).toBe(id);
  });
});

/** What a hub and its workers may do, in any order. */
type Step =
  | { do: "claim" | "requeue" | "reject" | "crash" | "squeeze" | "resend" | "lose" }
  | { do: "write"; text: string }
  | { do: "read"; reader: number; events: number }
  | { do: "reconnect"; reader: number };

const Text = fc.oneof({ weight: 20, arbitrary: fc.string({ unit: "grapheme", maxLength: 6 }) }, { weight: 1, arbitrary: fc.constant("y".repeat(400_000)) });
const AnyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom<Step[]>(
      { do: "claim" },
      { do: "requeue" },
      { do: "reject" },
      { do: "crash" },
      { do: "squeeze" },
      { do: "resend" },
      { do: "lose" },
    ),
  },
  { weight: 8, arbitrary: Text.map((text): Step => ({ do: "write", text })) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("read" as const), reader: fc.nat(2), events: fc.integer({ min: 1, max: 5 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("reconnect" as const), reader: fc.nat(2) }) },
);

/** A client: joins deltas, drops at a reset, remembers the last id. */
class Client {
  lastId: number | null = null;
  text = "";
  from: number | null = 0;
  attempt = 0;
  resets = 0;
  done = false;
  cursor = 0;

  /** Takes at most so many events. */
  read(log: EventLog, most: number): void {
    for (let n = 0; n < most; n++) {
      const event = log.next(this.cursor);
      if (event === null) return;
      this.cursor = event.id;
      this.#take(event);
    }
  }

  #take(event: StreamEvent): void {
    if (this.lastId !== null) expect(event.id).toBeGreaterThan(this.lastId);
    this.lastId = event.id;
    const data = JSON.parse(event.data);
    if (event.name === "reset") {
      this.text = "";
      this.from = null;
      this.resets++;
    } else if (event.name === "delta") {
      this.from ??= data.seq;
      this.attempt = data.attempt;
      this.text += data.delta;
    } else if (event.name === "done") this.done = true;
  }
}

describe("any interleaving", () => {
  it("[API6] the deltas that a reader has joined are the worker's text, or the text after a reset", () => {
    fc.assert(
      fc.property(fc.array(AnyStep, { maxLength: 80 }), fc.boolean(), (steps, completes) => {
        let start = START;
        let lease: { number: number; attempt: number; deltas: string[] } | null = null;
        let leases = 0;
        let attempts = 0;
        let lost = 0;
        const view = (): JobView => (lease === null ? pending(attempts) : running(lease.attempt, lease.number));
        let log = new EventLog(start, view());
        const clients = [new Client(), new Client(), new Client()];
        const say = (from: number): void => {
          for (const [seq, text] of (lease?.deltas ?? []).entries()) if (seq >= from) log.delta(seq, text);
        };
        for (const step of steps) {
          switch (step.do) {
            case "claim":
              lease ??= { number: ++leases, attempt: ++attempts, deltas: [] };
              log.see(view());
              break;
            case "requeue":
            case "reject":
              if (lease !== null && step.do === "reject") attempts--;
              lease = null;
              log.see(view());
              break;
            case "write":
              if (lease === null) break;
              lease.deltas.push(step.text);
              say(lease.deltas.length - 1);
              break;
            case "lose":
              // The hub dropped a frame of a worker that floods.
              lease?.deltas.push("lost");
              lost++;
              break;
            case "resend":
              // After a cut the worker sends its last frames again.
              say(Math.max(0, (lease?.deltas.length ?? 0) - 4));
              break;
            case "crash":
              start += 1_000_000;
              log = new EventLog(start, view());
              for (const client of clients) client.cursor = log.cursor(client.lastId);
              break;
            case "squeeze":
              log.forgetText();
              break;
            case "reconnect": {
              const client = clients[step.reader];
              if (client !== undefined) client.cursor = log.cursor(client.lastId);
              break;
            }
            case "read": {
              clients[step.reader]?.read(log, step.events);
              break;
            }
          }
        }
        if (completes) log.end({ status: "completed", attempt: attempts, json: "{}", key: "worker" });
        for (const client of clients) {
          client.read(log, Number.POSITIVE_INFINITY);
          expect(client.done).toBe(completes);
          const written: string[] = lease?.deltas ?? [];
          if (client.text !== "" && lease !== null) expect(client.attempt).toBe(lease.attempt);
          if (lease === null) expect(client.text).toBe("");
          else
            expect(
              written
                .slice(client.from ?? 0)
                .join("")
                .startsWith(client.text),
            ).toBe(true);
          // Whoever saw no reset has the whole, or has come after a crash that took it, and nothing was written since.
          if (client.resets === 0 && lost === 0 && (client.text !== "" || start === START)) expect(client.text).toBe(written.join(""));
        }
      }),
      { numRuns: 400 },
    );
  });
});

it("[API6] an event is written as its fields and ends with an empty line, however large", () => {
  const data = JSON.stringify({ delta: "line\nbreak \u2028 \r" });
  expect(eventPieces({ id: 3, name: "delta", data }).join("")).toBe(`id: 3\nevent: delta\ndata: ${data}\n\n`);
  expect(data).not.toMatch(/[\r\n]/);
});
