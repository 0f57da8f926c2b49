import type { JobStatus } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { utf8Length } from "../../protocol/text.ts";

/** One event of a job's stream [API6]; `data` is JSON text. */
export type StreamEvent = { id: number; name: "status" | "delta" | "reset" | "done"; data: string };

/** What a stream tells of a job that lives. `lease` numbers the leases of the job from 1; null while nobody holds one. */
export type JobView = { status: JobStatus; attempt: number; lease: { number: number; key: string } | null };

/** How a job ended. `json` is the Job as REST returns it, `key` the worker whose result it is. */
export type JobEnd = { status: JobStatus; attempt: number; json: string; key: string | null };

/** A place in the stream: after the event of this id; 0 at the beginning, -1 where the log does not know what the reader has. */
export type Cursor = number;

/** The place of a reader whose text cannot be continued: it has to drop it. */
const LOST: Cursor = -1;

/** What an event costs beside its text, in bytes, so that many empty ones cannot fill the memory. */
const EVENT_BYTES = 64;

/** What a log costs beside all that, in bytes, so that the ends of many small jobs cannot fill it either. */
const LOG_BYTES = 1_024;

type Delta = { id: number; seq: number; text: string; bytes: number };

/** What stands in the place of a delta that was dropped, at most so many of them or as many as are kept. */
const GONE: Delta = { id: 0, seq: 0, text: "", bytes: 0 };
const SLACK = 1_024;

/**
 * The events of one job, in memory: its newest status, the text of its present lease, and its end. Ids ascend from `start`, which is the time in
 * microseconds at which the log began: a log that was begun anew, after the first was lost with the hub's memory, starts above every id of the
 * first, so an id of the first is known for what it is. What is dropped here is told as one `reset` to every reader that has not passed it.
 * The text between two resets has no holes: a reader that joins the deltas it was given has a part of the worker's text, from the beginning
 * where the first `seq` is 0.
 */
export class EventLog {
  readonly #start: number;
  #last: number;
  #status: { id: number; status: JobStatus; attempt: number };
  #lease: JobView["lease"];
  #nextSeq = 0;
  #deltas: Delta[] = [];
  /** Index of the oldest delta that is kept. */
  #oldest = 0;
  #textBytes = 0;
  /** The newest event that was dropped, and the attempt whose text it was. */
  #dropped: { id: number; attempt: number } | null = null;
  #end: JobEnd | null = null;

  constructor(start: number, view: JobView) {
    this.#start = start;
    this.#last = start + 1;
    this.#status = { id: this.#last, status: view.status, attempt: view.attempt };
    this.#lease = view.lease;
  }

  /** Bytes that this log keeps. */
  get bytes(): number {
    return this.#textBytes + (this.#end === null ? 0 : this.#end.json.length + LOG_BYTES);
  }

  get ended(): boolean {
    return this.#end !== null;
  }

  /** Whether the event of this id was not dropped since. */
  keeps(id: number): boolean {
    return this.#dropped === null || id > this.#dropped.id;
  }

  /** Takes in how the job is now. A lease that is over takes its text with it. */
  see({ status, attempt, lease }: JobView): void {
    if (lease?.number !== this.#lease?.number) {
      if (this.#lease !== null) this.#dropAll();
      this.#lease = lease;
      this.#nextSeq = 0;
    }
    if (status !== this.#status.status || attempt !== this.#status.attempt) this.#status = { id: ++this.#last, status, attempt };
  }

  /** Takes text of the worker that holds the lease: a repeat is ignored, and what comes after a hole begins anew [WS9]. */
  delta(seq: number, text: string): void {
    if (seq < this.#nextSeq) return;
    if (seq > this.#nextSeq) this.#dropAll();
    this.#nextSeq = seq + 1;
    const delta = { id: ++this.#last, seq, text, bytes: utf8Length(text) + EVENT_BYTES };
    this.#deltas.push(delta);
    this.#textBytes += delta.bytes;
    while (this.#textBytes > LIMITS.streamTextBytes) this.#dropOldest();
  }

  /** Drops the text that is kept; whoever has read it all goes on. */
  forgetText(): void {
    const newest = this.#deltas.at(-1);
    if (newest !== undefined && newest !== GONE) this.#empty(newest.id);
  }

  /** The job has ended; the last two events are its terminal status and the Job. */
  end(end: JobEnd): void {
    // A late result of another worker: the text was not that of the result [JB6].
    if (end.status === "completed" && this.#lease !== null && this.#lease.key !== end.key) this.#dropAll();
    this.#status = { id: ENDED_ID, status: end.status, attempt: end.attempt };
    this.#end = end;
  }

  /** Where a reader goes on that has the event of id `lastId` and everything before it; null is one that has nothing. */
  cursor(lastId: number | null): Cursor {
    if (lastId === null) return 0;
    const known = lastId >= this.#start && (lastId <= this.#last || (this.#end !== null && lastId >= ENDED_ID));
    return known ? lastId : LOST;
  }

  /** The next event for a reader at this place; null when there is none yet. */
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

  /** What a reader at this place has to be told that it cannot have any more. */
  #resetFor(cursor: Cursor): { id: number; attempt: number } | null {
    if (this.#dropped !== null && cursor < this.#dropped.id) return this.#dropped;
    return cursor === LOST ? { id: this.#start, attempt: this.#status.attempt } : null;
  }

  /** Index of the first delta after `cursor`; ids ascend. */
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
    this.#empty(++this.#last);
  }

  #empty(id: number): void {
    this.#dropped = { id, attempt: this.#status.attempt };
    this.#deltas = [];
    this.#oldest = 0;
    this.#textBytes = 0;
  }

  #dropOldest(): void {
    const { id, bytes } = this.#deltas[this.#oldest] ?? GONE;
    this.#textBytes -= bytes;
    this.#dropped = { id, attempt: this.#status.attempt };
    // Moved up seldom: with thousands of small deltas it would cost more than anything else.
    this.#deltas[this.#oldest++] = GONE;
    if (this.#oldest < SLACK || this.#oldest * 2 < this.#deltas.length) return;
    this.#deltas.splice(0, this.#oldest);
    this.#oldest = 0;
  }
}

/** The id of every `done`: nothing comes after it. The largest integer that every JSON reader keeps. */
export const DONE_ID = Number.MAX_SAFE_INTEGER;
/** The id of the `status` that is a job's last. Both are the same in every life of the hub, so they mean the same when its memory is gone. */
export const ENDED_ID = DONE_ID - 1;
const RESET_ID = DONE_ID - 2;

/**
 * The rest of the stream of a job that has ended and whose text nobody has any more [API6]: for a reader that has text a `reset`, then the last
 * status and the Job. Empty for one that has all.
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
