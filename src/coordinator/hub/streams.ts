// The event streams of jobs: who reads which job, and what the readers get. On a job's way: while it runs.
import { LIMITS } from "../../protocol/limits.ts";
import { shortJobId } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import type { JobProgress } from "../../protocol/worker-messages.ts";
import { FairShare, type LiveJob, statusOf } from "../dispatch/index.ts";
import { errorFacts, logError } from "../log.ts";
import type { JournalRow } from "../store/record.ts";
import { endedEvents, EventLog, type JobView } from "../stream/event-log.ts";
import { eventStream, Reader, readLastEventId, STREAM_HEADERS } from "../stream/reader.ts";
import { TUNING } from "../tuning.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { endedJob } from "./job-answers.ts";
import type { Journal } from "./journal.ts";
import { CLIENT_HEADER } from "./rpc.ts";
import type { Deadlines } from "./timers.ts";

/**
 * The event streams of one hub [API6]: the logs of the jobs that a client reads or whose worker sends text, and their readers. Other jobs cost nothing
 * here. A log stays after the job's end for readers that come back late, until others need the memory. A fault in here is logged as `stream_failed` and
 * ends only the streams of this job: the job, its worker's socket and all other streams go on.
 */
export class EventStreams {
  readonly #dispatcher: Pick<Dispatcher, "isDirty" | "whenDurable" | "state">;
  readonly #journal: Pick<Journal, "row">;
  readonly #deadlines: Deadlines;
  readonly #clock: () => number;
  readonly #live = new Map<string, EventLog>();
  readonly #ended = new Map<string, EventLog>();
  readonly #readers = new Map<string, Set<Reader>>();
  /** Every open reader, with the function that cancels its next comment. */
  readonly #open = new Map<Reader, () => void>();
  readonly #share = new FairShare({ most: LIMITS.streams, each: LIMITS.streamsPerClient });
  readonly #ownerOf: (client: string) => string | null;
  readonly #synced: () => Promise<void>;
  #bytes = 0;
  #probedAt = 0;

  constructor(parts: {
    dispatcher: Pick<Dispatcher, "isDirty" | "whenDurable" | "state">;
    journal: Pick<Journal, "row">;
    deadlines: Deadlines;
    clock: () => number;
    ownerOf: (client: string) => string | null;
    /** Resolves when the disk has all that was written before. */
    synced: () => Promise<void>;
  }) {
    this.#dispatcher = parts.dispatcher;
    this.#journal = parts.journal;
    this.#deadlines = parts.deadlines;
    this.#clock = parts.clock;
    this.#ownerOf = parts.ownerOf;
    this.#synced = parts.synced;
  }

  /**
   * Answers `GET /v1/jobs/{id}/events`. 204: there are no more events. 404: the job is not in the hub. 503: too many streams are open, in all or of this
   * client.
   */
  async answer(request: Request): Promise<Response> {
    const jobId = new URL(request.url).pathname.split("/")[3] ?? "";
    // A change may be sent to readers only once it is durable.
    while (this.#dispatcher.isDirty(jobId)) await this.#dispatcher.whenDurable();
    const lastId = readLastEventId(request.headers.get("Last-Event-ID"));
    const job = this.#dispatcher.state.jobs.get(jobId);
    const log = job === undefined ? this.#ended.get(jobId) : this.#logOf(job);
    if (log !== undefined) return this.#follow(jobId, log, lastId, this.#ownerOf(request.headers.get(CLIENT_HEADER) ?? ""));
    const row = this.#journal.row(jobId);
    return row === null ? new Response(null, { status: 404 }) : eventStream(endedEvents({ ...row, json: endedJob(row) }, lastId));
  }

  /** Adds text from a worker's socket. It counts if this socket has the job in this attempt [WS9, WS12]. */
  progress(connId: string, frame: JobProgress): void {
    const job = this.#dispatcher.state.jobs.get(frame.job_id);
    if (job?.phase.kind !== "leased" || job.phase.connId !== connId || job.phase.lease.attempt !== frame.attempt) return;
    this.#change(job.id, this.#logOf(job), (log) => {
      // That the job runs is only the worker's claim, so readers may get it before it is durable.
      log.see(viewOf(job));
      log.delta(frame.seq, frame.delta);
    });
  }

  /** Tells the readers of a job its present state, which is durable now. */
  changed(jobId: string): void {
    const log = this.#live.get(jobId);
    const job = this.#dispatcher.state.jobs.get(jobId);
    if (log !== undefined && job !== undefined) this.#change(jobId, log, () => log.see(viewOf(job)));
  }

  /**
   * Sends the end of a job, which is written now, to its readers as soon as it is on the disk. The platform holds back
   * answers and frames until then, but not the parts of a body: if the last writes were lost, the job could end in
   * another way [RC5, JB6].
   */
  ended(row: JournalRow): void {
    const log = this.#live.get(row.id);
    if (log === undefined) return;
    this.#live.delete(row.id);
    this.#ended.set(row.id, log);
    const end = (): void => this.#change(row.id, log, () => log.end({ ...row, json: endedJob(row), key: row.provider_pubkey }));
    const isKept = () => this.#ended.get(row.id) === log;
    this.#synced().then(
      () => {
        if (isKept()) end();
      },
      () => {
        if (isKept()) this.#forget(row.id, log);
      },
    );
  }

  /** Closes the streams of a job whose end cannot be read: its readers reconnect and ask for it again. */
  lost(jobId: string): void {
    const log = this.#live.get(jobId) ?? this.#ended.get(jobId);
    if (log !== undefined) this.#forget(jobId, log);
  }

  /**
   * Forgets the jobs that have ended, because a job whose content retention has deleted must not be streamed any more
   * [LM3].
   */
  clear(): void {
    for (const [jobId, log] of this.#ended) this.#forget(jobId, log);
  }

  #logOf(job: LiveJob): EventLog {
    const known = this.#live.get(job.id);
    if (known !== undefined) return known;
    const log = new EventLog(this.#clock() * 1_000, viewOf(job));
    this.#live.set(job.id, log);
    return log;
  }

  #follow(jobId: string, log: EventLog, lastId: number | null, owner: string | null): Response {
    const cursor = log.cursor(lastId);
    if (log.ended && log.next(cursor) === null) return eventStream([]);
    if (!this.#share.take(owner)) {
      this.#probe();
      return new Response(null, { status: 503 });
    }
    const reader = new Reader(log, cursor, { closed: () => this.#left(jobId, reader, owner), failed: (error) => logFault(jobId, error) });
    const readers = this.#readers.get(jobId) ?? new Set();
    this.#readers.set(jobId, readers.add(reader));
    this.#beatLater(reader);
    return new Response(reader.stream, { headers: STREAM_HEADERS });
  }

  #left(jobId: string, reader: Reader, owner: string | null): void {
    this.#share.give(owner);
    this.#open.get(reader)?.();
    this.#open.delete(reader);
    const readers = this.#readers.get(jobId);
    readers?.delete(reader);
    if (readers?.size === 0) this.#readers.delete(jobId);
  }

  /** Sends a comment every 15 s. A reader that took nothing since the last one is dropped, because the number of streams is limited. */
  #beatLater(reader: Reader): void {
    const beat = (): void => {
      if (reader.isStuck()) return reader.drop();
      reader.comment();
      this.#beatLater(reader);
    };
    this.#open.set(reader, this.#deadlines.add(this.#clock() + TIMING.streamComment, beat));
  }

  /** Sends a comment to every reader, because the platform notices only during a write that a reader has left. */
  #probe(): void {
    const now = this.#clock();
    if (Math.abs(now - this.#probedAt) < TUNING.streamProbe) return;
    this.#probedAt = now;
    for (const reader of this.#open.keys()) reader.comment();
  }

  #change(jobId: string, log: EventLog, change: (log: EventLog) => void): void {
    const before = log.bytes;
    try {
      change(log);
    } catch (error) {
      logFault(jobId, error);
      this.#bytes -= before;
      return this.#discard(jobId);
    }
    this.#bytes += log.bytes - before;
    this.#wake(jobId);
    this.#makeRoom();
  }

  #wake(jobId: string): void {
    for (const reader of this.#readers.get(jobId) ?? []) reader.wake();
  }

  /** Frees memory: first the logs of jobs that have ended, then the text of the jobs that have run longest. */
  #makeRoom(): void {
    for (const [jobId, log] of this.#ended) {
      if (this.#bytes <= LIMITS.streamBytes) return;
      this.#forget(jobId, log);
    }
    for (const [jobId, log] of this.#live) {
      if (this.#bytes <= LIMITS.streamBytes) return;
      this.#bytes -= log.bytes;
      log.forgetText();
      this.#wake(jobId);
    }
  }

  /** Forgets a log. Readers that have not read its end reconnect, and find it in the journal or in D1. */
  #forget(jobId: string, log: EventLog): void {
    this.#bytes -= log.bytes;
    this.#discard(jobId);
  }

  /** Its readers reconnect and find a new log, or the end in the journal. */
  #discard(jobId: string): void {
    this.#live.delete(jobId);
    this.#ended.delete(jobId);
    for (const reader of this.#readers.get(jobId) ?? []) reader.drop();
  }
}

/**
 * What a stream tells about a live job. Each lease has its own number, because after a rejection the number of an attempt is used again. A lease counts only
 * from its acknowledgement on: before, it has no text, and if its worker rejects the job, the next lease gets its number [WS9].
 */
function viewOf(job: LiveJob): JobView {
  const { phase } = job;
  const lease = (phase.kind === "leased" || phase.kind === "orphaned") && phase.lease.acked ? { number: job.holders.length, key: phase.lease.key } : null;
  return { status: statusOf(job), attempt: job.attempts, lease };
}

/** Logs a fault of this program in a stream of this job. */
function logFault(jobId: string, error: unknown): void {
  logError("stream_failed", { job: shortJobId(jobId), ...errorFacts(error) });
}
