// Copies changed jobs and payments from the hub to D1, in the background. On a job's way: D1, after the result is stored in the hub.
import { errorFacts, logError } from "../log.ts";
import { writeD1 } from "../store/database.ts";
import { copyStatement, type JournalRow, RecordBatch, recordStatements } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import type { Journal } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";

/**
 * Copies changed jobs and payments to D1, later than the hub's own write: each row in its newest state, many rows per statement.
 * Nothing here throws: a row that D1 refuses waits, and the others go before it.
 */
export class Outbox {
  readonly #journal: Journal;
  readonly #ledger: LedgerStore;
  readonly #db: () => D1Database;
  /** True if D1 may not have the newest row of some payment. */
  #paymentsBehind: boolean;
  /** The ids of the jobs whose newest row D1 does not have, and how often each has failed alone. */
  readonly #behind = new Map<string, number>();
  #timer: { at: number; handle: ReturnType<typeof setTimeout> } | null = null;
  #running: Promise<void> | null = null;
  #most: number = TUNING.batchRows;
  /** Jobs and payments have separate pauses, so that neither delays the other or hides its failures. */
  readonly #jobs = new Backoff();
  readonly #payments = new Backoff();

  constructor(journal: Journal, ledger: LedgerStore, db: () => D1Database) {
    this.#journal = journal;
    this.#ledger = ledger;
    this.#db = db;
    this.#paymentsBehind = ledger.uncopied(1).length > 0;
    for (const id of journal.unsynced()) this.#behind.set(id, 0);
  }

  get size(): number {
    return this.#behind.size;
  }

  /** Notes that the row of a job has changed. */
  add(id: string): void {
    if (!this.#behind.has(id)) this.#behind.set(id, 0);
  }

  /** Notes that a row of the ledger has changed. */
  addPayments(): void {
    this.#paymentsBehind = true;
  }

  /** When the alarm must drain, in case the timer was lost with the object, ms since the epoch; null if D1 has everything. */
  due(now: number): number | null {
    return this.#isDone() ? null : Math.max(this.#restsUntil(now), now + 2 * TUNING.outboxBackoff);
  }

  /** Drains after a short delay, so that changes at nearly the same time share a write. */
  drainSoon(): void {
    if (this.#isDone() || this.#running !== null) return;
    const now = Date.now();
    const at = Math.max(now + TUNING.outboxLinger, this.#restsUntil(now));
    // One kind may be in its pause; that must not delay the other.
    if (this.#timer !== null && this.#timer.at <= at) return;
    clearTimeout(this.#timer?.handle);
    this.#timer = { at, handle: setTimeout(() => void this.drain(), at - now) };
  }

  /** Writes until D1 has everything, or refuses. Never rejects. */
  drain(): Promise<void> {
    clearTimeout(this.#timer?.handle);
    this.#timer = null;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
      this.drainSoon();
    });
    return this.#running;
  }

  #isDone(): boolean {
    return this.#behind.size === 0 && !this.#paymentsBehind;
  }

  /** When the next write to D1 may start. */
  #restsUntil(now: number): number {
    return Math.min(this.#behind.size > 0 ? this.#jobs.until(now) : Infinity, this.#paymentsBehind ? this.#payments.until(now) : Infinity);
  }

  async #run(): Promise<void> {
    await this.#copyJobs();
    await this.#copyPayments();
  }

  async #copyPayments(): Promise<void> {
    while (this.#paymentsBehind && Date.now() >= this.#payments.until(Date.now())) {
      try {
        this.#paymentsBehind = false;
        const rows = this.#ledger.uncopied(TUNING.copiedPayments);
        if (rows.length === 0) return;
        const db = this.#db();
        await writeD1(db, () => copyStatement(db, rows).run());
        this.#ledger.copied(rows);
        this.#payments.succeeded();
        if (rows.length === TUNING.copiedPayments) this.#paymentsBehind = true;
      } catch (error) {
        this.#paymentsBehind = true;
        this.#report("payments", this.#payments.failed(Date.now()), error);
      }
    }
  }

  async #copyJobs(): Promise<void> {
    // Rows that arrive meanwhile wait for the next run, so that they share a write too.
    for (let left = this.#behind.size; left > 0 && Date.now() >= this.#jobs.until(Date.now());) {
      let batch: JournalRow[] = [];
      try {
        batch = this.#nextBatch();
        if (batch.length === 0) return;
        left -= batch.length;
        const db = this.#db();
        const statements = recordStatements(db, batch);
        await writeD1(db, () => db.batch(statements));
        this.#succeeded(batch);
      } catch (error) {
        this.#failed(batch, error);
      }
    }
  }

  #nextBatch(): JournalRow[] {
    // Rows that failed alone come last, so that one bad row cannot delay the others.
    const ids = [...this.#behind].toSorted(([, a], [, b]) => a - b);
    const batch = new RecordBatch(this.#most);
    for (const [id, failures] of ids) {
      // A row that failed before goes alone, when no other is left.
      if (failures > 0 && !batch.isEmpty) break;
      const row = this.#journal.row(id);
      if (row === null || row.synced_rev >= row.rev) this.#behind.delete(id);
      else if (!batch.add(row) || failures > 0) break;
    }
    return batch.rows;
  }

  #succeeded(batch: readonly JournalRow[]): void {
    this.#jobs.succeeded();
    this.#most = Math.min(TUNING.batchRows, this.#most * 2);
    this.#journal.transaction(() => {
      for (const row of batch) this.#journal.synced(row.id, row.rev);
    });
    // A row that changed during the write must be copied again.
    for (const row of batch) {
      const now = this.#journal.row(row.id);
      if (now === null || now.rev <= row.rev) this.#behind.delete(row.id);
    }
  }

  #failed(batch: readonly JournalRow[], error: unknown): void {
    const [only] = batch;
    if (batch.length === 1 && only !== undefined) this.#behind.set(only.id, (this.#behind.get(only.id) ?? 0) + 1);
    else if (batch.length > 1) this.#most = Math.max(1, Math.floor(batch.length / 2));
    this.#report("jobs", this.#jobs.failed(Date.now()), error);
  }

  #report(of: "jobs" | "payments", failures: number, error: unknown): void {
    if (failures >= TUNING.outboxReport) logError("outbox_behind", { of, rows: this.#behind.size, failures, ...errorFacts(error) });
  }
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

  /** Notes a refusal. Returns how many there were in a row. */
  failed(now: number): number {
    this.#failures++;
    this.#notBefore = now + Math.min(TUNING.outboxBackoffMax, TUNING.outboxBackoff * 2 ** Math.min(this.#failures - 1, 10));
    return this.#failures;
  }
}
