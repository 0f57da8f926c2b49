// Collects the changes of one turn until they are written and sent together. On a job's way: between each decision of dispatch and its rows.
import type { CoordinatorFrame } from "../../protocol/worker-messages.ts";
import type { Changes, JobEnd, JobFacts, KeyRecord, OrderOutcome, Payment, RowChange, Send } from "../dispatch/index.ts";
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
