import { TIMING } from "../../protocol/limits.ts";
import { isoTime } from "../../protocol/text.ts";
import { CLOSE, type CoordinatorFrame } from "../../protocol/worker-messages.ts";
import {
  createState,
  type DispatchEvent,
  type DispatchState,
  type Effect,
  type KeyRecord,
  nextDue,
  type Payment,
  reduce,
  restore,
  restorePayments,
  type Rules,
} from "../dispatch/index.ts";
import { errorFacts, logError, logWarning } from "../log.ts";
import { Batch, type SideData, type Idempotent, idempotencyId, type OutgoingMessage } from "./batch.ts";
import type { CheckedCompletion } from "./completion-check.ts";
import { explained, parkedFrame } from "./job-answers.ts";
import type { Journal, StoredEnd } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { Sockets } from "./sockets.ts";
import { TUNING } from "../tuning.ts";

/** What the dispatcher tells the hub. */
export type DispatcherEvents = {
  /** Rows of these jobs are durable and newer than D1's; of `ended` ones the end. `paid`: rows of the ledger too. */
  committed(written: { changed: ReadonlySet<string>; ended: ReadonlyMap<string, StoredEnd>; paid: boolean }): void;
  /** A completion of a job that is not live. */
  completionOfUnknown(conn: string, key: string, jobId: string, completion: CheckedCompletion | undefined): void;
  /** The row of this payment is durable: it may be settled now. */
  settle(key: string): void;
  /** Not even the journal can be read: only a new object can go on. */
  broken(): void;
};

/**
 * Runs the dispatch core on durable ground: reduce at once, in memory; then, once per turn of the event loop, write everything that
 * changed in one transaction and only after that send what was to be sent. Commits, claims and completions that arrive in one turn
 * share one commit to disk. If the write fails, memory is thrown away and rebuilt from what is durable; nobody was told anything else.
 */
export class Dispatcher {
  readonly #journal: Journal;
  readonly #ledger: LedgerStore;
  readonly #sockets: Sockets;
  readonly #rules: Rules;
  readonly #events: DispatcherEvents;
  readonly #clock: () => number;
  #state: DispatchState;
  #batch: Batch | null = null;
  /** How long a batch gathers, ms. */
  #pause = 0;

  constructor(parts: { journal: Journal; ledger: LedgerStore; sockets: Sockets; rules: Rules; events: DispatcherEvents; clock: () => number }) {
    this.#journal = parts.journal;
    this.#ledger = parts.ledger;
    this.#sockets = parts.sockets;
    this.#rules = parts.rules;
    this.#events = parts.events;
    this.#clock = parts.clock;
    this.#state = createState(this.#rules);
  }

  /** What dispatch knows. Read only. */
  get state(): DispatchState {
    return this.#state;
  }

  /** When `time` has to be told next, ms since the epoch; null for never. */
  get due(): number | null {
    return nextDue(this.#state);
  }

  /** Builds the state from the journal and the sockets that are alive. Never throws on what a row says. */
  load(): void {
    const now = this.#clock();
    this.#batch = null;
    this.#state = createState(this.#rules);
    restorePayments(this.#state, this.#payments(), now);
    const { saved, damaged } = this.#journal.live();
    restore(this.#state, saved, now);
    this.apply({ type: "restored" });
    for (const id of damaged) {
      logError("damaged_row", { job: id.slice(0, 8) });
      this.#openBatch().ends.set(id, {
        status: "failed",
        cause: "worker_lost",
        result: '{"error":"worker_lost"}',
        receipt: null,
        key: null,
        holders: [],
        attempts: 0,
        rev: Number.MAX_SAFE_INTEGER,
        endedAt: now,
      });
    }
    for (const conn of this.#sockets.reload(now)) {
      const { worker } = conn.attachment;
      if (worker === null) continue;
      const { key, tier, acks, context, lastUsedAt, draining, registeredAt } = worker;
      const capabilities = new Set(worker.capabilities);
      this.apply({
        type: "register",
        conn: conn.attachment.conn,
        key,
        capabilities,
        tier,
        acks,
        context,
        record: this.recordOf(key),
        lastUsedAt,
        resume: undefined,
        draining,
        registeredAt,
      });
    }
    // Their grace time has to outlive this memory too.
    for (const job of this.#state.jobs.values()) if (job.phase.kind === "orphaned") this.#openBatch().saves.add(job.id);
    // The sweep that woke this object is due now: only the memory of its time was lost.
    if (this.#state.workers.size > 0) this.#state.sweepDue = now;
  }

  /** Tells the core what happened. Its effects are written and sent at the end of this turn; see {@link committed}. */
  apply(event: DispatchEvent, cargo: SideData = {}): readonly Effect[] {
    const effects = reduce(this.#state, event, { now: this.#clock(), lastSeen: (conn) => this.#sockets.lastSeen(conn) });
    if (effects.length === 0) return effects;
    const batch = this.#openBatch();
    if (event.type === "submit" || event.type === "reserve") batch.fresh.set(event.job.id, { facts: event.job, payload: cargo.payload ?? "" });
    for (const effect of effects) this.#collect(batch, effect, effects, cargo);
    return effects;
  }

  /** Sends a frame after everything that was to be sent before it. */
  send(conn: string, frame: CoordinatorFrame): void {
    this.#openBatch().outgoing.push({ type: "frame", conn, frame });
  }

  /** Closes a socket after everything that was to be sent before. */
  close(conn: string, code: number, reason: string): void {
    this.#sockets.leave(conn);
    this.#openBatch().outgoing.push({ type: "close", conn, code, reason });
  }

  /** Keeps an idempotency key together with the job that it stands for. */
  keepIdempotent(entry: Idempotent): void {
    this.#openBatch().idempotent.set(idempotencyId(entry.userId, entry.key), entry);
  }

  /** An idempotency key that is about to be written. */
  pendingIdempotent(userId: string, key: string): Idempotent | undefined {
    return this.#batch?.idempotent.get(idempotencyId(userId, key));
  }

  /** What is remembered of a key, newer than the journal where that is about to be written. */
  recordOf(key: string): KeyRecord {
    const record = this.#batch?.records.get(key) ?? this.#journal.key(key)?.record ?? { strikes: 0, parks: 0, parkedUntil: 0 };
    // Set by a clock that has been put back since, it must not last longer than the longest.
    return { ...record, parkedUntil: Math.min(record.parkedUntil, this.#clock() + TIMING.parkMax) };
  }

  /** Whether something about this job is not durable yet. */
  isDirty(jobId: string): boolean {
    return this.#batch?.touches(jobId) ?? false;
  }

  /** Resolves when everything so far is durable and sent; rejects when it could not be written and was undone. */
  committed(): Promise<void> {
    return this.#batch?.done.promise ?? Promise.resolve();
  }

  /** Writes and sends what has gathered. Never throws. */
  flush(): void {
    const batch = this.#batch;
    if (batch === null) return;
    this.#batch = null;
    try {
      this.#journal.transaction(() => this.#write(batch));
    } catch (error) {
      logError("journal_failed", errorFacts(error));
      this.#pause = TUNING.journalPause;
      batch.done.reject(error);
      // Who was to be told that it is registered was not: without the answer it would work on what is given away.
      for (const post of batch.outgoing)
        if (post.type === "frame" && post.frame.type === "register_ack") this.#sockets.close(post.conn, CLOSE.restart, "try again");
      this.#recover();
      return;
    }
    this.#pause = 0;
    const lost = batch.outgoing.filter((post) => !this.#isDelivered(post, batch)).map((post) => post.conn);
    try {
      const changed = new Set([...batch.fresh.keys(), ...batch.saves, ...batch.ends.keys()]);
      this.#events.committed({ changed, ended: batch.ends, paid: batch.payments.size > 0 });
    } catch (error) {
      // It is written all the same, and those who wait must be told.
      logError("committed_failed", errorFacts(error));
    }
    batch.done.resolve();
    for (const row of batch.payments.values()) {
      if (row?.payment.phase.kind !== "credit") continue;
      const { jobId, asset, amount } = row.payment;
      logWarning("credit_opened", { job: jobId.slice(0, 8), asset, amount });
    }
    for (const key of batch.settles) this.#events.settle(key);
    for (const conn of lost) this.apply({ type: "disconnect", conn });
  }

  /** The open rows of the ledger, without reservations: whoever had them verified asks in vain, and the same payment may come again at once. */
  #payments(): Payment[] {
    const { payments, damaged } = this.#ledger.open();
    for (const id of damaged) logError("damaged_payment", { job: id.slice(0, 8) });
    for (const { key, phase } of payments) if (phase.kind === "reserved") this.#ledger.drop(key);
    return payments.filter(({ phase }) => phase.kind !== "reserved");
  }

  /** Throws memory away and builds it anew from what is durable. */
  rebuild(): void {
    this.flush();
    this.#recover();
  }

  #recover(): void {
    try {
      this.load();
    } catch {
      this.#events.broken();
    }
  }

  #openBatch(): Batch {
    if (this.#batch === null) {
      this.#batch = new Batch();
      setTimeout(() => this.flush(), this.#pause);
    }
    return this.#batch;
  }

  #collect(batch: Batch, effect: Effect, effects: readonly Effect[], { completion, payment: carried }: SideData): void {
    switch (effect.type) {
      case "save":
        batch.saves.add(effect.jobId);
        return;
      case "ended": {
        const { outcome, jobId, rev, attempts, holders } = effect;
        const endedAt = this.#clock();
        const end: StoredEnd =
          outcome.status === "completed"
            ? {
                status: "completed",
                cause: null,
                result: completion?.result ?? "null",
                receipt: completion?.receipt ? { ...completion.receipt, payment_ref: settlementRef(effects, jobId) ?? completion.receipt.payment_ref } : null,
                key: outcome.key,
                holders,
                attempts,
                rev,
                endedAt,
              }
            : {
                status: "failed",
                cause: outcome.cause,
                result: JSON.stringify({ error: outcome.cause, message: outcome.message }),
                receipt: null,
                key: null,
                holders,
                attempts,
                rev,
                endedAt,
              };
        batch.saves.delete(jobId);
        batch.ends.set(jobId, end);
        return;
      }
      case "record":
        batch.records.set(effect.key, effect.record);
        return;
      case "refused":
      case "same_as":
        batch.fresh.delete(effect.jobId);
        return;
      case "save_payment": {
        const { payment } = effect;
        // One event can move several payments; what it carries belongs to one.
        const cargo = carried?.key === payment.key ? carried : {};
        batch.payments.set(payment.key, { payment, cargo: { ...batch.payments.get(payment.key)?.cargo, ...cargo } });
        return;
      }
      case "drop_payment":
        batch.payments.set(effect.key, null);
        return;
      case "settle":
        batch.settles.push(effect.key);
        return;
      case "reservation":
        return;
      case "completion_of_unknown":
        this.#events.completionOfUnknown(effect.conn, effect.key, effect.jobId, completion);
        return;
      case "assign":
      case "cancel_attempt":
      case "drained":
      case "parked":
        batch.outgoing.push(effect);
        return;
      case "completion_ack": {
        const { answer } = effect;
        batch.outgoing.push({ ...effect, answer: answer.status === "rejected" ? explained(answer, completion?.fault ?? null) : answer });
        return;
      }
      case "close":
        this.#sockets.leave(effect.conn);
        batch.outgoing.push(effect);
        return;
      default:
        effect satisfies never;
    }
  }

  #write(batch: Batch): void {
    const now = this.#clock();
    for (const [id, { facts, payload }] of batch.fresh) {
      const job = this.#state.jobs.get(id);
      const end = batch.ends.get(id);
      if (job !== undefined) this.#journal.insert(job, payload);
      // Refused at once: nobody will ever run it, so its payload is not kept.
      else if (end !== undefined) this.#journal.insertEnded(facts, end.cause === "no_trusted_worker" ? "{}" : payload, end);
    }
    for (const id of batch.saves) {
      const job = this.#state.jobs.get(id);
      if (job !== undefined && !batch.fresh.has(id)) this.#journal.save(job);
    }
    for (const [id, end] of batch.ends) if (!batch.fresh.has(id)) this.#journal.end(id, end);
    for (const [key, record] of batch.records) this.#journal.keepRecord(key, record, now);
    for (const [key, row] of batch.payments) {
      if (row === null) this.#ledger.drop(key);
      else this.#ledger.save(row.payment, row.cargo, now);
    }
    for (const { userId, key, fingerprint, jobId } of batch.idempotent.values()) this.#journal.keepIdempotent(userId, key, fingerprint, jobId, now);
  }

  /** Sends one thing, and never throws: everyone else in the batch still has to hear. A socket that was to get what cannot be read comes back for it. */
  #isDelivered(post: OutgoingMessage, batch: Batch): boolean {
    try {
      return this.#deliver(post, batch);
    } catch (error) {
      logError("delivery_failed", errorFacts(error));
      this.#sockets.close(post.conn, CLOSE.restart, "try again");
      return false;
    }
  }

  /** Sends one thing; false when its socket turned out to be gone. */
  #deliver(post: OutgoingMessage, batch: Batch): boolean {
    switch (post.type) {
      case "frame":
        this.#sockets.send(post.conn, post.frame);
        return true;
      case "assign":
        return this.#assign(post, batch.fresh.get(post.jobId)?.payload);
      case "cancel_attempt":
        this.#sockets.send(post.conn, { type: "job_cancel", job_id: post.jobId, attempt: post.attempt, reason: post.reason });
        return true;
      case "completion_ack":
        this.#sockets.send(post.conn, { type: "job_complete_ack", job_id: post.jobId, ...post.answer });
        return true;
      case "drained":
        this.#sockets.send(post.conn, { type: "drained" });
        return true;
      case "parked":
        this.#sockets.send(post.conn, parkedFrame(post.ms));
        return true;
      case "close":
        this.#sockets.close(post.conn, post.code, post.reason);
        return true;
      default:
        return post satisfies never;
    }
  }

  #assign(post: Extract<OutgoingMessage, { type: "assign" }>, fresh: string | undefined): boolean {
    const job = this.#state.jobs.get(post.jobId);
    const payload = fresh ?? this.#journal.payload(post.jobId);
    if (job === undefined || payload === null) return true;
    const { policy, privacyClass } = job;
    const head = JSON.stringify({ type: "job_assign", job_id: job.id, job_type: job.jobType });
    const tail = JSON.stringify({ policy, privacy_class: privacyClass, attempt: post.attempt, deadline: isoTime(post.deadline) });
    this.#sockets.used(post.conn, this.#clock());
    // The payload is spliced in as the text that was stored: as the client sent it [WS8].
    return this.#sockets.send(post.conn, `${head.slice(0, -1)},"payload":${payload},${tail.slice(1)}`);
  }
}

/** The settlement of the payment that this job has spent, for its receipt [PY10]; null for a free job. */
function settlementRef(effects: readonly Effect[], jobId: string): string | null {
  for (const effect of effects) {
    if (effect.type === "save_payment" && effect.payment.jobId === jobId && effect.payment.phase.kind === "spent")
      return effect.payment.phase.transaction || null;
  }
  return null;
}
