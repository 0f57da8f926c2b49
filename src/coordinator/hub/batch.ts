import type { CoordinatorFrame } from "../../protocol/worker-messages.ts";
import type { Effect, JobFacts, KeyRecord, Payment } from "../dispatch/index.ts";
import type { CheckedCompletion } from "./completion-check.ts";
import type { ExplainedRefusal } from "./job-answers.ts";
import type { StoredEnd } from "./journal.ts";
import type { PaymentCargo } from "./ledger-store.ts";

/** What travels with an event but never enters the core. */
export type SideData = { payload?: string; completion?: CheckedCompletion; payment?: PaymentCargo & { key: string } };
/** What is to be sent or closed. */
export type OutgoingMessage =
  | Extract<Effect, { type: "assign" | "cancel_attempt" | "drained" | "parked" | "close" }>
  | { type: "completion_ack"; conn: string; jobId: string; answer: { status: "accepted" } | ExplainedRefusal }
  | { type: "frame"; conn: string; frame: CoordinatorFrame };
/** An idempotency key with the job that it stands for [API5]. */
export type Idempotent = { userId: string; key: string; fingerprint: string; jobId: string };

/** Everything that happened since the last commit: what to write, then what to send. */
export class Batch {
  readonly fresh = new Map<string, { facts: JobFacts; payload: string }>();
  readonly saves = new Set<string>();
  readonly ends = new Map<string, StoredEnd>();
  readonly records = new Map<string, KeyRecord>();
  readonly idempotent = new Map<string, Idempotent>();
  /** Newest rows of the ledger, null for one to delete, with what they carry. */
  readonly payments = new Map<string, { payment: Payment; cargo: PaymentCargo } | null>();
  /** Payments to ask the facilitator to settle, once all this is durable. */
  readonly settles: string[] = [];
  readonly outgoing: OutgoingMessage[] = [];
  readonly done = Promise.withResolvers<void>();

  constructor() {
    // Not everyone who caused a batch waits for it.
    this.done.promise.catch(() => {});
  }

  touches(jobId: string): boolean {
    return this.fresh.has(jobId) || this.saves.has(jobId) || this.ends.has(jobId);
  }
}

/** An idempotency key is one user's. */
export function idempotencyId(userId: string, key: string): string {
  return `${userId}\n${key}`;
}
