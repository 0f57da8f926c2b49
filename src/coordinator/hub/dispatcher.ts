// Runs the dispatch core: each event at once in memory, then one transaction and the frames at the end of the turn. On a job's way: every step in the hub.
import { shortJobId } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { CLOSE, type CoordinatorFrame } from "../../protocol/worker-messages.ts";
import {
  type Answer,
  balanceOf,
  createState,
  type DispatchEvent,
  type DispatchSettings,
  type DispatchState,
  type EventOf,
  IllegalMove,
  type KeyRecord,
  NEW_KEY,
  nextDue,
  type OrderOutcome,
  ownerOf,
  type Payment,
  quarantined,
  reduce,
  type Reduced,
  type Reservation,
  restore,
  restorePayments,
  type Submission,
} from "../dispatch/index.ts";
import { errorFacts, logError, logWarning } from "../log.ts";
import { bytesOf, type JournalRow } from "../store/record.ts";
import { registerEvent } from "./attachment.ts";
import { Batch, idempotencyId, type Idempotent, type SideData } from "./batch.ts";
import { Delivery } from "./delivery.ts";
import type { Journal } from "./journal.ts";
import type { LedgerStore } from "./ledger-store.ts";
import { Pace } from "./pace.ts";
import type { Sockets } from "./sockets.ts";
import { type StorageRoom, storedBy } from "./storage-room.ts";
import type { StoredModels } from "./stored-models.ts";
import type { WorkerKeys } from "./worker-keys.ts";

/** What the dispatcher reports to the hub. */
export type DispatcherEvents = {
  /**
   * The rows of these jobs are in the journal and newer than in D1, each with the bytes of its payload and result. The platform holds what is sent until they
   * are on the disk. `ended` has the rows of the ends among them; null for a row that is gone. `payments` are those of the ledger that have changed,
   * reservations among them.
   */
  written(rows: { changed: ReadonlyMap<string, number>; ended: ReadonlyMap<string, JournalRow | null>; payments: readonly Payment[] }): void;
  /** The ends of these jobs are on the disk now, so an answer that reports them need not wait for the platform's output gate. */
  onDisk(ids: Iterable<string>): void;
  /** The row of this payment is durable: it may be settled now. */
  settle(key: string): void;
  /** True while a settle call of this hub for this payment runs, or has an outcome that is not written. */
  isSettling(key: string): boolean;
  /** The journal cannot be read: only a new object can go on. */
  broken(): void;
};

/**
 * Runs the dispatch core and makes its changes durable. Each event is reduced at once, in memory. Once per turn of the event loop, under load once for all that
 * has come meanwhile, everything that changed is written in one transaction, and only then the frames are sent: commits, claims and completions share one
 * transaction. If the write fails, the memory is discarded and rebuilt from the journal; nothing of it was sent.
 */
export class Dispatcher {
  readonly #journal: Journal;
  readonly #keys: WorkerKeys;
  readonly #models: StoredModels;
  readonly #ledger: LedgerStore;
  readonly #room: StorageRoom;
  readonly #sockets: Sockets;
  readonly #settings: DispatchSettings;
  readonly #events: DispatcherEvents;
  readonly #clock: () => number;
  #state: DispatchState;
  #batch: Batch | null = null;
  #isLoading = false;
  /** When it writes. */
  readonly pace = new Pace();
  readonly #delivery: Delivery;

  constructor(parts: {
    journal: Journal;
    keys: WorkerKeys;
    models: StoredModels;
    ledger: LedgerStore;
    room: StorageRoom;
    sockets: Sockets;
    settings: DispatchSettings;
    events: DispatcherEvents;
    clock: () => number;
  }) {
    this.#journal = parts.journal;
    this.#keys = parts.keys;
    this.#models = parts.models;
    this.#ledger = parts.ledger;
    this.#room = parts.room;
    this.#sockets = parts.sockets;
    this.#settings = parts.settings;
    this.#events = parts.events;
    this.#clock = parts.clock;
    this.#delivery = new Delivery(parts);
    this.#state = createState(this.#settings);
  }

  /** The state of dispatch. Read only. */
  get state(): DispatchState {
    return this.#state;
  }

  /** When the next `time` event is due, ms since the epoch; null if none is. */
  get due(): number | null {
    return nextDue(this.#state);
  }

  /** Builds the state from the journal and the open sockets. A damaged row does not make it throw. */
  load(): void {
    this.#isLoading = true;
    try {
      // A payment whose move was refused is quarantined on the disk, so the next load does not make that move.
      while (!this.#tryLoad());
    } finally {
      this.#isLoading = false;
    }
  }

  #tryLoad(): boolean {
    try {
      this.#load();
      return true;
    } catch (error) {
      if (error instanceof IllegalMove) return false;
      throw error;
    }
  }

  #load(): void {
    const now = this.#clock();
    this.#batch = null;
    this.#room.forget();
    this.#state = createState(this.#settings);
    restorePayments(this.#state, this.#payments(now), now, (key) => this.#events.isSettling(key));
    const { saved, damaged } = this.#journal.live();
    restore(this.#state, saved, now);
    for (const id of damaged) logError("damaged_row", { job: shortJobId(id) });
    this.apply({ type: "restored", damaged, models: this.#models.all() });
    for (const conn of this.#sockets.reload(now)) {
      const { worker } = conn.attachment;
      if (worker === null) continue;
      const { key, authenticated, draining, registeredAt } = worker;
      const known = { record: this.recordOf(key), publicOnly: this.#keys.isPublicOnly(authenticated), resume: undefined, draining, registeredAt };
      this.apply(registerEvent(conn.attachment, worker, known));
    }
    this.apply({ type: "sockets_restored" });
  }

  /**
   * Applies an event to the core. Its changes are written and sent at the end of this turn; see {@link whenDurable}.
   * @returns The core's answer. It must not leave the hub before the changes are durable.
   * @throws {IllegalMove} After everything of this turn was undone and the payment was quarantined.
   */
  apply(event: EventOf<"submit">, side: SideData): Submission;
  apply(event: EventOf<"reserve">, side: SideData): Reservation;
  apply(event: EventOf<"order">): OrderOutcome;
  apply(event: DispatchEvent, side?: SideData): Answer;
  apply(event: DispatchEvent, side: SideData = {}): Answer {
    const changes = this.#reduce(event);
    const { answer, rows, sends, settles } = changes;
    if (rows.length + sends.length + settles.length > 0) this.#openBatch().add(changes, side);
    if (rows.length > 0 && "connId" in event) this.#openBatch().senders.add(event.connId);
    for (const send of sends) if (send.type === "close") this.#sockets.leave(send.connId);
    return answer;
  }

  #reduce(event: DispatchEvent): Reduced {
    try {
      return reduce(this.#state, event, {
        now: this.#clock(),
        lastSeen: (connId) => this.#sockets.lastSeen(connId),
        storedCredits: (payment) => this.#storedCredits(payment),
      });
    } catch (error) {
      if (!(error instanceof IllegalMove)) throw error;
      const isQuarantined = this.#quarantine(error);
      if (!this.#isLoading) this.#recover();
      // A load that makes the same move again would never end.
      else if (!isQuarantined) throw new Error(error.message, { cause: error });
      throw error;
    }
  }

  /**
   * Refuses an illegal move of a payment. The memory may have a part of its event, so nothing of this turn is written. The payment stays as it is for the
   * operator, and its job fails unless a worker has it already. False if the payment has no row, so that nothing had to be done.
   */
  #quarantine(move: IllegalMove): boolean {
    const { key, from, to } = move;
    const payment = this.#ledger.find(key);
    logError("payment_move_refused", { job: payment && shortJobId(payment.jobId), from, to });
    const batch = this.#batch;
    this.#batch = null;
    if (batch !== null) this.#undo(batch, move);
    if (payment === null) return false;
    try {
      this.#journal.transaction(() => this.#ledger.save(quarantined(payment), {}, this.#clock()));
    } catch (error) {
      logError("journal_failed", errorFacts(error));
      this.#events.broken();
      throw error;
    }
    this.#events.written({ changed: new Map(), ended: new Map(), payments: [quarantined(payment)] });
    return true;
  }

  /** Tells everyone who waits for this batch that nothing of it was written. */
  #undo(batch: Batch, error: unknown): void {
    batch.done.reject(error);
    // These workers must reconnect. A worker that gets no answer to its registration would go on with a job that another worker may get. The others need not
    // send the same frame twice on one socket [WS10]. When they register again, the hub learns what became of their jobs.
    const unanswered = batch.outgoing.filter((message) => message.type === "frame" && message.frame.type === "register_ack");
    for (const connId of new Set([...batch.senders, ...unanswered.map((message) => message.connId)])) this.#sockets.close(connId, CLOSE.restart, "try again");
  }

  /** Sends a frame at the end of this turn, after all messages before it. */
  send(connId: string, frame: CoordinatorFrame): void {
    this.#openBatch().outgoing.push({ type: "frame", connId, frame });
  }

  /** Closes a socket at the end of this turn, after all messages before it. */
  close(connId: string, code: number, reason: string): void {
    this.#sockets.leave(connId);
    this.#openBatch().outgoing.push({ type: "close", connId, code, reason });
  }

  /** Stores an idempotency key with the job that it stands for. */
  keepIdempotent(entry: Idempotent): void {
    this.#openBatch().idempotent.set(idempotencyId(entry.userId, entry.key), entry);
  }

  /** Notes the outcome of an order, in the transaction that changes its payment [PY8]. */
  keepOrder(id: string, outcome: OrderOutcome): void {
    this.#openBatch().orders.set(id, outcome);
  }

  /** An idempotency key that is about to be written. */
  pendingIdempotent(userId: string, key: string): Idempotent | undefined {
    return this.#batch?.idempotent.get(idempotencyId(userId, key));
  }

  /** What is remembered of a key, with what is not written yet. */
  recordOf(key: string): KeyRecord {
    const record = this.#batch?.records.get(key)?.record ?? this.#keys.find(key)?.record ?? NEW_KEY;
    // The clock was set back since: no park of the present clock ends later than the longest one, so this one is over [WS4].
    const now = this.#clock();
    return record.parkedUntil > now + TIMING.parkMax ? { ...record, parkedUntil: now } : { ...record };
  }

  /** True if a change of this job is not durable yet. */
  isDirty(jobId: string): boolean {
    return this.#batch?.touches(jobId) ?? false;
  }

  /** Resolves when everything so far is durable and sent; rejects if it could not be written and was undone. */
  whenDurable(): Promise<void> {
    return this.#batch?.done.promise ?? Promise.resolve();
  }

  /** True when everything so far is durable; false if it could not be written: then it was undone, with its reservations, and logged [API1]. */
  becameDurable(): Promise<boolean> {
    return this.whenDurable().then(
      () => true,
      () => false,
    );
  }

  /** A payment, done or not; null if it is not known. Done ones are only in the ledger's table, so what has changed of it is written first. */
  storedPayment(key: string): Payment | null {
    const open = this.#state.ledger.payments.get(key);
    if (open !== undefined) return open;
    if (this.#batch?.payments.has(key) === true) this.flush();
    return this.#ledger.find(key);
  }

  /** What the payer of a payment can spend in its asset, in atomic units [PY9]. */
  balanceOf(payment: Payment): bigint {
    return balanceOf(this.#state.ledger, payment, (owned) => this.#storedCredits(owned));
  }

  /** The credits of a payment's owner, with what is not written yet. */
  #storedCredits(owned: Pick<Payment, "payer" | "key">): Payment[] {
    const rows = new Map(this.#ledger.creditsOf(owned).map((row) => [row.key, row]));
    for (const row of this.#batch?.payments.values() ?? [])
      if (row !== null && ownerOf(row.payment) === ownerOf(owned)) rows.set(row.payment.key, { ...row.payment });
    return [...rows.values()];
  }

  /** Writes and sends what was collected. Never throws. */
  flush(): void {
    const batch = this.#batch;
    if (batch === null) return;
    this.#batch = null;
    let stored: ReadonlyMap<string, JournalRow | null> = new Map();
    try {
      this.#journal.transaction(() => (stored = this.#write(batch)));
    } catch (error) {
      logError("journal_failed", errorFacts(error));
      this.pace.failed();
      this.#undo(batch, error);
      this.#recover();
      return;
    }
    this.pace.written();
    this.#journal.onDisk().then(
      () => {
        this.pace.synced();
        this.#events.onDisk(stored.keys());
      },
      () => {},
    );
    const lost = batch.outgoing.filter((message) => !this.#delivery.send(message, this.#state.jobs, batch.fresh)).map((message) => message.connId);
    try {
      const changed = new Map([...batch.fresh.keys(), ...batch.saves].map((id) => [id, this.#state.jobs.get(id)?.payloadBytes ?? 0]));
      for (const [id, row] of stored) changed.set(id, bytesOf(row));
      this.#events.written({ changed, ended: stored, payments: [...batch.payments.values()].flatMap((row) => row?.payment ?? []) });
    } catch (error) {
      // The changes are written, so the waiting requests must be answered.
      logError("committed_failed", errorFacts(error));
    }
    batch.done.resolve();
    for (const { jobId, asset, amount } of batch.credits) logWarning("credit_opened", { job: shortJobId(jobId), asset, amount });
    for (const { jobId, phase } of batch.unresolved)
      if (phase.kind === "unresolved") logWarning("payment_unresolved", { job: shortJobId(jobId), reason: phase.reason });
    for (const key of batch.settles) this.#events.settle(key);
    for (const connId of lost) this.apply({ type: "disconnect", connId });
  }

  /**
   * The open rows of the ledger. Reservations, which an earlier hub wrote, are dropped: their requests have failed, and the same payments can be sent again at
   * once.
   */
  #payments(now: number): Payment[] {
    const { payments, damaged } = this.#ledger.open(now);
    for (const id of damaged) logError("damaged_payment", { job: shortJobId(id) });
    for (const { key, phase } of payments) if (phase.kind === "reserved") this.#ledger.drop(key);
    return payments.filter(({ phase }) => phase.kind !== "reserved");
  }

  /** Discards the memory and rebuilds it from what is durable. */
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
      this.pace.next(() => this.flush());
    }
    return this.#batch;
  }

  /** Writes the rows of a batch and returns those of its ended jobs. */
  #write(batch: Batch): Map<string, JournalRow | null> {
    const now = this.#clock();
    const stored = new Map<string, JournalRow | null>();
    for (const [id, { facts, payload, origin }] of batch.fresh) {
      const job = this.#state.jobs.get(id);
      const ended = batch.ends.get(id);
      if (job !== undefined) this.#journal.insert(job, payload, origin);
      else if (ended !== undefined) stored.set(id, this.#journal.insertEnded(facts, payload, origin, ended.end, ended.completion));
    }
    for (const id of batch.saves) {
      const job = this.#state.jobs.get(id);
      if (job !== undefined && !batch.fresh.has(id)) this.#journal.save(job);
    }
    for (const [id, { end, completion }] of batch.ends) if (!batch.fresh.has(id)) stored.set(id, this.#journal.end(end, completion));
    this.#room.count(
      [...stored].flatMap(([id, row]) => (row === null ? [] : storedBy(row, batch.ends.get(id)?.completion?.excess))),
      now,
    );
    for (const [key, { record, authenticated }] of batch.records) this.#keys.keep(key, record, authenticated, now);
    this.#models.keep(batch.models, now);
    // Only a reservation is forgotten, and it has no row.
    for (const row of batch.payments.values()) if (row !== null) this.#ledger.save(row.payment, row.texts, now);
    for (const [id, outcome] of batch.orders) this.#ledger.keepOrder(id, outcome, now);
    for (const { userId, key, fingerprint, jobId } of batch.idempotent.values()) this.#journal.keepIdempotent(userId, key, fingerprint, jobId, now);
    return stored;
  }
}
