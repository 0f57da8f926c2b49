// Collects the changes of one turn until they are written and sent together. On a job's way: between each decision of dispatch and its rows.
import type { CoordinatorFrame } from "../../protocol/worker-messages.ts";
import type { Changes, JobEnd, JobFacts, KeyRecord, OrderOutcome, Payment, RowChange, Send } from "../dispatch/index.ts";
import { endOfTurn } from "../deadline.ts";
import { TUNING } from "../tuning.ts";
import { type CheckedCompletion, explained, type ExplainedRefusal } from "./completion-check.ts";
import type { PaymentTexts } from "./ledger-store.ts";
import type { Origin } from "./storage-room.ts";

/** The data of an event that never enters the core. */
export type SideData = { payload?: string; origin?: Origin; completion?: CheckedCompletion; payment?: PaymentTexts & { key: string } };
/** A message for a socket, or its close. */
export type OutgoingMessage =
  | Exclude<Send, { type: "completion_ack" }>
  | { type: "completion_ack"; connId: string; jobId: string; answer: { status: "accepted" } | ExplainedRefusal }
  | { type: "frame"; connId: string; frame: CoordinatorFrame };
/** An idempotency key with the job that it stands for [API5]. */
export type Idempotent = { userId: string; key: string; fingerprint: string; jobId: string };

/** The changes of one turn of the event loop, each row in its newest state. */
export class Batch {
  readonly fresh = new Map<string, { facts: JobFacts; payload: string; origin: Origin }>();
  readonly saves = new Set<string>();
  /** Ends of jobs, for a completed one with its worker's result and receipt. */
  readonly ends = new Map<string, { end: JobEnd; completion: CheckedCompletion | undefined }>();
  /** What is remembered of keys, and whether the worker of the key signed its registration. */
  readonly records = new Map<string, { record: KeyRecord; authenticated: boolean }>();
  /** What is remembered of models: when each was last offered, null for now. */
  readonly models = new Map<string, number | null>();
  readonly idempotent = new Map<string, Idempotent>();
  /** Newest rows of the ledger with their texts; null for a reservation that is forgotten. */
  readonly payments = new Map<string, { payment: Payment; texts: PaymentTexts } | null>();
  /** The payments whose money has come into their payers' balances. */
  readonly credits: Payment[] = [];
  /** The payments that are in doubt from now on, after their jobs have ended. */
  readonly unresolved: Payment[] = [];
  /** Orders of the operator that were carried out, by id, with their outcomes [PY8]. */
  readonly orders = new Map<string, OrderOutcome>();
  /** Keys of the payments to settle once all this is durable. */
  readonly settles: string[] = [];
  readonly outgoing: OutgoingMessage[] = [];
  /** The sockets of the workers whose frames made these changes. */
  readonly senders = new Set<string>();
  readonly done = Promise.withResolvers<void>();

  constructor() {
    // Often nobody waits for a batch; then a rejection must not count as unhandled.
    this.done.promise.catch(() => {});
  }

  /** True if a change of this job is in the batch. */
  touches(jobId: string): boolean {
    return this.fresh.has(jobId) || this.saves.has(jobId) || this.ends.has(jobId);
  }

  /** Adds the changes of one event, with its side data. */
  add({ rows, sends, settles }: Changes, side: SideData): void {
    for (const row of rows) this.#addRow(row, side);
    for (const send of sends) this.outgoing.push(messageOf(send, side.completion));
    this.settles.push(...settles);
  }

  #addRow(row: RowChange, { payload = "", origin = NO_ORIGIN, completion, payment: carried }: SideData): void {
    switch (row.type) {
      case "insert":
        this.fresh.set(row.job.id, { facts: row.job, payload, origin });
        return;
      case "save":
        this.saves.add(row.jobId);
        return;
      case "ended":
        this.saves.delete(row.jobId);
        this.ends.set(row.jobId, { end: row, completion });
        return;
      case "record":
        this.records.set(row.key, row);
        return;
      case "model":
        this.models.set(row.name, row.leftAt);
        return;
      case "save_payment": {
        const { payment } = row;
        if (row.opensCredit === true) this.credits.push(payment);
        if (row.becomesUnresolved === true) this.unresolved.push(payment);
        // One event can change several payments; the side data belongs to one of them.
        const texts = carried?.key === payment.key ? carried : {};
        this.payments.set(payment.key, { payment, texts: { ...this.payments.get(payment.key)?.texts, ...texts } });
        return;
      }
      case "drop_payment":
        this.payments.set(row.key, null);
        return;
      default:
        row satisfies never;
    }
  }
}

const NO_ORIGIN: Origin = { client: "", payer: "" };

function messageOf(send: Send, completion: CheckedCompletion | undefined): OutgoingMessage {
  if (send.type !== "completion_ack") return send;
  const { answer } = send;
  return { ...send, answer: answer.status === "rejected" ? explained(answer, completion?.fault ?? null) : answer };
}

/** The map key of an idempotency key: each user has idempotency keys of their own. */
export function idempotencyId(userId: string, key: string): string {
  return `${userId}\n${key}`;
}

/**
 * When the next batch is written. At rest that is the end of the turn that began it. Otherwise a timer of 0 ms lets everything that has come meanwhile share
 * the write: the busier the hub is, the later such a timer fires, and the more shares it. A sync of the disk stops the hub, so after a slow one the hub waits
 * for half as long as it took: what came during the sync is then written together, and not at the first of these events.
 */
export class Pace {
  #writtenAt = 0;
  /** When the last write was on the disk, ms since the epoch; null while it is not. */
  #syncedAt: number | null = 0;
  #hasFailed = false;
  #isGathering = false;
  /** Whether a batch has begun since. */
  #hasBegun = false;

  /** Notes that a batch was written. */
  written(): void {
    this.#writtenAt = Date.now();
    this.#syncedAt = null;
    this.#hasFailed = false;
  }

  /** Notes that the last write is on the disk. */
  synced(): void {
    this.#syncedAt = Date.now();
  }

  failed(): void {
    this.#hasFailed = true;
  }

  /** True if the last write failed. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Calls `write` when the batch that begins now must be written, never during this call: its event may have more changes. */
  next(write: () => void): void {
    if (this.#isGathering) this.#hasBegun = true;
    // No timer at rest: even one of 0 ms is a millisecond late, twice in each job.
    else if (this.#isAtRest()) queueMicrotask(write);
    else setTimeout(write, this.left());
  }

  /**
   * Calls `read`, and `write` at the end of its turn; after a slow sync or a failed write only when any other batch would be written. `read` brings all that
   * has come so far, so to wait for more would only take time.
   */
  async gather(read: () => void, write: () => void): Promise<void> {
    this.#isGathering = true;
    try {
      read();
    } finally {
      await endOfTurn();
      this.#isGathering = false;
      const hasBegun = this.#hasBegun;
      this.#hasBegun = false;
      if (this.left() === 0) write();
      else if (hasBegun) this.next(write);
    }
  }

  /** How long a batch that begins now collects changes at least, ms. A clock that was set back does not make it longer. */
  left(): number {
    if (this.#hasFailed) return TUNING.journalPause;
    const now = Date.now();
    const syncedAt = this.#syncedAt ?? now;
    return Math.max(0, Math.min(TUNING.journalGatheringMax, syncedAt + (syncedAt - this.#writtenAt) / 2 - now));
  }

  #isAtRest(): boolean {
    return !this.#hasFailed && this.#syncedAt !== null && Date.now() - this.#syncedAt >= TUNING.journalRest && this.left() === 0;
  }
}
