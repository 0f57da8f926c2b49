// The simulated hub: the shell around the dispatch core, with its storage, alarm and loss of memory.
import type {
  Changes,
  DispatchEvent,
  DispatchState,
  EventOf,
  Finding,
  JobFacts,
  KeyRecord,
  OrderOutcome,
  OrderVerb,
  Outcome,
  Payment,
  PaymentFacts,
  PaymentStep,
  Reduced,
  Reservation,
  SavedJob,
  Send,
  Settlement,
  Snapshot,
  Submission,
} from "../../src/coordinator/dispatch/index.ts";
import { TIMING } from "../../src/protocol/times.ts";
import type { Row } from "./database.ts";
import type { UpFrame } from "./frames.ts";
import type { Socket } from "./socket.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

type Ended = { outcome: Outcome; rev: number; holders: readonly string[] };
type Answer = "accepted" | "refused" | "no_trusted_worker" | "lost";

/** The steps of payments whose money cannot have moved, and whose job neither runs nor is paid from a balance. */
const CANNOT_HAVE_MOVED: readonly PaymentStep[] = ["held", "void unused", "void refused", "void by_operator", "void by_chain"];

/** How long an idle hub with open sockets keeps its memory. */
const HIBERNATES_AFTER = 10_000;

/**
 * The shell around dispatch, as the Durable Object does it: events of one turn are reduced, their rows committed in one transaction,
 * then frames are sent and the alarm is set to `nextDue`. Fields named `stored…` survive crash and eviction; `memory` does not.
 */
export class Hub {
  readonly #world: World;
  readonly storedRows = new Map<string, { facts: JobFacts; rev: number; snapshot: string }>();
  readonly storedEnded = new Map<string, Ended>();
  readonly #storedRecords = new Map<string, KeyRecord>();
  readonly #storedUse = new Map<string, number>();
  readonly storedOutbox = new Map<string, Row>();
  /** The ledger's rows as JSON text, the done ones too. */
  readonly storedPayments = new Map<string, string>();
  /** Settle calls whose answer this life waits for. */
  readonly calls = new Set<string>();
  storedAlarm: number | null = null;
  /** Whether this version of the hub has the address of an RPC. */
  readsChain: boolean;
  readonly sockets = new Map<string, Socket>();
  memory: DispatchState | null = null;
  booting = false;
  bootedAt = 0;
  /** Sockets that dispatch has given up; they are closed after the commit. */
  readonly closing = new Set<string>();
  /** Sockets whose registration is not committed yet. */
  readonly #fresh = new Set<Socket>();
  #batch = noChanges();
  /** Told after the commit whether it succeeded. */
  #answers: ((isDurable: boolean) => void)[] = [];
  #flushing = false;
  /** The alarm whose turn is not committed yet: a crash in it has the platform try again. */
  #firing = false;
  readonly #storedModels = new Map<string, number | null>();
  #diesBeforeSending = false;
  #diskFails = false;
  #lastTurn = 0;
  #lives = 0;
  #memories = 0;
  #draining = false;
  #wakes: number[] = [];

  constructor(world: World) {
    this.#world = world;
    const { settings, paying } = world.plan;
    this.readsChain = settings.chain && (paying?.chainFrom ?? 0) === 0;
  }

  // --- entry points ---

  submit(job: JobFacts, answer: (said: Answer) => void, payment?: { key: string; payer: string | null; byRequest?: boolean }): void {
    this.#awake();
    const ended = this.storedEnded.get(job.id);
    if (ended !== undefined) return answer(isNoTrusted(ended.outcome) && payment !== undefined ? "no_trusted_worker" : "accepted");
    const stored = payment === undefined ? null : this.#paymentRow(payment.key);
    const said = wordOf(this.#step(payment === undefined ? { type: "submit", job } : { type: "submit", job, payment: { ...payment, stored } }));
    this.#answers.push((isDurable) => answer(isDurable ? said : "lost"));
  }

  reserve(payment: PaymentFacts, job: JobFacts, answer: (said: Reservation | "lost") => void): void {
    this.#awake();
    const ended = this.storedEnded.get(job.id);
    if (ended !== undefined && isNoTrusted(ended.outcome)) return answer({ state: "refused", reason: "no_trusted_worker" });
    const said = this.#step({ type: "reserve", payment, job, stored: this.#paymentRow(payment.key) });
    this.#answers.push((isDurable) => answer(isDurable ? said : "lost"));
  }

  release(key: string, jobId: string, answer: (said: "accepted" | "lost") => void): void {
    this.#awake();
    this.#step({ type: "release", key, jobId });
    this.#answers.push((isDurable) => answer(isDurable ? "accepted" : "lost"));
  }

  #settle(key: string): void {
    const world = this.#world;
    this.calls.add(key);
    world.stats.settleCalls++;
    // A call that still runs although the late answer of another has settled the payment has no place any more.
    const awaited = [...this.calls].filter((other) => this.memory?.ledger.settlingByHub.has(other)).length;
    if (awaited > this.#world.plan.settings.settlements) broken("M5", `${awaited} settle calls at once`);
    const memory = this.#memories;
    world.facilitator.settle(world.money.authorization(key), (settlement) => {
      if (memory !== this.#memories) return;
      this.calls.delete(key);
      this.#step({ type: "settled", key, settlement, by: "hub", stored: this.#paymentRow(key) });
    });
  }

  /** True if the request that brought this payment is to settle it. */
  settledByRequest(key: string): boolean {
    return this.memory?.ledger.settlingByRequest.has(key) === true;
  }

  /** A router tells how its settle call ended. It may have outlived the memory that asked for it. */
  settled(key: string, settlement: Settlement): void {
    this.#awake();
    this.#step({ type: "settled", key, settlement, by: "request", stored: this.#paymentRow(key) });
  }

  /** The operator's order about a payment, which the shell reads from the database [PY8]. */
  order(key: string, verb: OrderVerb): void {
    this.#awake();
    const was = this.#paymentRow(key)?.phase.kind;
    const said = this.#step({ type: "order", key, verb, stored: this.#paymentRow(key) });
    this.#world.money.ordered(verb, { key, said, was, is: this.#paymentRow(key)?.phase.kind });
  }

  /** The chain's word about a payment, which the shell reads by its RPC [PY8]. */
  found(key: string, finding: Finding): void {
    this.#awake();
    const was = this.#paymentRow(key);
    this.#step({ type: "chain", key, finding, stored: this.#paymentRow(key) });
    this.#world.money.found({ key, finding }, was, this.#paymentRow(key));
  }

  /** True if this payment is stored and in doubt. */
  isInDoubt(key: string): boolean {
    const row = this.#paymentRow(key);
    return row !== null && this.#world.core.isInDoubt(row);
  }

  /** The newest row of a payment, as the shell reads it after it has written everything. */
  #paymentRow(key: string): Payment | null {
    const fresh = this.#batch.rows.findLast((row) => row.type === "save_payment" && row.payment.key === key);
    if (fresh?.type === "save_payment") return { ...fresh.payment };
    const text = this.storedPayments.get(key);
    return text === undefined ? null : (JSON.parse(text) as Payment);
  }

  /** The newest rows of the credits of a payment's owner. */
  #storedCredits(owned: Pick<Payment, "payer" | "key">): Payment[] {
    const { ownerOf } = this.#world.core;
    const texts = [...this.storedPayments.values()].filter((text) => text.includes('"credit":{'));
    const rows = new Map(texts.map((text) => JSON.parse(text) as Payment).map((row) => [row.key, row]));
    for (const row of this.#batch.rows) if (row.type === "save_payment") rows.set(row.payment.key, { ...row.payment });
    return [...rows.values()].filter((row) => ownerOf(row) === ownerOf(owned));
  }

  /** The answers of calls under way are lost with the memory that waits for them. */
  #forget(): void {
    this.memory = null;
    this.#memories++;
    this.calls.clear();
    this.#world.money.forgotten();
  }

  cancel(jobId: string): void {
    this.#awake();
    this.#step({ type: "cancel", jobId });
  }

  paired(userId: string, key: string): void {
    this.#awake();
    this.#step({ type: "paired", userId, key });
  }

  tier(key: string, tier: Extract<DispatchEvent, { type: "tier" }>["tier"]): void {
    this.#awake();
    // From when the hub has read it; a hub that woke up for this has yet to.
    this.#world.tiers.set(key, tier);
    for (const { attachment } of this.sockets.values()) if (attachment?.key === key) attachment.tier = tier;
    this.#step({ type: "tier", key, tier });
  }

  /** The hub's end of a socket is gone; a late word of it about a replaced socket changes nothing. */
  lost(socket: Socket): void {
    this.#awake();
    socket.hubOpen = false;
    this.sockets.delete(socket.connId);
    this.closing.delete(socket.connId);
    this.#step({ type: "disconnect", connId: socket.connId });
  }

  receive(socket: Socket, frame: UpFrame): void {
    const { now } = this.#world.agenda;
    this.#awake();
    const { connId } = socket;
    if (frame.type === "register") {
      if (socket.hubOpen) this.#register(socket, frame);
      return;
    }
    socket.heardAt = now;
    if (frame.type === "drain" && socket.attachment !== null) socket.attachment.draining = true;
    if (frame.type === "heartbeat") this.#step({ type: "heard", connId });
    else if (frame.type !== "complete") this.#step({ ...frame, connId });
    else {
      const { jobId } = frame;
      const isNotLive = this.memory?.keyByConn.has(connId) === true && !this.memory.jobs.has(jobId);
      this.#step({ ...frame, connId });
      // The shell looks the job up and answers; that it is asked for again is all that matters here.
      if (isNotLive) this.#batch.sends.push({ type: "completion_ack", connId, jobId, answer: { status: "rejected", error: "already_terminal" } });
    }
  }

  #register(socket: Socket, frame: Extract<UpFrame, { type: "register" }>): void {
    const { agenda, tiers } = this.#world;
    const { connId } = socket;
    const { key, acks, context, models, chats, resume } = frame;
    socket.heardAt = agenda.now;
    const record = this.#recordOf(key);
    if (record.parkedUntil > agenda.now) return this.#close(socket, 4003);
    const capabilities = new Set(frame.capabilities);
    const again = socket.attachment !== null;
    const tier = tiers.get(key) ?? "Open";
    const { draining = false, registeredAt = agenda.now } = socket.attachment ?? {};
    socket.attachment = { key, capabilities, acks, context, models, chats, tier, draining, registeredAt };
    this.sockets.set(connId, socket);
    if (again) {
      this.#step({ type: "update", connId, capabilities, acks, context, models, chats });
      return;
    }
    this.#fresh.add(socket);
    const lastUsedAt = this.#storedUse.get(key) ?? 0;
    const offer = { capabilities, tier, acks, context, models, chats };
    this.#step({ type: "register", connId, ...this.#world.market.of(key), ...offer, record, lastUsedAt, resume });
  }

  #recordOf(key: string): KeyRecord {
    const unwritten = this.#batch.rows.findLast((row) => row.type === "record" && row.key === key);
    return (unwritten?.type === "record" ? unwritten.record : this.#storedRecords.get(key)) ?? this.#world.market.recordOf(key);
  }

  #alarm(at: number): void {
    if (this.storedAlarm !== at) return;
    const { now } = this.#world.agenda;
    this.#wakes.push(now);
    if (this.#wakes.length > 60 && now - (this.#wakes.shift() ?? 0) < 10_000) broken("I16", "60 wake-ups within 10 s");
    this.#world.stats.alarms++;
    this.#awake();
    this.storedAlarm = null;
    this.#firing = true;
    this.#step({ type: "time" });
  }

  // --- one turn ---

  /**
   * A bug tells of a settlement that nobody asked for, of some payment that cannot have moved. As in the Durable Object, nothing of this turn is kept, and the
   * payment is set aside for its operator [PY8].
   */
  mistake(): void {
    this.#awake();
    const { core, money } = this.#world;
    const isDirty = (key: string) => this.#batch.rows.some((row) => row.type === "save_payment" && row.payment.key === key);
    const rows = [...this.storedPayments.values()].map((text) => JSON.parse(text) as Payment);
    const targets = rows.filter((row) => CANNOT_HAVE_MOVED.includes(core.stepOf(row)) && !isDirty(row.key));
    if (targets.length === 0) return;
    const row = money.operator.pick(targets);
    const settlement = { kind: "settled", transaction: `tx ${row.key}` } as const;
    try {
      this.#step({ type: "settled", key: row.key, settlement, by: "request", stored: row });
    } catch (error) {
      if (!(error instanceof core.IllegalMove)) throw error;
      return this.#setAside(row);
    }
    broken("M12", `${row.key} was ${core.stepOf(row)}, and a settlement that nobody asked for counts`);
  }

  #setAside(row: Payment): void {
    const world = this.#world;
    const answers = this.#answers;
    const wasAlarm = this.#firing;
    this.#batch = noChanges();
    this.#answers = [];
    this.#flushing = false;
    this.#firing = false;
    this.storedPayments.set(row.key, JSON.stringify(world.core.quarantined(row)));
    world.stats.setAside++;
    world.trace?.(`${row.key} is set aside`);
    world.money.setAside(row.key);
    this.#undo(answers, wasAlarm);
    if (this.isInDoubt(row.key)) world.chainReader.note(row.key);
  }

  /** Nothing of this turn was written or sent: the memory is rebuilt from what is stored. */
  #undo(answers: readonly ((isDurable: boolean) => void)[], wasAlarm: boolean): void {
    const world = this.#world;
    this.#forget();
    this.closing.clear();
    for (const answer of answers) answer(false);
    world.checks.evicted(world.agenda.now);
    // What these listed in `resume` is lost with the turn; they have had no `register_ack` and must come again.
    for (const socket of this.#fresh) this.#close(socket, 1012);
    this.#fresh.clear();
    if (wasAlarm) this.#setAlarm(world.agenda.now + 2_000);
    this.#awake();
  }

  /** Tells dispatch what happened; gives its answer. */
  #step(event: EventOf<"submit">): Submission;
  #step(event: EventOf<"reserve">): Reservation;
  #step(event: EventOf<"order">): OrderOutcome;
  #step(event: DispatchEvent): Reduced["answer"];
  #step(event: DispatchEvent): Reduced["answer"] {
    const state = this.memory;
    if (state === null) throw new Error("the hub sleeps");
    const world = this.#world;
    const { checks } = world;
    const { now } = world.agenda;
    this.#lastTurn = now;
    world.stats.events++;
    world.trace?.(`hub <- ${show(event)}`);
    checks.before(state, event, now);
    world.contexts.before(state, event);
    world.models.before(state, event, now);
    world.payloads.before(state, event);
    world.money.before(state, event);
    world.market.before(state, event, now);
    const reduced = world.core.reduce(state, event, {
      now,
      lastSeen: (connId) => this.lastSeen(connId),
      storedCredits: (owned) => this.#storedCredits(owned),
    });
    const { answer, rows, sends, settles } = reduced;
    if (world.trace !== null) for (const change of [...(answer === null ? [] : [answer]), ...rows, ...sends, ...settles]) world.trace(`    -> ${show(change)}`);
    this.#batch.rows.push(...rows);
    this.#batch.sends.push(...sends);
    this.#batch.settles.push(...settles);
    for (const send of sends) if (send.type === "close") this.closing.add(send.connId);
    checks.after(state, event, reduced, now);
    world.contexts.after(state, reduced);
    world.models.after(state, event, reduced, now);
    world.payloads.after(state, event, reduced);
    world.market.after(state, event, reduced, now);
    world.money.after(state, event, reduced, now);
    if (this.#flushing) return answer;
    this.#flushing = true;
    const memory = this.#memories;
    world.agenda.after(world.random.between(0, 2), () => {
      if (memory === this.#memories) this.#flush(state);
    });
    return answer;
  }

  lastSeen(connId: string): number {
    return this.sockets.get(connId)?.lastSeen(this.#world.agenda.now) ?? 0;
  }

  #flush(state: DispatchState): void {
    const world = this.#world;
    const batch = this.#batch;
    const answers = this.#answers;
    const wasAlarm = this.#firing;
    this.#batch = noChanges();
    this.#answers = [];
    this.#flushing = false;
    this.#firing = false;
    if (this.#diskFails) {
      this.#diskFails = false;
      world.trace?.("the commit fails");
      world.stats.diskFailures++;
      return this.#undo(answers, wasAlarm);
    }
    this.#commit(state, batch);
    world.checks.committed();
    world.contexts.committed(batch.rows);
    world.models.committed();
    world.payloads.committed(batch.rows);
    world.money.committed(batch.rows, world.agenda.now);
    this.#setAlarm(world.core.nextDue(state));
    if (this.storedRows.size > 0 && this.storedAlarm === null) broken("I14", "live jobs and no alarm");
    if (this.storedAlarm === null && state.ledger.timers.size > 0) broken("I14", "payments wait and no alarm");
    if (this.#diesBeforeSending) return this.crash();
    this.#fresh.clear();
    for (const answer of answers) answer(true);
    for (const send of batch.sends) this.#send(send);
    for (const key of batch.settles) this.#settle(key);
    this.#drainOutbox(100);
  }

  #commit(state: DispatchState, { rows, sends }: Changes): void {
    const { core, agenda } = this.#world;
    const inserted = new Set<string>();
    for (const row of rows) {
      switch (row.type) {
        case "insert":
          if (this.storedRows.has(row.job.id) || this.storedEnded.has(row.job.id) || inserted.has(row.job.id)) broken("JB9", `${row.job.id} is inserted twice`);
          inserted.add(row.job.id);
          break;
        case "save": {
          const job = state.jobs.get(row.jobId);
          if (job === undefined) break;
          const { id, jobType, policy, privacyClass, userId, trustedKeys, payloadBytes, createdAt, network } = job;
          const before = this.storedRows.get(id);
          if (before === undefined && !inserted.has(id)) broken("JB9", `${id} is saved and was never inserted`);
          if (before !== undefined && before.rev > job.rev) broken("I8", `${id} goes back from revision ${before.rev} to ${job.rev}`);
          const facts = before?.facts ?? { id, jobType, policy, privacyClass, userId, trustedKeys: [...trustedKeys], payloadBytes, createdAt, network };
          const snapshot = core.snapshotOf(job);
          if (snapshot.denials.length !== job.denials.length || snapshot.network !== network) broken("JB11", `${id} is saved without what was said of it`);
          this.storedRows.set(id, { facts, rev: job.rev, snapshot: JSON.stringify(snapshot) });
          this.storedOutbox.set(id, { id, rev: job.rev, terminal: false, status: core.statusOf(job) });
          break;
        }
        case "ended": {
          const { jobId: id, outcome, rev, holders } = row;
          if (this.storedEnded.has(id)) broken("I4", `${id} ended a second time: ${JSON.stringify(outcome)}`);
          const before = this.storedRows.get(id);
          if (before === undefined && !inserted.has(id)) broken("JB9", `${id} ends and was never inserted`);
          if (before !== undefined && before.rev >= rev) broken("I8", `${id} ends at revision ${rev}, saved is ${before.rev}`);
          this.storedRows.delete(id);
          this.storedEnded.set(id, { outcome, rev, holders });
          this.storedOutbox.set(id, { id, rev, terminal: true, status: JSON.stringify(outcome) });
          this.#world.ended(id, outcome, row.attempts);
          break;
        }
        case "save_payment":
          this.storedPayments.set(row.payment.key, JSON.stringify(row.payment));
          break;
        case "drop_payment":
          this.storedPayments.delete(row.key);
          break;
        case "model":
          this.#storedModels.set(row.name, row.leftAt);
          break;
        case "record":
          this.#storedRecords.set(row.key, row.record);
          break;
        default:
          row satisfies never;
      }
    }
    for (const send of sends) {
      const key = send.type === "assign" ? this.sockets.get(send.connId)?.attachment?.key : undefined;
      if (key === undefined) continue;
      this.#storedUse.set(key, agenda.now);
      this.#world.stats.claimed(key);
    }
  }

  #send(send: Send): void {
    switch (send.type) {
      case "assign":
        this.#checkDurable(send);
        return this.#world.down(send.connId, send);
      case "cancel_attempt":
      case "drained":
        return this.#world.down(send.connId, send);
      case "completion_ack":
        return this.#world.down(send.connId, { type: "completion_ack", jobId: send.jobId, status: send.answer.status });
      case "close":
        this.#drop(send.connId);
        return this.#world.closed(send.connId, send.code);
      case "parked":
        return;
      default:
        send satisfies never;
    }
  }

  /** Every `job_assign` that leaves has a durable lease with that attempt. */
  #checkDurable(effect: Extract<Send, { type: "assign" }>): void {
    const row = this.storedRows.get(effect.jobId);
    if (row === undefined) {
      if (!this.storedEnded.has(effect.jobId)) broken("I10", `${effect.jobId} is assigned and not stored`);
      return;
    }
    if (!row.snapshot.includes(`"attempt":${effect.attempt},`))
      broken("I10", `${effect.jobId} attempt ${effect.attempt} is assigned, stored is ${row.snapshot}`);
  }

  #drop(connId: string): void {
    this.closing.delete(connId);
    const socket = this.sockets.get(connId);
    if (socket === undefined) return;
    this.sockets.delete(connId);
    socket.hubOpen = false;
  }

  #close(socket: Socket, code: number): void {
    socket.hubOpen = false;
    this.sockets.delete(socket.connId);
    this.#world.closed(socket.connId, code);
  }

  #setAlarm(at: number | null): void {
    if (at === this.storedAlarm) return;
    this.storedAlarm = at;
    if (at === null) return;
    const { agenda, random, plan } = this.#world;
    agenda.at(at + random.between(0, plan.alarmLate), () => this.#alarm(at));
  }

  // --- outbox ---

  #drainOutbox(delay: number): void {
    if (this.#draining || this.storedOutbox.size === 0) return;
    this.#draining = true;
    const { agenda, database, random } = this.#world;
    const life = this.#lives;
    agenda.after(delay, () => {
      if (life !== this.#lives) return;
      const batch = [...this.storedOutbox.values()].slice(0, 20);
      database.write(batch, (ok) => {
        if (life !== this.#lives) return;
        if (ok) for (const row of batch) if (this.storedOutbox.get(row.id)?.rev === row.rev) this.storedOutbox.delete(row.id);
        this.#draining = false;
        this.#drainOutbox(ok ? 1 : random.between(500, 4_000));
      });
    });
  }

  // --- lives ---

  /** Memory and every socket are gone, and no handler is told; what was not committed never happened. */
  crash(): void {
    const world = this.#world;
    world.trace?.("hub crashes");
    world.stats.crashes++;
    const sockets = [...this.sockets.values()];
    this.sockets.clear();
    this.closing.clear();
    this.#fresh.clear();
    this.#forget();
    this.#lives++;
    this.#draining = false;
    for (const answer of this.#answers) answer(false);
    this.#answers = [];
    this.#batch = noChanges();
    this.#flushing = false;
    this.#diesBeforeSending = false;
    if (this.#firing) this.#setAlarm(world.agenda.now + 2_000);
    this.#firing = false;
    for (const socket of sockets) {
      socket.hubOpen = false;
      world.closed(socket.connId, 1006);
    }
    world.checks.crashed(world.agenda.now);
    const life = this.#lives;
    if (this.storedOutbox.size > 0) world.agenda.after(1_000, () => life === this.#lives && this.#awake());
  }

  /** A deploy with the address of an RPC: from now on the chain can be read, also about the doubts that there are. */
  deployWithChain(): void {
    this.readsChain = true;
    this.crash();
    for (const key of this.storedPayments.keys()) if (this.isInDoubt(key)) this.#world.chainReader.note(key);
  }

  /** The next commit is the last thing that this life does. */
  crashAfterCommit(): void {
    if (this.#flushing) this.#diesBeforeSending = true;
    else this.crash();
  }

  /** The next commit fails: what was to be written and sent is lost, memory is rebuilt, sockets stay. */
  failDisk(): void {
    this.#diskFails = true;
  }

  /** Memory is gone, sockets stay. The platform does it only between turns. */
  evict(): void {
    if (this.memory === null || this.#flushing) return;
    this.#world.trace?.("hub is evicted");
    this.#world.stats.evictions++;
    if (this.calls.size > 0) this.#world.stats.evictedSettling++;
    this.#forget();
  }

  #awake(): void {
    const world = this.#world;
    const { core, agenda } = world;
    if (world.plan.hibernates && this.calls.size === 0 && agenda.now - this.#lastTurn >= HIBERNATES_AFTER) this.evict();
    if (this.memory !== null) return;
    this.#lastTurn = agenda.now;
    const state = core.createState({ ...world.plan.settings, chain: this.readsChain });
    const saved: SavedJob[] = [];
    for (const { facts, rev, snapshot } of this.storedRows.values()) saved.push({ facts, rev, snapshot: core.Snapshot.parse(JSON.parse(snapshot)) });
    const rows = [...this.storedPayments.values()].map((text) => JSON.parse(text) as Payment);
    const isDone = ({ phase }: Payment) =>
      phase.kind === "credit" || phase.kind === "spent" || phase.kind === "void" || (phase.kind === "unresolved" && phase.retryDue === null);
    const payments = rows.filter((row) => !isDone(row) || (row.credit !== undefined && row.credit.lent !== "0"));
    const today = agenda.now - TIMING.parkHalving;
    const assumed = rows.filter(({ phase, streamedAt = 0 }) => ("assumedAt" in phase && (phase.assumedAt ?? 0) > today) || streamedAt > today);
    core.restorePayments(state, [...new Set([...payments, ...assumed])], agenda.now);
    for (const { key, phase } of payments) {
      const kind = state.ledger.payments.get(key)?.phase.kind;
      const goesOn = phase.kind === "settling" && phase.by === "request" && phase.until > agenda.now;
      if (kind !== (phase.kind === "settling" && !goesOn ? "unknown" : phase.kind)) broken("JB9", `${key} was ${phase.kind} and is restored as ${kind}`);
    }
    core.restore(state, saved, agenda.now);
    for (const { facts, rev, snapshot } of saved) {
      const job = state.jobs.get(facts.id);
      if (job === undefined || job.rev !== rev || !isSame(core.snapshotOf(job), snapshot)) broken("JB9", `${facts.id} is restored otherwise than it was saved`);
    }
    this.memory = state;
    this.bootedAt = agenda.now;
    world.checks.booted();
    world.contexts.booted([...state.jobs.values()]);
    world.models.booted();
    world.payloads.booted([...state.jobs.values()]);
    world.money.booted(agenda.now);
    world.trace?.(`hub boots with ${saved.length} jobs, ${this.sockets.size} sockets`);
    this.booting = true;
    this.#step({ type: "restored", damaged: [], models: [...this.#storedModels].map(([name, leftAt]) => ({ name, leftAt })) });
    const live = [...this.sockets.values()];
    for (const socket of live) {
      if (socket.attachment === null || !socket.hubOpen) continue;
      const { key, capabilities, tier, acks, context, models, chats, draining, registeredAt } = socket.attachment;
      const record = this.#recordOf(key);
      const lastUsedAt = this.#storedUse.get(key) ?? 0;
      this.#step({
        type: "register",
        connId: socket.connId,
        ...world.market.of(key),
        capabilities,
        tier,
        acks,
        context,
        models,
        chats,
        record,
        lastUsedAt,
        resume: undefined,
        draining,
        registeredAt,
      });
    }
    this.#step({ type: "sockets_restored" });
    this.booting = false;
    if (!this.#flushing) {
      this.#flushing = true;
      const memory = this.#memories;
      agenda.after(0, () => memory === this.#memories && this.#flush(state));
    }
  }
}

/** A worker that was claimed for a settlement is not claimed any more, and the time of a job whose payment is unknown ends with that. */
function isSame(one: Snapshot, other: Snapshot): boolean {
  const text = ({ attempts, holders, tried, denials, network, model, isChat, payment, cause, trustedKeys, totalDue, phase }: Snapshot) => {
    const settling = phase.kind === "settling" || other.phase.kind === "settling" || one.phase.kind === "settling";
    return JSON.stringify([
      settling ? 0 : phase.kind,
      settling ? 0 : totalDue,
      attempts,
      holders,
      tried,
      denials,
      network,
      model,
      isChat,
      payment,
      cause,
      trustedKeys,
    ]);
  };
  return text(one) === text(other);
}

function isNoTrusted(outcome: Outcome): boolean {
  return outcome.status === "failed" && outcome.cause === "no_trusted_worker";
}

function noChanges(): Changes {
  return { rows: [], sends: [], settles: [] };
}

/** What a seeker hears about its submit. */
function wordOf(submission: Submission): Answer {
  if (submission.ok) return "accepted";
  return submission.reason === "no_trusted_worker" ? "no_trusted_worker" : "refused";
}

function show(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => (inner instanceof Set ? [...inner] : inner));
}
