import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { EventLog } from "../../../src/coordinator/stream/event-log.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import type { JobAssign } from "../../../src/protocol/worker-messages.ts";
import { muteErrors } from "../support/errors.ts";
import { EventReader, inShort } from "../support/event-reader.ts";
import { TestHub, until } from "../support/worker-hub.ts";
import type { TestWorker } from "../support/worker.ts";
import { failingDb, failingHub, refusal, rest } from "../rest/rest.ts";

afterEach(() => vi.restoreAllMocks());

const LLM = { job_type: "LLM_INFER" };
const UNKNOWN = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const DONE_ID = String(Number.MAX_SAFE_INTEGER);

function open(hub: TestHub, id: string, lastEventId?: string, init: RequestInit = {}): Promise<Response> {
  const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  return hub.fetch(new Request(`http://hub.test/v1/jobs/${id}/events`, { headers, ...init }));
}

async function follow(hub: TestHub, id: string, lastEventId?: string): Promise<EventReader> {
  return new EventReader(await open(hub, id, lastEventId));
}

function say(worker: TestWorker, { job_id, attempt }: JobAssign, seq: number, delta: string): void {
  worker.send({ type: "job_progress", job_id, attempt, seq, delta });
}

/** Commits a job that a worker gets. */
async function given(hub: TestHub, fields: Record<string, unknown> = {}): Promise<{ id: string; worker: TestWorker; job: JobAssign }> {
  const worker = await hub.worker(fields);
  const id = await hub.commit("fast", LLM);
  return { id, worker, job: await worker.assigned({ acks: false }) };
}

describe("GET /v1/jobs/{id}/events", () => {
  test("[API6, API7] sends status, text and the Job as in a poll, and then ends", async () => {
    const hub = new TestHub();
    const id = await hub.commit("fast", LLM);
    const response = await open(hub, id.toUpperCase());
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
      "access-control-allow-origin": "*",
      "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    const reader = new EventReader(response);
    expect((await reader.take(1)).map(inShort)).toEqual(["status pending 0"]);
    const worker = await hub.worker();
    const job = await worker.assigned();
    expect((await reader.take(1)).map(inShort)).toEqual(["status assigned 1"]);
    say(worker, job, 0, "Grüße, ");
    say(worker, job, 0, "Grüße, ");
    say(worker, job, 1, "\u{1F600}\n");
    expect((await reader.take(3)).map(inShort)).toEqual(["status running 1", "delta 1.0 Grüße, ", "delta 1.1 \u{1F600}\n"]);
    await worker.complete(job, { model: "m", output: "Grüße, \u{1F600}\n" });
    const rest = await reader.rest();
    expect(rest.map(inShort)).toEqual(["status completed 1", "done completed"]);
    expect(rest.at(-1)?.data).toEqual(await hub.job(id));
  });

  test("[WS9, WS12] only text of the socket and attempt that hold the job counts", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const stranger = await hub.worker();
    say(stranger, job, 0, "not mine");
    await stranger.next("job_cancel");
    say(worker, { ...job, attempt: 2 }, 0, "not yet");
    await worker.next("job_cancel");
    say(worker, job, 0, "mine");
    await worker.quiet();
    expect((await (await follow(hub, id)).take(2)).map(inShort)).toEqual(["status running 1", "delta 1.0 mine"]);
  });

  test("[API6, WS9] a worker that rejects the job unstarted leaves no reset: another one gets it in the same turn, and its text is kept", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const other = await hub.worker();
    const reader = await follow(hub, id);
    expect((await reader.take(1)).map(inShort)).toEqual(["status assigned 1"]);
    worker.send({ type: "job_reject", job_id: id, reason: "busy" });
    const next = await other.assigned();
    for (const [seq, text] of ["Hel", "lo"].entries()) say(other, next, seq, text);
    await other.complete(job, "Hello");
    expect((await reader.rest()).map(inShort)).toEqual(["status running 1", "delta 1.0 Hel", "delta 1.1 lo", "status completed 1", "done completed"]);
  });

  test("[API6, WS9] a worker that rejects the job unstarted and gets it again at the tick leaves no reset either", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const reader = await follow(hub, id);
    await reader.take(1);
    worker.send({ type: "job_reject", job_id: id, reason: "busy" });
    expect((await reader.take(1)).map(inShort)).toEqual(["status pending 0"]);
    await hub.pass(TIMING.retryTick);
    expect((await reader.take(1)).map(inShort)).toEqual(["status assigned 1"]);
    say(worker, await worker.assigned(), 0, "Hello");
    await worker.complete(job, "Hello");
    expect((await reader.rest()).map(inShort)).toEqual(["status running 1", "delta 1.0 Hello", "status completed 1", "done completed"]);
  });

  test("[RC5, JB6] tells the end of a job only when the disk has it, because the platform holds back no part of a body", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const reader = await follow(hub, id);
    await reader.take(1);
    const release = await hub.inside((_, state) => {
      const disk = Promise.withResolvers<void>();
      vi.spyOn(state.storage, "sync").mockReturnValue(disk.promise);
      return disk.resolve;
    });
    await worker.complete(job, "Hello");
    let isTold = false;
    const end = reader.rest().finally(() => (isTold = true));
    await worker.quiet();
    expect(isTold).toBe(false);
    await hub.inside(() => release());
    expect((await end).map(inShort)).toEqual(["status completed 1", "done completed"]);
  });

  test("[API6, JB8] a refused job has its end in the stream", async () => {
    const hub = new TestHub();
    const { body } = await hub.post("fast", { ...LLM, privacy_class: "PRIVATE" });
    expect((await (await follow(hub, String(body.job_id))).rest()).map(inShort)).toEqual(["status failed 0", "done failed"]);
  });
});

test("[API6] a reader that is gone leaves no timer, which would keep the hub awake", async () => {
  const hub = new TestHub();
  hub.skip(0);
  const { id, worker, job } = await given(hub);
  const [set, cleared] = [vi.spyOn(globalThis, "setTimeout"), vi.spyOn(globalThis, "clearTimeout")];
  const reader = await follow(hub, id);
  await reader.take(1);
  const timer = set.mock.results[set.mock.calls.findIndex(([, delay]) => delay === TIMING.streamComment)]?.value;
  expect(timer).toBeDefined();
  await worker.complete(job, "text");
  await reader.rest();
  await until(async () => cleared.mock.calls.some(([handle]) => handle === timer), "cleared");
});

describe("several readers of one job", () => {
  test("[API6] a fault of one reader ends only its stream: it is logged, and after a reconnect the reader gets the rest", async () => {
    const errors = muteErrors();
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const [one, two] = [await follow(hub, id), await follow(hub, id)];
    const before = [await one.take(1), await two.take(1)];
    vi.spyOn(EventLog.prototype, "next").mockImplementationOnce(() => {
      throw new Error("damaged");
    });
    say(worker, job, 0, "text");
    await worker.complete(job, "text");
    const rest = ["status running 1", "delta 1.0 text", "status completed 1", "done completed"];
    expect(await one.rest()).toEqual([]);
    expect((await two.rest()).map(inShort)).toEqual(rest);
    expect((await (await follow(hub, id, before[0]?.at(-1)?.id)).rest()).map(inShort)).toEqual(rest.slice(1));
    expect(errors.events()).toEqual(["stream_failed"]);
    // The worker's socket was not closed because of it.
    await worker.quiet();
  });

  test("[API6, JB9] a fault in the log of a job ends only its streams: the result is kept, and a reader that reconnects gets it", async () => {
    const errors = muteErrors();
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const readers = [await follow(hub, id), await follow(hub, id)];
    for (const reader of readers) await reader.take(1);
    vi.spyOn(EventLog.prototype, "end").mockImplementationOnce(() => {
      throw new Error("damaged");
    });
    expect((await worker.complete(job, "text")).status).toBe("accepted");
    for (const reader of readers) expect(await reader.rest()).toEqual([]);
    expect((await (await follow(hub, id)).rest()).map(inShort)).toEqual(["status completed 1", "done completed"]);
    expect(errors.events()).toEqual(["stream_failed"]);
  });
});

describe("a hub that loses its memory", () => {
  test("[API6] readers that had text get a reset, and the text again when the worker is back", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const reader = await follow(hub, id);
    for (const [seq, text] of ["one ", "two "].entries()) say(worker, job, seq, text);
    const before = await reader.take(4);
    await hub.abort();
    await expect(reader.rest()).rejects.toThrow("test");
    const resumed = await follow(hub, id, before.at(-1)?.id);
    expect((await resumed.take(2)).map(inShort)).toEqual(["reset 1", "status running 1"]);

    const back = await hub.connect(worker.key);
    await back.register({ resume: [{ job_id: id, attempt: 1 }] });
    for (const [seq, text] of ["one ", "two ", "three"].entries()) say(back, job, seq, text);
    await back.complete(job, "one two three");
    const after = await resumed.rest();
    expect(after.map(inShort)).toEqual(["delta 1.0 one ", "delta 1.1 two ", "delta 1.2 three", "status completed 1", "done completed"]);
    const ids = [...before, ...after].map((told) => Number(told.id));
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  });

  test("[API6] text without its beginning is sent after a reset", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    say(worker, job, 0, "lost");
    await worker.quiet();
    await hub.evict();
    say(worker, job, 1, "kept");
    await worker.quiet();
    expect((await (await follow(hub, id)).take(3)).map(inShort)).toEqual(["status running 1", "reset 1", "delta 1.1 kept"]);
  });
});

describe("a job that has ended", () => {
  async function ended(hub: TestHub): Promise<string> {
    const { id, worker, job } = await given(hub);
    await worker.complete(job, "whole");
    return id;
  }

  test("[API6] is sent at once, the same from the journal and from D1", async () => {
    const hub = new TestHub();
    const reference = await ended(hub);
    const told = await (await follow(hub, reference)).rest();
    expect(told.map(inShort)).toEqual(["status completed 1", "done completed"]);
    await hub.recorded(reference, "completed");
    await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "out of the journal");
    await hub.evict();
    expect(await (await follow(hub, reference)).rest()).toEqual(told);
    expect((await (await follow(hub, reference, "17")).rest()).map(inShort)).toEqual(["reset 1", "status completed 1", "done completed"]);
    expect((await (await follow(hub, reference, told[0]?.id)).rest()).map(inShort)).toEqual(["done completed"]);
  });

  test("[API6] after its last event the answer is 204, at which an EventSource stops", async () => {
    const hub = new TestHub();
    const id = await ended(hub);
    for (const lose of [false, true]) {
      if (lose) await hub.evict();
      const response = await open(hub, id, DONE_ID);
      expect(response.status).toBe(204);
      expect(response.headers.get("access-control-allow-origin")).toBe("*");
    }
  });
});

describe("refusals", () => {
  test.each([UNKNOWN, "no-uuid"])("[API1] an unknown job (%s) is 404", async (id) => {
    expect(await refusal(await open(new TestHub(), id), 404)).toBe("Job not found");
  });

  test("[API1] a job that only the hub may know is 503 if the hub cannot be reached", async () => {
    for (const broken of [failingHub({ retryable: true }), { ...failingHub({ retryable: true }), DB: failingDb() }]) {
      const response = await rest(`/v1/jobs/${UNKNOWN}/events`, {}, broken);
      expect(await refusal(response, 503)).toBe("overloaded");
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    }
  });

  test("[API1] POST is 405, OPTIONS lists the methods, HEAD has no body and keeps no stream open", async () => {
    // One more HEAD than there may be streams, so that there need not be hundreds.
    const { streams } = LIMITS;
    onTestFinished(() => void Object.assign(LIMITS, { streams }));
    Object.assign(LIMITS, { streams: 20 });
    const hub = new TestHub();
    const id = await hub.commit("fast", LLM);
    expect(await refusal(await open(hub, id, undefined, { method: "POST" }), 405)).toBe("method_not_allowed");
    expect((await open(hub, id, undefined, { method: "OPTIONS" })).headers.get("allow")).toBe("GET, HEAD, OPTIONS");
    for (let times = 0; times <= LIMITS.streams; times++) {
      const head = await open(hub, id, undefined, { method: "HEAD" });
      expect([head.status, head.headers.get("content-type"), await head.text()]).toEqual([200, "text/event-stream", ""]);
    }
    expect((await open(hub, UNKNOWN, undefined, { method: "HEAD" })).status).toBe(404);
  });
});

describe("a slow reader", () => {
  /** Sends eight times the kept amount of text in deltas of this size, completes the job, and returns the last `seq`. */
  async function flood(worker: TestWorker, job: JobAssign, size: number): Promise<number> {
    const count = (8 * LIMITS.streamTextBytes) / size;
    for (let seq = 0; seq < count; seq++) {
      say(worker, job, seq, "x".repeat(size));
      await worker.quiet();
    }
    await worker.complete(job, "done");
    return count - 1;
  }

  test("[API6] costs no memory: it gets the text that is still kept, after a reset", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const slow = await follow(hub, id);
    await slow.take(1);
    const last = await flood(worker, job, LIMITS.streamTextBytes / 32);
    const told = (await slow.rest()).map(inShort);
    expect(told.filter((event) => event.startsWith("reset"))).toHaveLength(1);
    expect(told.slice(-3)).toEqual([expect.stringMatching(`^delta 1.${last} `), "status completed 1", "done completed"]);
    expect(slow.bytes).toBeLessThan(2 * LIMITS.streamTextBytes);
  });

  test("[API6] a reader in the middle of a large event that is no longer kept must reconnect", async () => {
    const hub = new TestHub();
    const { id, worker, job } = await given(hub);
    const slow = await follow(hub, id);
    const [status] = await slow.take(1);
    await flood(worker, job, LIMITS.streamTextBytes / 2);
    const told = await slow.rest();
    expect(told.map(({ event }) => event)).not.toContain("done");
    const back = (await (await follow(hub, id, told.at(-1)?.id ?? status?.id)).rest()).map(inShort);
    expect(back).toContain("reset 1");
    expect(back.at(-1)).toBe("done completed");
  });
});
