// The invariants of the simulation about jobs, workers and sockets, checked after every event.
import { LIMITS } from "../../src/protocol/limits.ts";
import { TIMING } from "../../src/protocol/times.ts";
import type {
  DispatchEvent,
  DispatchState,
  EventOf,
  JobEnd,
  JobFacts,
  LiveJob,
  Reduced,
  RowChange,
  Send,
  Worker,
} from "../../src/coordinator/dispatch/index.ts";
import { checkIndexes, checkNoneWaitsBesideAFreeWorker, endsBy, placeOf, suits } from "./indexes.ts";
import { mayTakeLost } from "./market.ts";
import { checkAccepted, checkRefused, checkShares } from "./shares.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

type Assign = Extract<Send, { type: "assign" }>;

/** How late an alarm, a tick and a commit may make something, ms. */
const LATE = 3_000;
/** How long a worker that does not acknowledge is given nothing after it registered, ms [JB2]. */
const ARRIVAL = 2_000;
/** How long a worker that was found silent may count as silent after a heartbeat [WS6]. */
const SILENT_RECHECKED = 1_000;

/**
 * The invariants, after every event. A rule id says which rule.
 *
 * - I1 a worker holds at most one lease · I1b an honest worker never gets a second job while it works · I2 a job has at most one lease
 * - I3 PRIVATE only on trusted workers · I4 one terminal write · I5 a result only from one who held a lease
 * - I6 every accepted job ends · I7 `no_eligible_worker` only if never leased, and in time · I8 revisions only grow
 * - I9 at rest nobody is busy · I10 a frame has a durable lease · I11 at most 3 attempts · I12 no lease on a dead socket
 * - I13 nothing is overdue · I14 the alarm is armed · I15 an unacknowledged assignment is taken back · I16 no hot loop
 * - I17 with a stake source FAST only on workers of 100 and more, by the source itself, at the claim and again at the assignment · I21 the registered workers
 *   are the registered live sockets
 * - JB2 no wait beside a free worker, nothing for one that has just registered and does not acknowledge · JB3 order and least recently used · JB4 who tried
 *   stands back · JB11 as `market.ts` · RC4 · WS4 · WS6 · WS7 · WS10 · WS11 · WS12
 */
export class Checks {
  readonly #world: World;
  /** Of every worker, as of before this event. */
  readonly #usedAt = new Map<string, { usedAt: number; seq: number }>();
  readonly #triedBefore = new Map<string, ReadonlySet<string>>();
  /** Failures in a row, of every worker that has not rested since. */
  readonly #failures = new Map<string, number>();
  /** Every job and key of which a result was a strike [RC4]; the second set has those that are not written yet. */
  readonly #struck = new Set<string>();
  readonly #strikesUnwritten = new Set<string>();
  /** Strikes of the worker of this event before it; parks count for as many as make one. */
  #strikesBefore = 0;
  /** Attempts of the job of this event before it, and whether its worker had started it. */
  #attemptsBefore = 0;
  #wasStarted = false;
  #tickWasDue = false;
  #sweepWasDue = false;
  #wasKnown = true;
  #endsBefore = 0;
  /** Whether the job of this event was not there before it. */
  #isNew = false;
  /** Jobs whose worker was claimed earlier while their payment was settled. */
  readonly #claimedBefore = new Map<string, string>();
  /** The lease that this event must leave alone, and the one that it must have cancelled if it ends the job. */
  #other: { jobId: string; phase: LiveJob["phase"]; connId: string; attempt: number } | null = null;
  /** Per job its latest lease: its number, when it was first seen, and when it was last seen. */
  readonly #leased = new Map<string, { lease: string; from: number; until: number }>();
  /** When the holder of a lease last gave a sign, and when its hub last lost its memory by force: a view that no crash erases. */
  readonly #touched = new Map<string, { key: string; at: number; moment: number }>();

  constructor(world: World) {
    this.#world = world;
  }

  before(state: DispatchState, event: DispatchEvent, now: number): void {
    this.#tickWasDue = state.tickDue !== null && state.tickDue <= now;
    this.#sweepWasDue = state.sweepDue !== null && state.sweepDue <= now;
    this.#seeLeases(state, now);
    this.#usedAt.clear();
    for (const { key, lastUsedAt, seq } of state.workers.values()) this.#usedAt.set(key, { usedAt: lastUsedAt, seq });
    this.#triedBefore.clear();
    for (const job of state.jobs.values()) if (job.tried.size > 0) this.#triedBefore.set(job.id, new Set(job.tried));
    this.#wasKnown = !("connId" in event) || event.type === "register" || state.keyByConn.has(event.connId);
    this.#endsBefore = state.jobs.size;
    this.#isNew = event.type === "submit" && !state.jobs.has(event.job.id);
    this.#claimedBefore.clear();
    for (const { id, phase } of state.jobs.values()) if (phase.kind === "settling" && phase.claimed !== null) this.#claimedBefore.set(id, phase.claimed.connId);
    if ((event.type === "ack" || event.type === "progress") && this.#wasKnown) {
      const job = state.jobs.get(event.jobId);
      if (job?.phase.kind === "leased" && job.phase.connId === event.connId && job.phase.lease.attempt === event.attempt) this.#touch(job, now);
    }
    const job = "jobId" in event ? state.jobs.get(event.jobId) : undefined;
    this.#attemptsBefore = job?.attempts ?? 0;
    this.#wasStarted = job?.phase.kind === "leased" && job.phase.lease.acked;
    if (event.type === "complete") this.#strikesBefore = strikesOf(state, event.connId);
    this.#other = null;
    if (event.type === "complete" && this.#wasKnown) {
      const phase = state.jobs.get(event.jobId)?.phase;
      if (phase?.kind === "leased" && (phase.connId !== event.connId || (event.attempt !== undefined && event.attempt !== phase.lease.attempt))) {
        this.#other = { jobId: event.jobId, phase, connId: phase.connId, attempt: phase.lease.attempt };
      }
    }
    if (event.type === "disconnect") {
      const job = state.jobs.get(state.leases.get(state.keyByConn.get(event.connId) ?? "") ?? "");
      if (job !== undefined) this.#touch(job, now, TIMING.grace);
    }
  }

  after(state: DispatchState, event: DispatchEvent, { answer, rows, sends, settles }: Reduced, now: number): void {
    const { hub } = this.#world;
    if (!this.#wasKnown && (answer !== null || rows.length + sends.length + settles.length > 0))
      broken("WS7", `a late ${event.type} of a replaced socket had effects`);
    checkIndexes(state);
    checkShares(state);
    this.#checkQueue(state, event, answer, now);
    // A late event changes nothing, so a worker that has arrived since waits for the alarm, which may be late too.
    if (this.#wasKnown) {
      checkNoneWaitsBesideAFreeWorker(
        state,
        now,
        (worker) => this.#isSilent(worker, now),
        (worker) => this.#arrivesAt(worker, now),
      );
    }
    this.#checkArrivals(state, now);
    for (const row of rows) if (row.type === "ended") this.#checkEnded(event, row, now);
    for (const send of sends) {
      switch (send.type) {
        case "assign":
          this.#checkAssign(state, event, send, rows, now);
          break;
        case "completion_ack":
          this.#checkAnswer(state, send);
          break;
        case "cancel_attempt": {
          const phase = state.jobs.get(send.jobId)?.phase;
          if (phase?.kind === "leased" && phase.connId === send.connId && phase.lease.attempt === send.attempt) {
            broken("WS10", `${send.jobId} attempt ${send.attempt} is cancelled and still leased to the same socket`);
          }
          break;
        }
        default:
          break;
      }
    }
    for (const job of state.jobs.values()) {
      // Each of them used an attempt, so they are few, however many workers reject the job.
      const unstarted = job.holders.filter(({ acked }) => !acked).length;
      if (unstarted > job.attempts) broken("WS9", `${job.id} was held by ${unstarted} workers that never started, in ${job.attempts} attempts`);
      if (job.holders.length > job.attempts + LIMITS.startedRejections) broken("WS9", `${job.id} was held by ${job.holders.length} workers`);
      const remembered = Math.max(job.tried.size, job.struck.size) - LIMITS.attempts;
      if (remembered > LIMITS.keysPerJob || job.denials.length > 4) broken("LM1", `${job.id} remembers ${job.tried.size} keys, ${job.denials.length} denials`);
      const claimed = job.phase.kind === "settling" ? job.phase.claimed : null;
      const worker = claimed === null ? undefined : state.workers.get(claimed.key);
      if (claimed === null || worker === undefined || this.#claimedBefore.get(job.id) === claimed.connId) continue;
      this.#checkSuits(state, job, worker, now);
      this.#checkClaim(state, event, job, worker, rows, now);
    }
    this.#checkOther(state, sends);
    if (event.type === "complete") this.#checkStrikes(event, rows, sends);
    if (event.type === "submit") this.#checkTrusted(state, event.job, answer, rows);
    if (rows.filter(({ type }) => type === "ended").length < this.#endsBefore - state.jobs.size) broken("I6", "a job vanished without an end");
    this.#checkFailures(state, event, rows);
    if (event.type === "register") {
      this.#failures.delete(event.key);
      const job = state.jobs.get(state.leases.get(event.key) ?? "");
      const firstAssign = sends.findIndex(({ type }) => type === "assign");
      const lastCancel = sends.findLastIndex((send) => send.type === "cancel_attempt" && send.connId === event.connId);
      if (firstAssign >= 0 && lastCancel > firstAssign) broken("WS10", `${event.key} is given a job before what it lists is cancelled`);
      // What was rebound from a list runs afresh; a socket that was there all along gets nothing new.
      if (job !== undefined && !hub.booting) this.#touch(job, now);
    }
    if (!hub.booting) this.#checkSockets(state, now);
    if (event.type === "time") this.#checkTime(state, now);
    this.#seeLeases(state, now);
    this.#checkOverdue(state, now);
  }

  /** The turn is written. */
  committed(): void {
    for (const name of this.#strikesUnwritten) this.#struck.add(name);
    this.#strikesUnwritten.clear();
  }

  /** The hub's memory is rebuilt; a strike that was not written is undone. */
  booted(): void {
    this.#strikesUnwritten.clear();
  }

  /** Every lease gets its grace time anew. */
  crashed(now: number): void {
    this.#failures.clear();
    for (const touch of this.#touched.values()) {
      touch.at = Math.max(touch.at, now + TIMING.grace - TIMING.executeTask);
      touch.moment = now;
    }
  }

  /** Who holds a lease has a moment more; a hub that sleeps by itself is not told, so that sleeping cannot hide what is overdue. */
  evicted(now: number): void {
    this.#failures.clear();
    for (const touch of this.#touched.values()) {
      touch.at = Math.max(touch.at, now + TIMING.ack - TIMING.executeTask);
      touch.moment = now;
    }
  }

  #touch(job: LiveJob, now: number, extra = 0): void {
    const { phase } = job;
    if (phase.kind === "waiting" || phase.kind === "settling") return;
    const touch = this.#touched.get(job.id);
    if (touch?.key !== phase.lease.key) this.#touched.set(job.id, { key: phase.lease.key, at: now, moment: now });
    else if (extra === 0) touch.at = Math.max(touch.at, now);
    else touch.at = Math.max(touch.at, now + extra - executionTime(job));
  }

  /** LM1: who was let in, and who was not. */
  #checkQueue(state: DispatchState, event: DispatchEvent, answer: Reduced["answer"], now: number): void {
    if ((event.type !== "submit" && event.type !== "reserve") || answer === null || typeof answer === "string") return;
    const { job } = event;
    const live = state.jobs.get(job.id);
    if (event.type === "submit" && this.#isNew && live !== undefined) checkAccepted(state, live);
    if (!("reason" in answer) || answer.reason !== "queue_full") return;
    const stored = event.type === "reserve" ? event.stored : event.payment?.stored;
    const { payment } = event;
    const payer = payment === undefined ? null : ((state.ledger.payments.get(payment.key) ?? stored)?.payer ?? payment.payer);
    // Only the platform knows that a worker that was found silent has sent a heartbeat since. The hub asks it once a second at most, because strangers choose
    // how many silent workers and how many refused jobs there are.
    const isFound = (worker: Worker) => worker.silent && now - state.silentCheckedAt < SILENT_RECHECKED;
    const isIdle = (worker: Worker) => worker.jobId === null && !worker.resting && !isFound(worker);
    checkRefused(state, job, payer, (worker) => isIdle(worker) && !this.#isSilent(worker, now) && this.#arrivesAt(worker, now) === null);
    this.#world.stats.full++;
  }

  #isSilent(worker: Worker, now: number): boolean {
    return now - this.#world.hub.lastSeen(worker.connId) > TIMING.silentUnclaimable;
  }

  /** When a worker that has just registered and does not acknowledge may be given jobs [JB2], by its socket and not by what dispatch believes; null for now. */
  #arrivesAt(worker: Worker, now: number): number | null {
    const registeredAt = this.#world.hub.sockets.get(worker.connId)?.attachment?.registeredAt ?? now;
    return worker.acks || now >= registeredAt + ARRIVAL ? null : registeredAt + ARRIVAL;
  }

  /** JB2: the hub wakes up for a worker that arrives while something waits for it. */
  #checkArrivals(state: DispatchState, now: number): void {
    if (state.queue.jobs === 0) return;
    const due = this.#world.core.nextDue(state);
    for (const worker of state.workers.values()) {
      const arrival = this.#arrivesAt(worker, now);
      if (arrival === null || worker.jobId !== null || (due !== null && due <= arrival)) continue;
      for (const job of state.jobs.values())
        if (job.phase.kind === "waiting" && suits(state, job, worker)) broken("JB2", `${job.id} waits for ${worker.key} to arrive, and nobody wakes up then`);
    }
  }

  #checkAssign(state: DispatchState, event: DispatchEvent, effect: Assign, rows: readonly RowChange[], now: number): void {
    const job = state.jobs.get(effect.jobId);
    const worker = state.workers.get(state.keyByConn.get(effect.connId) ?? "");
    if (
      job === undefined ||
      worker === undefined ||
      job.phase.kind !== "leased" ||
      job.phase.connId !== effect.connId ||
      job.phase.lease.attempt !== effect.attempt
    ) {
      return broken("I10", `${effect.jobId} was assigned to ${effect.connId} and taken away in one turn`);
    }
    this.#touched.set(job.id, { key: worker.key, at: now, moment: now });
    this.#checkSuits(state, job, worker, now);
    // The claim came earlier where a payment had to be settled first.
    if (this.#claimedBefore.get(job.id) !== effect.connId) this.#checkClaim(state, event, job, worker, rows, now);
  }

  #checkSuits(state: DispatchState, job: LiveJob, worker: Worker, now: number): void {
    // By what the source says, not by what dispatch believes.
    if (state.settings.stake && job.policy === "FAST" && (this.#world.tiers.get(worker.key) ?? "Open") === "Open")
      broken("I17", `FAST ${job.id} on ${worker.key}, whose stake is under 100`);
    if (!suits(state, job, worker)) {
      if (job.privacyClass === "PRIVATE" && !job.trustedKeys.includes(worker.key)) broken("I3", `PRIVATE ${job.id} on ${worker.key}`);
      broken("JB2", `${job.id} on ${worker.key}, which cannot run it or drains`);
    }
    if (job.privacyClass === "PRIVATE" && !this.#world.pairings.get(job.userId)?.has(worker.key)) broken("I3", `PRIVATE ${job.id} on ${worker.key}`);
    if (this.#isSilent(worker, now)) broken("WS6", `${job.id} is given to ${worker.key}, which is silent`);
    if (worker.resting) broken("JB4", `${job.id} is given to ${worker.key}, which rests`);
  }

  #checkClaim(state: DispatchState, event: DispatchEvent, job: LiveJob, worker: Worker, rows: readonly RowChange[], now: number): void {
    const arrival = this.#arrivesAt(worker, now);
    if (arrival !== null && !endsBy(job, arrival)) broken("JB2", `${worker.key} gets ${job.id} ${arrival - now} ms before it may`);
    const lost = job.phase.kind === "leased" ? job.phase.lease.attempt - 1 : job.attempts;
    if (lost > 0 && !mayTakeLost(state, job, worker)) broken("JB11", `${job.id} has lost an attempt and goes to ${worker.key}, which is on probation`);
    const again = this.#triedBefore.get(job.id)?.has(worker.key) ?? false;
    if (again || job.tried.has(worker.key)) {
      if (event.type !== "time" || !this.#tickWasDue) broken("JB4", `${worker.key} gets ${job.id} again before a tick`);
      for (const other of state.workers.values()) {
        if (other !== worker && !other.silent && !job.tried.has(other.key) && suits(state, job, other))
          broken("JB4", `${worker.key} gets ${job.id} again though ${other.key} has not tried it`);
      }
    }
    // A pairing saves what waited already; otherwise, what was saved in this turn may have come to wait after the claim.
    const changed = (id: string) => event.type !== "paired" && rows.some((other) => other.type === "save" && other.jobId === id);
    for (const other of state.jobs.values()) {
      if (arrival !== null && !endsBy(other, arrival)) continue;
      if (other.phase.kind !== "waiting" || placeOf(other) >= placeOf(job) || !suits(state, other, worker) || changed(other.id)) continue;
      if (other.attempts > 0 && !worker.proven && other.privacyClass === "PUBLIC") continue;
      if (!other.tried.has(worker.key)) broken("JB3", `${worker.key} gets ${job.id} before ${other.id}`);
      if (again && !this.#hasUntried(state, other)) broken("JB3", `${worker.key} gets ${job.id} again before ${other.id}`);
    }
    // Among those that were and stay free, the least recently used; a worker that was freed just now is not among them.
    if (event.type !== "submit") return;
    const idle = [...state.workers.values()].filter((other) => {
      if (other === worker) return true;
      if (!this.#usedAt.has(other.key) || other.jobId !== null || other.silent || other.resting) return false;
      return this.#arrivesAt(other, now) === null && !this.#isSilent(other, now) && suits(state, job, other);
    });
    // One that is still arriving had no rival.
    if (!this.#usedAt.has(worker.key) || arrival !== null) return;
    if (job.privacyClass === "PUBLIC") return this.#world.market.checkTurn(job, worker, idle, (a, b) => this.#isUsedBefore(a, b));
    for (const other of this.#world.models.preferred(job, worker, idle))
      if (this.#isUsedBefore(other, worker)) broken("JB3", `${job.id} on ${worker.key}, though ${other.key} was used less recently`);
  }

  /** Whether one was used less recently than the other, before this event. */
  #isUsedBefore(one: Worker, other: Worker): boolean {
    const [a, b] = [this.#usedAt.get(one.key), this.#usedAt.get(other.key)];
    return a !== undefined && b !== undefined && (a.usedAt < b.usedAt || (a.usedAt === b.usedAt && a.seq < b.seq));
  }

  /** JB8, ST1: a PRIVATE job is refused exactly when nobody who is connected may ever take it, for want of pairing or of stake. */
  #checkTrusted(state: DispatchState, job: JobFacts, answer: Reduced["answer"], rows: readonly RowChange[]): void {
    if (job.privacyClass !== "PRIVATE" || !this.#isNew || isUnknownModel(answer)) return;
    const refused = rows.some((row) => row.type === "ended" && row.jobId === job.id && isNoTrusted(row));
    if (refused !== isRefusal(answer)) broken("JB8", `${job.id} ${refused ? "ends" : "goes on"} and its user is told otherwise`);
    const some = [...state.workers.values()].some((worker) => suits(state, job, worker));
    if (refused === some) broken("JB8", `${job.id} is ${refused ? "refused though" : "accepted though not"} somebody is there for it`);
  }

  /** WS12: who does only what it should is never taken for a stranger, and so never struck. */
  #checkAnswer(state: DispatchState, { connId, jobId, answer }: Extract<Send, { type: "completion_ack" }>): void {
    if (answer.status !== "rejected" || answer.error !== "not_assigned") return;
    const worker = this.#world.workers.find(({ key }) => key === state.keyByConn.get(connId));
    if (worker !== undefined && worker.personality.intrudes === 0) broken("WS12", `${worker.key} held ${jobId} and is told not_assigned`);
  }

  /** JB4: who fails job after job rests until the tick. */
  #checkFailures(state: DispatchState, event: DispatchEvent, rows: readonly RowChange[]): void {
    // A missed acknowledgement counts too: it may have made the worker rest.
    for (const key of state.resting) this.#failures.delete(key);
    if (event.type !== "failed" && event.type !== "reject" && event.type !== "complete") return;
    const worker = state.workers.get(state.keyByConn.get(event.connId) ?? "");
    if (worker === undefined) return;
    const good = event.type === "complete" && event.verdict !== "worker_error" && event.verdict !== "output_too_large";
    if (good || worker.resting || this.#world.plan.hibernates) this.#failures.delete(worker.key);
    else if (this.#other === null && rows.some((row) => (row.type === "save" || row.type === "ended") && row.jobId === event.jobId)) {
      const failures = (this.#failures.get(worker.key) ?? 0) + 1;
      this.#failures.set(worker.key, failures);
      if (failures >= LIMITS.failuresInARow) broken("JB4", `${worker.key} failed ${failures} times in a row and does not rest`);
    }
  }

  /** A result of another attempt either ends the job, and then its present holder is told, or leaves it alone. */
  #checkOther(state: DispatchState, sends: readonly Send[]): void {
    const other = this.#other;
    if (other === null) return;
    const phase = state.jobs.get(other.jobId)?.phase;
    // A strike may park the holder's other socket; its own lease is then another matter.
    if (phase !== undefined && phase !== other.phase && !sends.some(({ type }) => type === "close"))
      broken("JB6", `a result of another attempt moved attempt ${other.attempt} of ${other.jobId}`);
    if (phase !== undefined) return;
    const told = sends.some((send) => send.type === "cancel_attempt" && send.connId === other.connId && send.attempt === other.attempt);
    if (sends.some((send) => send.type === "close" && send.connId === other.connId)) return;
    if (!told) broken("JB6", `${other.jobId} ended and its present holder was not told`);
  }

  /** RC4: one job costs a key one strike at most, a verified result takes one off, and who is parked is told for how long. */
  #checkStrikes(event: EventOf<"complete">, rows: readonly RowChange[], sends: readonly Send[]): void {
    const told = rows.find((row) => row.type === "record");
    const closed = sends.findIndex((send) => send.type === "close" && send.code === 4003);
    if (closed >= 0 && sends[closed - 1]?.type !== "parked") broken("WS4", `${event.connId} is parked and not told for how long`);
    const accepted = sends.some((send) => send.type === "completion_ack" && send.answer.status === "accepted");
    const after = told === undefined ? this.#strikesBefore : told.record.strikes + LIMITS.strikes * told.record.parks;
    if (event.verdict === "valid" && accepted) {
      if (this.#strikesBefore % LIMITS.strikes > 0 && after !== this.#strikesBefore - 1) broken("RC4", `${event.connId} keeps its strikes after a good result`);
      return;
    }
    if (told === undefined || after <= this.#strikesBefore) return;
    const name = `${event.jobId} ${told.key}`;
    if (this.#struck.has(name) || this.#strikesUnwritten.has(name)) broken("RC4", `${event.jobId} is a second strike for ${told.key}`);
    this.#strikesUnwritten.add(name);
  }

  #hasUntried(state: DispatchState, job: LiveJob): boolean {
    for (const worker of state.workers.values()) if (!worker.silent && !job.tried.has(worker.key) && suits(state, job, worker)) return true;
    return false;
  }

  #checkEnded(event: DispatchEvent, { jobId, outcome, attempts, holders }: JobEnd, now: number): void {
    const world = this.#world;
    this.#touched.delete(jobId);
    if (event.type === "reject" && event.jobId === jobId && attempts >= this.#attemptsBefore + (this.#wasStarted ? 1 : 0))
      broken("WS9", `${jobId} is rejected and its attempt counts`);
    if (outcome.status === "completed") {
      if (event.type !== "complete" || event.jobId !== jobId) return broken("I5", `${jobId} completed by ${event.type}`);
      if (!holders.includes(outcome.key)) broken("I5", `${jobId} completed by ${outcome.key}, which never held it`);
      if (outcome.verified !== (event.verdict === "valid")) broken("I5", `${jobId} is verified: ${outcome.verified}, verdict ${event.verdict}`);
      if (event.verdict !== "valid" && (event.verdict !== "invalid_receipt" || world.plan.settings.receiptPolicy === "strict"))
        broken("I5", `${jobId} completed by a result that is ${event.verdict}`);
      return;
    }
    const facts = world.jobFacts(jobId);
    const begun = world.money.renewedAt(jobId) ?? facts?.createdAt ?? now;
    const overall = now >= begun + TIMING.total;
    if (event.type === "time" && overall && outcome.cause !== "deadline_exceeded" && outcome.cause !== "payment_failed")
      broken("JB4", `${jobId} reaches its total deadline and fails with ${outcome.cause}`);
    switch (outcome.cause) {
      case "no_eligible_worker":
        if (attempts > 0) broken("I7", `${jobId} was leased and fails with no_eligible_worker`);
        if (facts !== undefined && now < facts.createdAt + TIMING.claimWindow) broken("I7", `${jobId} fails before its claim window ends`);
        break;
      case "deadline_exceeded":
        if (now < begun + TIMING.total) broken("JB4", `${jobId} fails before its total deadline`);
        if (attempts === 0) broken("JB5", `${jobId} was never leased for long and fails with deadline_exceeded`);
        break;
      case "no_trusted_worker":
        if (event.type !== "submit" && event.type !== "reserve") broken("JB8", `${jobId} fails with no_trusted_worker after its commit`);
        break;
      default:
        break;
    }
  }

  #checkSockets(state: DispatchState, now: number): void {
    const { hub } = this.#world;
    let live = 0;
    for (const socket of hub.sockets.values()) {
      if (socket.attachment === null || !socket.hubOpen || hub.closing.has(socket.connId)) continue;
      live++;
      const worker = state.workers.get(state.keyByConn.get(socket.connId) ?? "");
      if (worker === undefined) broken("I21", `${socket.connId} is registered and not in the state`);
      if (worker.draining !== socket.attachment.draining)
        broken("WS11", `${worker.key} asked to drain: ${socket.attachment.draining}, kept is ${worker.draining}`);
      if (worker.draining && worker.jobId === null) broken("WS11", `${worker.key} has drained and is still there`);
      const quiet = now - hub.lastSeen(socket.connId);
      if (quiet > TIMING.silentClosed + TIMING.sweep + LATE + this.#world.plan.alarmLate)
        broken("WS6", `${worker.key} is silent for ${quiet} ms and still there`);
    }
    if (live !== state.workers.size) broken("I21", `${state.workers.size} workers, ${live} registered sockets`);
  }

  #checkTime(state: DispatchState, now: number): void {
    const due = this.#world.core.nextDue(state);
    if (due !== null && due <= now) broken("I16", `after its time, the next due time is ${now - due} ms ago`);
    if (this.#sweepWasDue) {
      for (const worker of state.workers.values()) {
        if (now - this.#world.hub.lastSeen(worker.connId) >= TIMING.silentClosed) broken("WS6", `${worker.key} is silent and survives the sweep`);
      }
    }
    if (!this.#tickWasDue) return;
    if (state.resting.size > 0) broken("JB4", "a worker rests on after the tick");
    for (const key of state.silent) {
      const worker = state.workers.get(key);
      if (worker !== undefined && !this.#isSilent(worker, now)) broken("WS6", `${key} was heard and stays silent after the tick`);
    }
    // The sweep comes after the tick: whom it closes, the next tick knows.
    if (this.#sweepWasDue) return;
    for (const job of state.jobs.values()) {
      if (job.phase.kind !== "waiting" || job.tried.size === 0) continue;
      const isUntried = this.#hasUntried(state, job);
      for (const worker of state.workers.values()) {
        if (isUntried && (job.tried.has(worker.key) || worker.proven || !mayTakeLost(state, job, worker) || this.#isSilent(worker, now))) continue;
        const arrival = this.#arrivesAt(worker, now);
        if (arrival !== null && !endsBy(job, arrival)) continue;
        if (worker.jobId === null && !worker.silent && suits(state, job, worker))
          broken("JB4", `${job.id} waits after the tick beside ${worker.key}, the only one left`);
      }
    }
  }

  /** Notes which leases there are now. */
  #seeLeases(state: DispatchState, now: number): void {
    for (const { id, phase } of state.jobs.values()) {
      if (phase.kind !== "leased" && phase.kind !== "orphaned") continue;
      const known = this.#leased.get(id);
      const lease = `${phase.lease.key} ${phase.lease.attempt}`;
      if (known?.lease === lease) known.until = now;
      // Rejected and given to the next one in the same moment, it did not wait in between.
      else this.#leased.set(id, { lease, from: known?.until === now ? known.from : now, until: now });
    }
  }

  /** I13, I15: whoever has had its time loses the lease, whatever becomes of the hub's memory meanwhile. */
  #checkOverdue(state: DispatchState, now: number): void {
    const late = LATE + this.#world.plan.alarmLate;
    for (const job of state.jobs.values()) {
      const { phase } = job;
      if (now > job.totalDue + late) broken("I13", `${job.id} lives ${now - job.totalDue} ms after its total deadline`);
      if (phase.kind === "waiting") {
        // A hub that slept while a worker was claimed for it wakes up past its window.
        if (now > Math.max(phase.claimDue, job.payment === null ? 0 : this.#world.hub.bootedAt) + late)
          broken("I13", `${job.id} waits ${now - phase.claimDue} ms after its window`);
        // A worker may keep a job beyond its window and then reject it, but only one that was given it within the window.
        const windowEnd = job.createdAt + TIMING.claimWindow;
        const last = this.#leased.get(job.id);
        const end = last === undefined || last.from > windowEnd ? windowEnd : Math.max(windowEnd, last.until);
        if (job.attempts === 0 && job.payment === null && now > end + late) broken("I7", `${job.id} had no worker for ${now - job.createdAt} ms`);
        continue;
      }
      if (phase.kind === "settling") continue;
      const touch = this.#touched.get(job.id);
      if (touch === undefined) continue;
      if (
        phase.kind === "leased" &&
        !phase.lease.acked &&
        state.workers.get(phase.lease.key)?.acks &&
        now > touch.at + TIMING.ack + late &&
        now > touch.moment + 2 * TIMING.ack + late
      ) {
        broken("I15", `${job.id} is not acknowledged by ${phase.lease.key} for ${now - touch.at} ms`);
      }
      const over = now - touch.at - executionTime(job) - TIMING.ack - late;
      // An orphan that was restored has a grace time of its own.
      if (over > (phase.kind === "orphaned" ? TIMING.grace : 0)) broken("I13", `${job.id} is held by ${phase.lease.key} ${over} ms too long (${phase.kind})`);
    }
  }
}

function strikesOf(state: DispatchState, connId: string): number {
  const record = state.workers.get(state.keyByConn.get(connId) ?? "")?.record;
  return record === undefined ? 0 : record.strikes + LIMITS.strikes * record.parks;
}

/** Whether the answer to a commit says that nobody offers its model. */
function isUnknownModel(answer: Reduced["answer"]): boolean {
  return typeof answer === "object" && answer !== null && "reason" in answer && answer.reason === "no_such_model";
}

/** Whether the answer to a submit says that nobody is there who may take the job. */
function isRefusal(answer: Reduced["answer"]): boolean {
  return typeof answer === "object" && answer !== null && "ok" in answer && !answer.ok && answer.reason === "no_trusted_worker";
}

function isNoTrusted({ outcome }: JobEnd): boolean {
  return outcome.status === "failed" && outcome.cause === "no_trusted_worker";
}

function executionTime(job: LiveJob): number {
  return job.jobType === "TASK" ? TIMING.executeTask : TIMING.executeLlm;
}
