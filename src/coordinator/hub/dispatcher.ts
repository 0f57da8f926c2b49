import { TIMING } from "../../protocol/limits.ts";
import { isoTime } from "../../protocol/text.ts";
import { CLOSE, type CoordinatorFrame } from "../../protocol/worker-messages.ts";
import {
  type Answer,
  type CompletionAnswer,
  createState,
  type DispatchEvent,
  type DispatchState,
  type EventOf,
  type JobEnd,
  type KeyRecord,
  nextDue,
  type Payment,
  reduce,
  type Reservation,
  restore,
  restorePayments,
  type Rules,
  type Submission,
} from "../dispatch/index.ts";
import { errorFacts, logError, logWarning } from "../log.ts";
import { TUNING } from "../tuning.ts";
import { Batch, type SideData, type Idempotent, idempotencyId, type OutgoingMessage } from "./batch.ts";
import { parkedFrame } from "./job-answers.ts";
import type { Journal } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { Sockets } from "./sockets.ts";

/** What the dispatcher tells the hub. */
export type DispatcherEvents = {
  /** Rows of these jobs are durable and newer than D1's; of `ended` ones the end. `paid`: rows of the ledger too. */
  committed(written: { changed: ReadonlySet<string>; ended: readonly JobEnd[]; paid: boolean }): void;
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
    for (const id of damaged) logError("damaged_row", { job: id.slice(0, 8) });
    this.apply({ type: "restored", damaged });
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

  /**
   * Tells the core what happened. What follows is written and sent at the end of this turn; see {@link committed}.
   * @returns The core's answer. It holds only once what follows from it is durable.
   */
  apply(event: EventOf<"submit">, side: SideData): Submission;
  apply(event: EventOf<"reserve">, side: SideData): Reservation;
  apply(event: EventOf<"complete">, side: SideData): CompletionAnswer | null;
  apply(event: DispatchEvent, side?: SideData): Answer;
  apply(event: DispatchEvent, side: SideData = {}): Answer {
    const changes = reduce(this.#state, event, { now: this.#clock(), lastSeen: (conn) => this.#sockets.lastSeen(conn) });
    const { answer, rows, sends, settles } = changes;
    if (rows.length + sends.length + settles.length > 0) this.#openBatch().add(changes, side);
    for (const send of sends) if (send.type === "close") this.#sockets.leave(send.conn);
    return answer;
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
      const ended = [...batch.ends.values()].map(({ end }) => end);
      this.#events.committed({ changed, ended, paid: batch.payments.size > 0 });
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

  #write(batch: Batch): void {
    const now = this.#clock();
    for (const [id, { facts, payload }] of batch.fresh) {
      const job = this.#state.jobs.get(id);
      const ended = batch.ends.get(id);
      if (job !== undefined) this.#journal.insert(job, payload);
      else if (ended !== undefined) this.#journal.insertEnded(facts, payload, ended.end, ended.completion);
    }
    for (const id of batch.saves) {
      const job = this.#state.jobs.get(id);
      if (job !== undefined && !batch.fresh.has(id)) this.#journal.save(job);
    }
    for (const [id, { end, completion }] of batch.ends) if (!batch.fresh.has(id)) this.#journal.end(end, completion);
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
