// The list of a browser worker's jobs with their receipts: how it is stored, and what the page shows and exports.
import * as z from "zod";
import { Receipt } from "../../protocol/job.ts";
import { receiptText } from "../../receipt/receipt.ts";
import type { KeptResult, SessionNote } from "../session/state.ts";
import type { Verify } from "./identity.ts";
import { HISTORY_JOBS, type KeptStore } from "./kept-store.ts";

const JobOutcome = z.enum(["waiting", "accepted", "rejected", "failed", "cancelled", "dropped"]);
/** How a job ended for this worker. */
export type JobOutcome = z.infer<typeof JobOutcome>;

/** One job in the worker's own history, as it is stored. */
const StoredRecord = z.object({
  jobId: z.string(),
  attempt: z.int(),
  taskType: z.string(),
  /** Wall clock in ms since the epoch. */
  startedAt: z.number(),
  /** How long it took; null while the result is not there. */
  ms: z.number().nullable(),
  outcome: JobOutcome,
  /** The reason of a bad outcome. */
  error: z.string().nullable(),
  /** The receipt that this worker signed. The text of the job and its result are never stored. */
  receipt: Receipt.nullable(),
});
type StoredRecord = z.infer<typeof StoredRecord>;
/** A stored record with the result of checking its receipt's signature; null without a receipt. */
export type JobRecord = StoredRecord & { signatureValid: boolean | null };

const Completion = z.object({ receipt: Receipt.omit({ signature: true }), receipt_signature: z.string() });

/** The receipt in a `job_complete` frame of this worker. */
export function receiptOf(frame: string): Receipt | null {
  const read = Completion.safeParse(JSON.parse(frame));
  return read.success ? { ...read.data.receipt, signature: read.data.receipt_signature } : null;
}

/** Checks the signature of a stored receipt from its stored bytes. */
async function checked(record: StoredRecord, verify: Verify): Promise<JobRecord> {
  const { receipt } = record;
  if (receipt === null) return { ...record, signatureValid: null };
  return { ...record, signatureValid: await verify(receiptText(receipt), receipt.signature, receipt.provider_pubkey) };
}

/** Options of a history. */
type HistoryOptions = {
  database: Pick<KeptStore, "get" | "all" | "change">;
  verify: Verify;
  /** Called after each change, with the number of all accepted results. */
  onRecord: (record: JobRecord, delivered: number) => void;
  onFailure: (cause: unknown) => void;
};

const Delivered = z.int().min(0).catch(0);

/** The worker's list of its jobs: their type, time, duration, receipt, and the coordinator's answer. */
export class History {
  readonly #options: HistoryOptions;
  /** Oldest first. */
  readonly #records: Map<string, JobRecord>;
  #delivered: number;

  private constructor(options: HistoryOptions, records: readonly JobRecord[], delivered: number) {
    this.#options = options;
    this.#records = new Map(records.map((record) => [keyOf(record), record]));
    this.#delivered = delivered;
  }

  /** Reads the stored jobs and checks every signature again. */
  static async open(options: HistoryOptions): Promise<History> {
    const { database, verify } = options;
    const stored = (await database.all("history")).flatMap((value) => {
      const record = StoredRecord.safeParse(value);
      return record.success ? [record.data] : [];
    });
    const delivered = Delivered.parse(await database.get("values", "delivered"));
    const records: JobRecord[] = [];
    for (const record of stored.sort((a, b) => a.startedAt - b.startedAt)) records.push(await checked(record, verify));
    return new History(options, records, delivered);
  }

  /** Newest first. */
  get records(): readonly JobRecord[] {
    return [...this.#records.values()].toReversed();
  }

  /** The number of all accepted results, including those that are no longer in the list. */
  get delivered(): number {
    return this.#delivered;
  }

  /** Records the start of a run. */
  begin(job: { jobId: string; attempt: number; taskType: string; startedAt: number }): void {
    this.#put({ ...job, ms: null, outcome: "waiting", error: null, receipt: null, signatureValid: null });
  }

  /** Records the receipt of a result that was signed. */
  async signed(result: KeptResult): Promise<void> {
    const record = this.#records.get(keyOf(result));
    if (record === undefined) return;
    const { signatureValid } = await checked({ ...record, receipt: receiptOf(result.frame) }, this.#options.verify);
    // Keep changes that happened in the meantime, for example an acknowledgement.
    const present = this.#records.get(keyOf(result));
    if (present !== undefined) this.#put({ ...present, receipt: receiptOf(result.frame), signatureValid });
  }

  /** Applies a note of the session. */
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

  /** Marks the unfinished jobs of a session that has ended as cancelled. */
  ended(): void {
    for (const record of this.#records.values()) {
      if (record.outcome === "waiting" && record.receipt === null) this.#put({ ...record, outcome: "cancelled", error: "stopped_here" });
    }
  }

  /** After a start: an open job of an earlier page either has a kept result or has ended without one. */
  reconcile(kept: readonly KeptResult[]): void {
    const alive = new Set(kept.map(keyOf));
    for (const record of this.#records.values()) {
      if (record.outcome !== "waiting" || alive.has(keyOf(record))) continue;
      this.#put({ ...record, outcome: record.receipt === null ? "cancelled" : "dropped", error: "page_closed" });
    }
  }

  /** Deletes the list, except for the total and for results that still wait for the coordinator. */
  async clear(): Promise<void> {
    const gone = [...this.#records].filter(([, record]) => record.outcome !== "waiting").map(([key]) => key);
    for (const key of gone) this.#records.delete(key);
    await this.#options.database.change("history", [], gone);
  }

  #end({ job_id: jobId, attempt }: { job_id: string; attempt: number }, change: Partial<StoredRecord>): void {
    const record = this.#records.get(keyOf({ jobId, attempt }));
    if (record !== undefined) this.#put({ ...record, ...change });
  }

  #put(record: JobRecord): void {
    const { database, onRecord, onFailure } = this.#options;
    const key = keyOf(record);
    this.#records.set(key, record);
    const gone = [...this.#records.keys()].slice(0, Math.max(0, this.#records.size - HISTORY_JOBS));
    for (const old of gone) this.#records.delete(old);
    const { signatureValid: _, ...stored } = record;
    void database.change("history", [[key, stored]], gone).catch(onFailure);
    void database.change("values", [["delivered", this.#delivered]]).catch(onFailure);
    onRecord(record, this.#delivered);
  }
}

function keyOf({ jobId, attempt }: { jobId: string; attempt: number }): string {
  return `${jobId} ${attempt}`;
}
