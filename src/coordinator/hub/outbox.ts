// Copies changed jobs and payments from the hub to D1, in the background. On a job's way: D1, after the result is stored in the hub.
import { LIMITS } from "../../protocol/limits.ts";
import { errorFacts, logError, type LogFacts } from "../log.ts";
import { readD1, writeD1 } from "../store/database.ts";
import { copyStatement, type JournalRow, RecordBatch, recordStatements } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { Journal } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";

/**
 * A job whose newest row D1 does not have: how often its write failed alone, its bytes, and since when it waits (ms since the epoch). `row` is its row if it
 * has ended and is kept in memory; `changed` is true if it changed since it was last read for a write.
 */
type Waiting = { failures: number; bytes: number; since: number; row: JournalRow | null; changed: boolean };

/**
 * Copies changed jobs and payments to D1, later than the hub's own write: each row in its newest state, many rows per statement.
 * Nothing here throws: a row that D1 refuses waits, and the others go before it.
 */
export class Outbox {
  readonly #journal: Journal;
  readonly #ledger: LedgerStore;
  readonly #db: () => D1Database;
  /** Since when D1 may not have the newest row of some payment, ms since the epoch; null if it has all. */
  #paymentsSince: number | null;
  /** The jobs that have ended and whose row D1 does not have, those that have waited for longest first. They go to D1 soon. */
  readonly #ended = new Map<string, Waiting>();
  /** The same for jobs that live. They will change again, so that each copy of one may be wasted: while many jobs end, only a few of these are copied. */
  readonly #living = new Map<string, Waiting>();
  /** The bytes of the jobs that have ended. */
  #bytes = 0;
  /** The bytes of the rows in memory. */
  #keptBytes = 0;
  readonly #measured: (d1Bytes: number) => void;
  readonly #reportedAt = { jobs: 0, payments: 0 };
  #timer: { at: number; handle: ReturnType<typeof setTimeout> } | null = null;
  #running: Promise<void> | null = null;
  #most: number = TUNING.batchRows;
  /** How many jobs that have ended were in the last copy. */
  #copiedEnds = 0;
  /** Jobs and payments have separate pauses, so that neither delays the other or hides its failures. */
  readonly #jobsPause = new Backoff();
  readonly #paymentsPause = new Backoff();

  /** `measured` is told the size of D1 whenever D1 says it. */
  constructor(parts: { journal: Journal; ledger: LedgerStore; db: () => D1Database; measured: (d1Bytes: number) => void }) {
    const { journal, ledger } = parts;
    this.#journal = journal;
    this.#ledger = ledger;
    this.#db = parts.db;
    this.#measured = parts.measured;
    this.#paymentsSince = ledger.uncopied(1)[0]?.updatedAt ?? null;
    for (const { id, bytes, endedAt } of journal.unsynced()) {
      if (endedAt === null) this.#living.set(id, waitingJob(bytes, Date.now()));
      else this.#end(id, waitingJob(bytes, endedAt));
    }
  }

  /** True if so many jobs that have ended wait for D1 that the hub accepts no more. The queue has limits of its own for jobs that live. */
  get isFull(): boolean {
    return this.#ended.size >= LIMITS.jobsBehind || this.#bytes >= LIMITS.behindBytes;
  }

  /** How many jobs have ended whose row D1 may not have. */
  get behind(): number {
    return this.#ended.size;
  }

  /** The ids of the jobs that have ended and whose row D1 may not have. */
  ended(): string[] {
    return [...this.#ended.keys()];
  }

  /**
   * Notes that the row of a job has changed. `bytes` are those of its payload and result; `ended` is the row of a job that has ended, which never changes
   * again.
   */
  add(id: string, bytes: number, ended: JournalRow | null = null): void {
    if (this.#ended.has(id)) return;
    const waiting = this.#living.get(id) ?? waitingJob(bytes, Date.now());
    waiting.bytes = bytes;
    waiting.changed = true;
    if (ended === null) return void this.#living.set(id, waiting);
    this.#living.delete(id);
    this.#end(id, waiting);
    const kept = this.#keptBytes + bytes + LIMITS.jobRowBytes;
    if (kept > TUNING.outboxKept) return;
    waiting.row = ended;
    this.#keptBytes = kept;
  }

  /** Notes that a row of the ledger has changed. */
  addPayments(): void {
    this.#paymentsSince ??= Date.now();
  }

  /** Asks D1 for its size: while nothing is written, nothing else tells that retention has made room. Never rejects. */
  async measure(): Promise<void> {
    const db = this.#db();
    try {
      const { meta } = await readD1(db, () => db.prepare("SELECT 1").run());
      this.#measured(meta.size_after);
    } catch {
      // The last known size counts.
    }
  }

  /** When the alarm must drain, in case the timer was lost with the object, ms since the epoch; null if D1 has everything. */
  due(now: number): number | null {
    return this.#isDone() ? null : Math.max(this.#restsUntil(now), now + 2 * TUNING.outboxBackoff);
  }

  /** Drains after a short delay, so that changes at nearly the same time share a write; at once if they fill one. */
  drainSoon(): void {
    if (this.#isDone() || this.#running !== null) return;
    const now = Date.now();
    const isUrgent = this.#ended.size > 0;
    // If more waited, they would be several writes, one directly after the other, and delay everything else.
    const isFull = this.#ended.size >= TUNING.batchRows;
    const linger = isFull ? 0 : isUrgent ? this.#linger : TUNING.outboxLiveLinger;
    const at = Math.max(now + linger, this.#restsUntil(now));
    // One kind may be in its pause; that must not delay the other.
    if (this.#timer !== null && this.#timer.at <= at) return;
    clearTimeout(this.#timer?.handle);
    this.#timer = { at, handle: setTimeout(() => void this.drain(isUrgent ? 0 : Infinity, isFull ? TUNING.batchRows : Infinity), at - now) };
  }

  /**
   * Writes until D1 has all jobs that have ended, at most so many of those that live, and all payments, or until it refuses. With `most` 0 payments of jobs
   * that live are left out too: the alarm copies them. While many jobs end, it copies only a few of those that live. It stops after `rows` jobs. Never
   * rejects.
   */
  drain(most: number = this.#linger > TUNING.outboxLinger ? TUNING.outboxLiveRows : Infinity, rows = Infinity): Promise<void> {
    clearTimeout(this.#timer?.handle);
    this.#timer = null;
    this.#running ??= this.#run(most, rows).finally(() => {
      this.#running = null;
      this.drainSoon();
    });
    return this.#running;
  }

  /** How long the ends of jobs are collected after the last copy (ms): the busier the hub, the more rows share a statement. */
  get #linger(): number {
    return Math.max(TUNING.outboxLinger, Math.min(this.#copiedEnds * TUNING.outboxLingerPerRow, TUNING.outboxLingerMax));
  }

  #isDone(): boolean {
    return !this.#hasJobs && this.#paymentsSince === null;
  }

  get #hasJobs(): boolean {
    return this.#ended.size + this.#living.size > 0;
  }

  /** When the next write to D1 may start. */
  #restsUntil(now: number): number {
    return Math.min(this.#hasJobs ? this.#jobsPause.until(now) : Infinity, this.#paymentsSince === null ? Infinity : this.#paymentsPause.until(now));
  }

  async #run(most: number, rows: number): Promise<void> {
    await this.#copyJobs(most, rows);
    await this.#copyPayments(most > 0);
  }

  async #copyPayments(live: boolean): Promise<void> {
    while (this.#paymentsSince !== null && Date.now() >= this.#paymentsPause.until(Date.now())) {
      const since = this.#paymentsSince;
      try {
        if (live) this.#paymentsSince = null;
        const rows = this.#ledger.uncopied(TUNING.copiedPayments, live);
        if (rows.length === 0) return;
        const db = this.#db();
        await writeD1(db, () => copyStatement(db, rows).run());
        this.#ledger.copied(rows);
        this.#paymentsPause.succeeded();
        if (rows.length === TUNING.copiedPayments) this.#paymentsSince = since;
        else if (!live) return;
      } catch (error) {
        this.#paymentsSince = since;
        this.#paymentsPause.failed(Date.now());
        this.#report("payments", since, errorFacts(error));
      }
    }
  }

  /** Copies jobs that have ended, and at most so many of those that live. */
  async #copyJobs(most: number, rows: number): Promise<void> {
    this.#copiedEnds = 0;
    // Rows that arrive meanwhile wait for the next run, so that they share a write too.
    const live = Math.min(most, this.#living.size);
    for (let left = Math.min(rows, this.#ended.size + live); left > 0 && Date.now() >= this.#jobsPause.until(Date.now());) {
      let batch: JournalRow[] = [];
      try {
        batch = this.#nextBatch(Math.min(live, left));
        if (batch.length === 0) return;
        left -= batch.length;
        const db = this.#db();
        const statements = recordStatements(db, batch);
        const written = await writeD1(db, () => db.batch(statements));
        for (const { meta } of written) this.#measured(meta.size_after);
        this.#succeeded(batch);
        this.#copiedEnds += batch.filter((row) => row.ended_at !== null).length;
        this.#reportJobs(null);
      } catch (error) {
        this.#failed(batch, error);
      }
      // A timer ends only after the runtime has looked at its sockets. From one write to the next it would not, where D1 is in the thread of the hub.
      if (left > 0) await scheduler.wait(0);
    }
  }

  #nextBatch(live: number): JournalRow[] {
    const batch = new RecordBatch(this.#most);
    // Rows that D1 has already leave, and others take their place.
    for (let next = this.#next(live); batch.isEmpty && next.length > 0; next = this.#next(live)) {
      const read = this.#journal.rows(next.flatMap(([id, { row }]) => (row === null ? [id] : [])));
      for (const [id, waiting] of next) {
        const row = waiting.row ?? read.get(id) ?? null;
        waiting.changed = false;
        if (row === null || row.synced_rev >= row.rev) this.#leave(id);
        else if (!batch.add(row)) break;
      }
    }
    return batch.rows;
  }

  /** The jobs whose rows go next: about as many as fit into one write, so that one statement reads them and hardly any row needlessly. */
  #next(live: number): [string, Waiting][] {
    const next: [string, Waiting][] = [];
    let bytes = 0;
    const take = (from: ReadonlyMap<string, Waiting>, most: number): void => {
      if (next.length >= most) return;
      for (const [id, waiting] of from) {
        // A row that failed alone goes alone, when no other is left, so that one bad row cannot delay the others.
        if (waiting.failures > 0) continue;
        bytes += waiting.bytes + LIMITS.jobRowBytes;
        if (next.length > 0 && bytes > TUNING.batchBytes) return;
        next.push([id, waiting]);
        if (next.length >= most) return;
      }
    };
    take(this.#ended, this.#most);
    take(this.#living, Math.min(this.#most, next.length + live));
    if (next.length > 0) return next;
    const refused = [...this.#ended, ...this.#living].filter(([, { failures }]) => failures > 0);
    return refused.toSorted(([, a], [, b]) => a.failures - b.failures).slice(0, 1);
  }

  #succeeded(batch: readonly JournalRow[]): void {
    this.#jobsPause.succeeded();
    this.#most = Math.min(TUNING.batchRows, this.#most * 2);
    this.#journal.synced(batch);
    for (const { id } of batch) {
      const waiting = this.#find(id);
      if (waiting?.changed !== true) {
        this.#leave(id);
        continue;
      }
      // It changed during the write. If it lives, it is copied again after those that wait already; if it has ended, it waits among those that have ended.
      Object.assign(waiting, { failures: 0, since: Date.now() });
      if (this.#living.delete(id)) this.#living.set(id, waiting);
    }
  }

  #failed(batch: readonly JournalRow[], error: unknown): void {
    const [only] = batch;
    const alone = batch.length === 1 && only !== undefined ? this.#find(only.id) : undefined;
    if (alone !== undefined) alone.failures++;
    else if (batch.length > 1) this.#most = Math.max(1, Math.floor(batch.length / 2));
    this.#jobsPause.failed(Date.now());
    this.#reportJobs(errorFacts(error));
  }

  #find(id: string): Waiting | undefined {
    return this.#ended.get(id) ?? this.#living.get(id);
  }

  #end(id: string, waiting: Waiting): void {
    this.#ended.set(id, waiting);
    this.#bytes += waiting.bytes;
  }

  #leave(id: string): void {
    if (this.#living.delete(id)) return;
    const waiting = this.#ended.get(id);
    if (waiting === undefined) return;
    if (waiting.row !== null) this.#keptBytes -= waiting.bytes + LIMITS.jobRowBytes;
    this.#bytes -= waiting.bytes;
    this.#ended.delete(id);
  }

  /** Reports the oldest job that D1 lacks. One that lives is only late if D1 refuses. */
  #reportJobs(error: LogFacts | null): void {
    const [oldest] = this.#ended.size > 0 || error === null ? this.#ended.values() : this.#living.values();
    if (oldest !== undefined) this.#report("jobs", oldest.since, { rows: this.#ended.size, bytes: this.#bytes, living: this.#living.size, ...error });
  }

  /** Logs that D1 has lacked a row since then, if that is long ago. */
  #report(of: "jobs" | "payments", since: number, facts: LogFacts): void {
    const now = Date.now();
    if (now - since < TUNING.outboxReport || Math.abs(now - this.#reportedAt[of]) < TUNING.outboxReport) return;
    this.#reportedAt[of] = now;
    logError("outbox_behind", { of, seconds: Math.floor((now - since) / 1_000), ...facts });
  }
}

function waitingJob(bytes: number, since: number): Waiting {
  return { failures: 0, bytes, since, row: null, changed: true };
}

/** The pause before D1 is asked again about one kind of row. It doubles with each refusal in a row, up to a longest pause. Times in ms. */
class Backoff {
  #failures = 0;
  #notBefore = 0;

  /** When D1 may be asked again. Never later than the longest pause from now, even if the clock was set back. */
  until(now: number): number {
    return (this.#notBefore = Math.min(this.#notBefore, now + TUNING.outboxBackoffMax));
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /** Notes a refusal. */
  failed(now: number): void {
    this.#failures++;
    this.#notBefore = now + Math.min(TUNING.outboxBackoffMax, TUNING.outboxBackoff * 2 ** Math.min(this.#failures - 1, 10));
  }
}
