// Copies changed jobs and payments from the hub to D1, in the background. On a job's way: D1, after the result is stored in the hub.
import { LIMITS } from "../../protocol/limits.ts";
import { errorFacts, logError, type LogFacts } from "../log.ts";
import { readD1, writeD1 } from "../store/database.ts";
import { copyStatement, type JournalRow, RecordBatch, recordStatements } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { Journal } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";

/**
 * A job whose newest row D1 does not have: how often its write failed alone, its bytes, and since when it waits (ms since the epoch). `row` is its row if it has
 * ended and is kept in memory; `changed` is true if it changed since it was last read for a write.
 * A job that has `ended` goes to D1 soon; one that lives will change again, so its row may wait a little longer.
 */
type Waiting = { failures: number; bytes: number; since: number; row: JournalRow | null; changed: boolean; ended: boolean };

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
  /** The jobs whose newest row D1 does not have, those that have waited for longest first. */
  readonly #behind = new Map<string, Waiting>();
  #bytes = 0;
  /** How many of the jobs have ended. */
  #endedCount = 0;
  /** The bytes of the rows in memory. */
  #keptBytes = 0;
  readonly #measured: (d1Bytes: number) => void;
  readonly #reportedAt = { jobs: 0, payments: 0 };
  #timer: { at: number; handle: ReturnType<typeof setTimeout> } | null = null;
  #running: Promise<void> | null = null;
  #most: number = TUNING.batchRows;
  /** The rows of jobs in the last copy. */
  #copiedRows = 0;
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
    for (const { id, bytes, endedAt } of journal.unsynced()) this.#wait(id, bytes, endedAt ?? Date.now(), endedAt !== null);
  }

  /** True if D1 is so far behind that the hub accepts no more jobs. */
  get isFull(): boolean {
    return this.#behind.size >= LIMITS.jobsBehind || this.#bytes >= LIMITS.behindBytes;
  }

  /** The ids of the jobs whose newest row D1 may not have. */
  behind(): string[] {
    return [...this.#behind.keys()];
  }

  /** Notes that the row of a job has changed. `bytes` are those of its payload and result; `ended` is the row of a job that has ended, which never changes again. */
  add(id: string, bytes: number, ended: JournalRow | null = null): void {
    const waiting = this.#behind.get(id) ?? this.#wait(id, bytes, Date.now(), false);
    if (ended !== null && !waiting.ended) {
      waiting.ended = true;
      this.#endedCount++;
    }
    this.#forgetRow(waiting);
    this.#bytes += bytes - waiting.bytes;
    waiting.bytes = bytes;
    waiting.changed = true;
    const kept = this.#keptBytes + bytes + LIMITS.jobRowBytes;
    if (ended === null || kept > TUNING.outboxKept) return;
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

  /** Drains after a short delay, so that changes at nearly the same time share a write. */
  drainSoon(): void {
    if (this.#isDone() || this.#running !== null) return;
    const now = Date.now();
    const isUrgent = this.#endedCount > 0;
    const at = Math.max(now + (isUrgent ? lingerAfter(this.#copiedRows) : TUNING.outboxLiveLinger), this.#restsUntil(now));
    // One kind may be in its pause; that must not delay the other.
    if (this.#timer !== null && this.#timer.at <= at) return;
    clearTimeout(this.#timer?.handle);
    this.#timer = { at, handle: setTimeout(() => void this.drain(!isUrgent), at - now) };
  }

  /** Writes until D1 has everything, or refuses; with `live` false, without the jobs that have not ended and their payments: the alarm copies them. Never rejects. */
  drain(live = true): Promise<void> {
    clearTimeout(this.#timer?.handle);
    this.#timer = null;
    this.#running ??= this.#run(live).finally(() => {
      this.#running = null;
      this.drainSoon();
    });
    return this.#running;
  }

  #isDone(): boolean {
    return this.#behind.size === 0 && this.#paymentsSince === null;
  }

  /** When the next write to D1 may start. */
  #restsUntil(now: number): number {
    return Math.min(this.#behind.size > 0 ? this.#jobsPause.until(now) : Infinity, this.#paymentsSince === null ? Infinity : this.#paymentsPause.until(now));
  }

  async #run(live: boolean): Promise<void> {
    await this.#copyJobs(live);
    await this.#copyPayments(live);
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

  async #copyJobs(live: boolean): Promise<void> {
    this.#copiedRows = 0;
    // Rows that arrive meanwhile wait for the next run, so that they share a write too.
    for (let left = this.#behind.size; left > 0 && Date.now() >= this.#jobsPause.until(Date.now());) {
      let batch: JournalRow[] = [];
      try {
        batch = this.#nextBatch(live);
        if (batch.length === 0) return;
        left -= batch.length;
        const db = this.#db();
        const statements = recordStatements(db, batch);
        const written = await writeD1(db, () => db.batch(statements));
        for (const { meta } of written) this.#measured(meta.size_after);
        this.#succeeded(batch);
        this.#copiedRows += batch.length;
        this.#reportJobs({});
      } catch (error) {
        this.#failed(batch, error);
      }
    }
  }

  #nextBatch(live: boolean): JournalRow[] {
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

  /** The jobs whose rows go next: about as many as fit into one write, so that one statement reads them and hardly any row for nothing. */
  #next(live: boolean): [string, Waiting][] {
    const next: [string, Waiting][] = [];
    let bytes = 0;
    for (const [id, waiting] of this.#behind) {
      // A row that failed alone goes alone, when no other is left, so that one bad row cannot delay the others.
      if (waiting.failures > 0 || !(live || waiting.ended)) continue;
      bytes += waiting.bytes + LIMITS.jobRowBytes;
      if (next.length > 0 && bytes > TUNING.batchBytes) break;
      next.push([id, waiting]);
      if (next.length >= this.#most) break;
    }
    if (next.length > 0) return next;
    const refused = [...this.#behind].filter(([, { failures }]) => failures > 0);
    return refused.toSorted(([, a], [, b]) => a.failures - b.failures).slice(0, 1);
  }

  #succeeded(batch: readonly JournalRow[]): void {
    this.#jobsPause.succeeded();
    this.#most = Math.min(TUNING.batchRows, this.#most * 2);
    this.#journal.synced(batch);
    for (const { id } of batch) {
      const { changed = false, bytes = 0, row = null, ended = false } = this.#behind.get(id) ?? {};
      this.#leave(id);
      // A row that changed during the write must be copied again, after those that wait already.
      if (!changed) continue;
      this.#wait(id, bytes, Date.now(), ended);
      if (row !== null) this.add(id, bytes, row);
    }
  }

  #failed(batch: readonly JournalRow[], error: unknown): void {
    const [only] = batch;
    const alone = batch.length === 1 && only !== undefined ? this.#behind.get(only.id) : undefined;
    if (alone !== undefined) alone.failures++;
    else if (batch.length > 1) this.#most = Math.max(1, Math.floor(batch.length / 2));
    this.#jobsPause.failed(Date.now());
    this.#reportJobs(errorFacts(error));
  }

  #wait(id: string, bytes: number, since: number, ended: boolean): Waiting {
    const waiting = { failures: 0, bytes, since, row: null, changed: true, ended };
    this.#behind.set(id, waiting);
    if (ended) this.#endedCount++;
    this.#bytes += bytes;
    return waiting;
  }

  #forgetRow(waiting: Waiting): void {
    if (waiting.row !== null) this.#keptBytes -= waiting.bytes + LIMITS.jobRowBytes;
    waiting.row = null;
  }

  #leave(id: string): void {
    const waiting = this.#behind.get(id);
    if (waiting === undefined) return;
    this.#forgetRow(waiting);
    if (waiting.ended) this.#endedCount--;
    this.#bytes -= waiting.bytes;
    this.#behind.delete(id);
  }

  #reportJobs(error: LogFacts): void {
    const [oldest] = this.#behind.values();
    if (oldest !== undefined) this.#report("jobs", oldest.since, { rows: this.#behind.size, bytes: this.#bytes, ...error });
  }

  /** Logs that D1 has lacked a row since then, if that is long ago. */
  #report(of: "jobs" | "payments", since: number, facts: LogFacts): void {
    const now = Date.now();
    if (now - since < TUNING.outboxReport || Math.abs(now - this.#reportedAt[of]) < TUNING.outboxReport) return;
    this.#reportedAt[of] = now;
    logError("outbox_behind", { of, seconds: Math.floor((now - since) / 1_000), ...facts });
  }
}

/** How long the ends of jobs are collected after a copy of so many rows (ms): the busier the hub, the more rows share a statement. */
function lingerAfter(rows: number): number {
  return Math.max(TUNING.outboxLinger, Math.min(rows * TUNING.outboxLingerPerRow, TUNING.outboxLingerMax));
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
