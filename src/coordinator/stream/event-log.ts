// The event log of one job, pure: what `GET /v1/jobs/{id}/events` sends while the job waits, runs and ends. Readers of it are in reader.ts.
import type { JobStatus } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { utf8Length } from "../../protocol/text.ts";

/** One event of a job's stream [API6]; `data` is JSON text. */
export type StreamEvent = { id: number; name: "status" | "delta" | "reset" | "done"; data: string };

/** The facts of a live job that its stream shows. `lease.number` counts the leases of the job from 1; `lease` is null while no worker has acknowledged one. */
export type JobView = { status: JobStatus; attempt: number; lease: { number: number; key: string } | null };

/** How a job ended. `json` is the Job as REST shows it; `key` is the worker that sent the result. */
export type StreamEnd = { status: JobStatus; attempt: number; json: string; key: string | null };

/** The position of a reader: it has every event up to this id. 0 is the beginning, -1 means that the log does not know what the reader has. */
export type Cursor = number;

/** The position of a reader whose text cannot be continued: it has to drop its text. */
const LOST: Cursor = -1;

/** Bytes that each event counts beside its text, so that many empty events cannot fill the memory. */
const EVENT_BYTES = 64;

/** Bytes that each ended log counts beside its text, so that many small ended jobs cannot fill the memory either. */
const LOG_BYTES = 1_024;

/** The id of every `done`, the last event of a job. It is the largest integer that every JSON reader keeps exactly. */
export const DONE_ID = Number.MAX_SAFE_INTEGER;
/** The id of the last `status` of every job. These ids never change, so they still mean the same after the hub lost its memory. */
export const ENDED_ID = DONE_ID - 1;
/** The id of the `reset` before them, for a job whose text is gone. */
const RESET_ID = DONE_ID - 2;

type Delta = { id: number; seq: number; text: string; bytes: number };

/** Takes the place of a dropped delta until the array is compacted. */
const DROPPED: Delta = { id: 0, seq: 0, text: "", bytes: 0 };
/** The array of deltas is compacted when it has at least this many dropped ones, and at least as many dropped as kept ones. */
const COMPACT_AT = 1_024;

/**
 * The events of one job, in memory: its newest status, the text of its present lease, and its end.
 *
 * Ids grow from `start`, the time in microseconds at which the log was created. If the hub loses its memory, a new log of the same job starts above
 * every id of the old one, so it recognises an old id. Text that is dropped becomes one `reset` for every reader that has not read past it.
 * Between two resets no text is missing: a reader that joins its deltas has a part of the worker's text, from the beginning if the first `seq` is 0.
 */
export class EventLog {
  readonly #start: number;
  #last: number;
  #status: { id: number; status: JobStatus; attempt: number };
  #lease: JobView["lease"];
  #nextSeq = 0;
  /** The first half of a character whose second half comes with the next delta. */
  #half = "";
  #deltas: Delta[] = [];
  /** Index of the oldest delta that is kept. */
  #oldest = 0;
  #textBytes = 0;
  /** The newest dropped event, and the attempt that its text belonged to. */
  #dropped: { id: number; attempt: number } | null = null;
  #end: StreamEnd | null = null;

  constructor(start: number, view: JobView) {
    this.#start = start;
    this.#last = start + 1;
    this.#status = { id: this.#last, status: view.status, attempt: view.attempt };
    this.#lease = view.lease;
  }

  /** The bytes that this log keeps in memory. */
  get bytes(): number {
    return this.#textBytes + (this.#end === null ? 0 : this.#end.json.length + LOG_BYTES);
  }

  get ended(): boolean {
    return this.#end !== null;
  }

  /** True if the event with this id was not dropped. */
  keeps(id: number): boolean {
    return this.#dropped === null || id > this.#dropped.id;
  }

  /** Records the present state of the job. When a lease ends, its text is dropped. */
  see({ status, attempt, lease }: JobView): void {
    if (lease?.number !== this.#lease?.number) {
      if (this.#lease !== null) this.#dropAll();
      this.#lease = lease;
      this.#nextSeq = 0;
    }
    if (status !== this.#status.status || attempt !== this.#status.attempt) this.#status = { id: ++this.#last, status, attempt };
  }

  /**
   * Adds text of the worker that has the lease. A repeated `seq` is ignored; if one is missing, the older text is dropped [WS9]. A delta may end within a
   * character (a surrogate pair); no event does, because not every JSON reader can join the halves.
   */
  delta(seq: number, given: string): void {
    if (seq < this.#nextSeq) return;
    if (seq > this.#nextSeq) this.#dropAll();
    this.#nextSeq = seq + 1;
    const joined = this.#half + given;
    this.#half = /[\ud800-\udbff]$/.exec(joined)?.[0] ?? "";
    const text = joined.slice(0, joined.length - this.#half.length).toWellFormed();
    const delta = { id: ++this.#last, seq, text, bytes: utf8Length(text) + EVENT_BYTES };
    this.#deltas.push(delta);
    this.#textBytes += delta.bytes;
    while (this.#textBytes > LIMITS.streamTextBytes) this.#dropOldest();
  }

  /** Drops the kept text. A reader that has read all of it goes on without a `reset`. */
  forgetText(): void {
    const newest = this.#deltas.at(-1);
    if (newest !== undefined && newest !== DROPPED) this.#empty(newest.id);
  }

  /** Records the end of the job. The last two events are its terminal status and the Job. */
  end(end: StreamEnd): void {
    // The result came late from another worker, so the text does not belong to it [JB6].
    if (end.status === "completed" && this.#lease !== null && this.#lease.key !== end.key) this.#dropAll();
    this.#status = { id: ENDED_ID, status: end.status, attempt: end.attempt };
    this.#end = end;
  }

  /** Returns the position of a reader whose last event had the id `lastId`; null for a reader that has nothing. */
  cursor(lastId: number | null): Cursor {
    if (lastId === null) return 0;
    const isOurs = lastId >= this.#start && (lastId <= this.#last || (this.#end !== null && lastId >= ENDED_ID));
    return isOurs ? lastId : LOST;
  }

  /** Returns the next event for a reader at this position; null if there is none yet. */
  next(cursor: Cursor): StreamEvent | null {
    const status = this.#status.id > cursor ? this.#status : null;
    const reset = this.#resetFor(cursor);
    const delta = this.#deltas[this.#firstAfter(cursor)];
    const id = Math.min(status?.id ?? DONE_ID, reset?.id ?? DONE_ID, delta?.id ?? DONE_ID);
    if (id === reset?.id) return { id, name: "reset", data: JSON.stringify({ attempt: reset.attempt }) };
    if (id === status?.id) return { id, name: "status", data: JSON.stringify({ status: status.status, attempt: status.attempt }) };
    if (id === delta?.id) return { id, name: "delta", data: JSON.stringify({ attempt: this.#status.attempt, seq: delta.seq, delta: delta.text }) };
    return this.#end === null || cursor >= DONE_ID ? null : { id: DONE_ID, name: "done", data: this.#end.json };
  }

  /** Returns the `reset` that a reader at this position needs, because text that it has or missed is gone; null if it needs none. */
  #resetFor(cursor: Cursor): { id: number; attempt: number } | null {
    if (this.#dropped !== null && cursor < this.#dropped.id) return this.#dropped;
    return cursor === LOST ? { id: this.#start, attempt: this.#status.attempt } : null;
  }

  /** Returns the index of the first delta after `cursor`. Ids ascend, so this is a binary search. */
  #firstAfter(cursor: Cursor): number {
    let low = this.#oldest;
    let high = this.#deltas.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#deltas[middle]?.id ?? 0) > cursor) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #dropAll(): void {
    this.#half = "";
    this.#empty(++this.#last);
  }

  #empty(id: number): void {
    this.#dropped = { id, attempt: this.#status.attempt };
    this.#deltas = [];
    this.#oldest = 0;
    this.#textBytes = 0;
  }

  #dropOldest(): void {
    const { id, bytes } = this.#deltas[this.#oldest] ?? DROPPED;
    this.#textBytes -= bytes;
    this.#dropped = { id, attempt: this.#status.attempt };
    // The array is compacted rarely: with thousands of small deltas, a splice for each would cost more than everything else.
    this.#deltas[this.#oldest++] = DROPPED;
    if (this.#oldest < COMPACT_AT || this.#oldest * 2 < this.#deltas.length) return;
    this.#deltas.splice(0, this.#oldest);
    this.#oldest = 0;
  }
}

/**
 * Returns the last events of an ended job whose text is gone [API6]: a `reset` if the reader has text, then the last status, then the Job. Empty for a
 * reader that has all of them.
 */
export function endedEvents(job: { status: JobStatus; attempt: number; json: string }, lastId: number | null): StreamEvent[] {
  const { status, attempt, json } = job;
  const events: StreamEvent[] = [
    { id: RESET_ID, name: "reset", data: JSON.stringify({ attempt }) },
    { id: ENDED_ID, name: "status", data: JSON.stringify({ status, attempt }) },
    { id: DONE_ID, name: "done", data: json },
  ];
  const seen = lastId ?? RESET_ID;
  return events.filter(({ id }) => id > seen);
}
