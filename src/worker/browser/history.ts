import * as z from "zod";
import type { KeptResult } from "../session/state.ts";
import type { SessionNote } from "../session/session-event.ts";
import { checked, JobRecord, type JobRecord as CheckedRecord, receiptOf, type StoredRecord } from "./job-record.ts";
import { HISTORY_JOBS } from "./report.ts";
import type { KeptStore } from "./kept-store.ts";
import type { Verify } from "./identity.ts";

/** What a history is made of. */
export type HistoryOptions = {
  database: Pick<KeptStore, "get" | "all" | "change"> | null;
  verify: Verify;
  /** Called after each change, with the number of results that were ever accepted. */
  onRecord: (record: CheckedRecord, delivered: number) => void;
  onFailure: (cause: unknown) => void;
};

const Delivered = z.int().min(0).catch(0);

/** The worker's own account of its jobs: what kind, when, how long, which receipt, and what the coordinator said. */
export class History {
  readonly #options: HistoryOptions;
  /** Oldest first. */
  readonly #records: Map<string, CheckedRecord>;
  #delivered: number;

  private constructor(options: HistoryOptions, records: readonly CheckedRecord[], delivered: number) {
    this.#options = options;
    this.#records = new Map(records.map((record) => [keyOf(record), record]));
    this.#delivered = delivered;
  }

  /** Reads what is stored and checks every signature anew. */
  static async open(options: HistoryOptions): Promise<History> {
    const { database, verify } = options;
    const stored = ((await database?.all("history")) ?? []).flatMap((value) => {
      const record = JobRecord.safeParse(value);
      return record.success ? [record.data] : [];
    });
    const delivered = Delivered.parse(await database?.get("values", "delivered"));
    const records: CheckedRecord[] = [];
    for (const record of stored.sort((a, b) => a.startedAt - b.startedAt)) records.push(await checked(record, verify));
    return new History(options, records, delivered);
  }

  /** Newest first. */
  get records(): readonly CheckedRecord[] {
    return [...this.#records.values()].toReversed();
  }

  /** Results that were ever accepted, those that have left the list included. */
  get delivered(): number {
    return this.#delivered;
  }

  /** A run begins. */
  begin(job: { jobId: string; attempt: number; taskType: string; startedAt: number }): void {
    this.#put({ ...job, ms: null, outcome: "waiting", error: null, receipt: null, signatureHolds: null });
  }

  /** A result was signed and is on its way. */
  async signed(result: KeptResult): Promise<void> {
    const record = this.#records.get(keyOf(result));
    if (record === undefined) return;
    const { signatureHolds } = await checked({ ...record, receipt: receiptOf(result.frame) }, this.#options.verify);
    // What happened meanwhile, an acknowledgement perhaps, stays.
    const present = this.#records.get(keyOf(result));
    if (present !== undefined) this.#put({ ...present, receipt: receiptOf(result.frame), signatureHolds });
  }

  /** Follows what the session tells. */
  note(note: SessionNote): void {
    switch (note.type) {
      case "job_finished":
        return this.#end(note, { ms: note.ms });
      case "job_failed":
        return this.#end(note, { outcome: "failed", error: note.error });
      case "job_cancelled":
        return this.#end(note, { outcome: "cancelled", error: note.reason });
      case "result_dropped":
        return this.#end(note, { outcome: "dropped", error: note.reason });
      case "job_acknowledged": {
        const last = [...this.#records.values()].findLast((record) => record.jobId === note.job_id);
        if (last === undefined) return;
        const accepted = note.status !== "rejected";
        if (accepted) this.#delivered++;
        return this.#put({ ...last, outcome: accepted ? "accepted" : "rejected", error: note.error });
      }
      default:
        return;
    }
  }

  /** A session ended: what it had begun and not finished comes to nothing. */
  ended(): void {
    for (const record of this.#records.values()) {
      if (record.outcome === "waiting" && record.receipt === null) this.#put({ ...record, outcome: "cancelled", error: "stopped_here" });
    }
  }

  /** After a start: what an earlier page left open is either among the kept results or came to nothing. */
  reconcile(kept: readonly KeptResult[]): void {
    const alive = new Set(kept.map(keyOf));
    for (const record of this.#records.values()) {
      if (record.outcome !== "waiting" || alive.has(keyOf(record))) continue;
      this.#put({ ...record, outcome: record.receipt === null ? "cancelled" : "dropped", error: "page_closed" });
    }
  }

  /** Forgets the list; not what was delivered in all, nor what still waits for the coordinator. */
  async clear(): Promise<void> {
    const gone = [...this.#records].filter(([, record]) => record.outcome !== "waiting").map(([key]) => key);
    for (const key of gone) this.#records.delete(key);
    await this.#options.database?.change("history", [], gone);
  }

  #end({ job_id: jobId, attempt }: { job_id: string; attempt: number }, change: Partial<StoredRecord>): void {
    const record = this.#records.get(keyOf({ jobId, attempt }));
    if (record !== undefined) this.#put({ ...record, ...change });
  }

  #put(record: CheckedRecord): void {
    const { database, onRecord, onFailure } = this.#options;
    const key = keyOf(record);
    this.#records.set(key, record);
    const gone = [...this.#records.keys()].slice(0, Math.max(0, this.#records.size - HISTORY_JOBS));
    for (const old of gone) this.#records.delete(old);
    const { signatureHolds: _, ...stored } = record;
    void database?.change("history", [[key, stored]], gone).catch(onFailure);
    void database?.change("values", [["delivered", this.#delivered]]).catch(onFailure);
    onRecord(record, this.#delivered);
  }
}

function keyOf({ jobId, attempt }: { jobId: string; attempt: number }): string {
  return `${jobId} ${attempt}`;
}
