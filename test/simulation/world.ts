// The simulated instance: hub, database, workers and the network between them, and the counts of what happened.
import type { Tier } from "../../src/protocol/worker-messages.ts";
import type { JobFacts, Outcome } from "../../src/coordinator/dispatch/index.ts";
import { Agenda, START } from "./agenda.ts";
import { Chain } from "./chain.ts";
import { ChainReader } from "./chain-reader.ts";
import { Contexts } from "./contexts.ts";
import { Checks } from "./checks.ts";
import { Database } from "./database.ts";
import { Facilitator } from "./facilitator.ts";
import type { DownFrame, UpFrame } from "./frames.ts";
import { Hub } from "./hub.ts";
import { Market } from "./market.ts";
import { Models } from "./models.ts";
import { Money } from "./money.ts";
import { UNPAID } from "./paying-plan.ts";
import { Payloads } from "./payloads.ts";
import type { Plan } from "./plan.ts";
import { Random } from "./random.ts";
import { Seekers } from "./seekers.ts";
import { payloadBytesOf } from "./shares.ts";
import { Socket } from "./socket.ts";
import { SimulatedWorker } from "./simulated-worker.ts";

export type Core = typeof import("../../src/coordinator/dispatch/index.ts");

/** Counts of what happened in one or many histories. */
export class Stats {
  events = 0;
  alarms = 0;
  jobs = 0;
  accepted = 0;
  completed = 0;
  failed = 0;
  crashes = 0;
  evictions = 0;
  diskFailures = 0;
  breaks = 0;
  registrations = 0;
  paidRequests = 0;
  replays = 0;
  refusals = 0;
  settleCalls = 0;
  settlements = 0;
  credits = 0;
  evictedSettling = 0;
  queuedSettlements = 0;
  creditsSpent = 0;
  unresolved = 0;
  setAside = 0;
  orders = 0;
  findings = 0;
  settlingByRequest = 0;
  unknownOutcomes = 0;
  longUnknown = 0;
  tooLong = 0;
  noSuchModel = 0;
  full = 0;
  readonly causes = new Map<string, number>();
  /** Assignments, by the first letters of the worker's key. */
  readonly claims = new Map<string, number>();
  /** Completed jobs, by the attempt that completed them. */
  readonly completedIn = new Map<number, number>();
  /** When a key on probation was proven first, ms after the start. */
  readonly provenAfter = new Map<string, number>();

  /** How often a payment made each move. */
  readonly moves = new Map<string, number>();

  moved(move: string): void {
    this.moves.set(move, (this.moves.get(move) ?? 0) + 1);
  }

  claimed(key: string): void {
    const [name = ""] = /^[a-z]+/.exec(key) ?? [];
    this.claims.set(name, (this.claims.get(name) ?? 0) + 1);
  }

  ended(outcome: Outcome, attempts: number): void {
    if (outcome.status === "completed") {
      this.completed++;
      this.completedIn.set(attempts, (this.completedIn.get(attempts) ?? 0) + 1);
    } else {
      this.failed++;
      this.causes.set(outcome.cause, (this.causes.get(outcome.cause) ?? 0) + 1);
    }
  }

  add(other: Stats): void {
    for (const name of COUNTS) this[name] += other[name];
    for (const [move, count] of other.moves) this.moves.set(move, (this.moves.get(move) ?? 0) + count);
    for (const [cause, count] of other.causes) this.causes.set(cause, (this.causes.get(cause) ?? 0) + count);
  }
}

const COUNTS = [
  "events",
  "alarms",
  "jobs",
  "accepted",
  "completed",
  "failed",
  "crashes",
  "evictions",
  "diskFailures",
  "breaks",
  "registrations",
  "paidRequests",
  "replays",
  "refusals",
  "settleCalls",
  "settlements",
  "credits",
  "evictedSettling",
  "queuedSettlements",
  "creditsSpent",
  "unresolved",
  "setAside",
  "orders",
  "findings",
  "settlingByRequest",
  "unknownOutcomes",
  "longUnknown",
  "tooLong",
  "noSuchModel",
  "full",
] as const satisfies readonly (keyof Stats)[];

/** One simulated instance: a hub, its database, its workers and the network between them. */
export class World {
  readonly core: Core;
  readonly plan: Plan;
  readonly random: Random;
  readonly agenda = new Agenda(START);
  readonly stats = new Stats();
  readonly trace: ((line: string) => void) | null;
  readonly checks: Checks;
  readonly hub: Hub;
  readonly database: Database;
  readonly chain: Chain;
  readonly chainReader: ChainReader;
  readonly money: Money;
  readonly contexts: Contexts;
  readonly models: Models;
  readonly payloads: Payloads;
  readonly market: Market;
  readonly facilitator: Facilitator;
  readonly seekers: Seekers;
  readonly workers: SimulatedWorker[];
  readonly tiers = new Map<string, Tier>();
  readonly pairings = new Map<string, Set<string>>();
  readonly accepted = new Set<string>();
  readonly #facts = new Map<string, JobFacts>();
  /** Every job id that was ever submitted. */
  readonly known: string[] = [];
  /** Whether network, hub and database have stopped failing. */
  calm = false;
  readonly #sockets = new Map<string, { socket: Socket; worker: SimulatedWorker }>();
  #conns = 0;

  constructor(core: Core, plan: Plan, seed: number, trace: ((line: string) => void) | null) {
    this.core = core;
    this.plan = plan;
    this.random = new Random(seed + 0x5eed);
    this.trace = trace;
    this.checks = new Checks(this);
    this.hub = new Hub(this);
    this.database = new Database(this);
    const paying = plan.paying ?? UNPAID;
    this.chain = new Chain(paying.balances);
    this.chainReader = new ChainReader(this, seed);
    this.money = new Money(this, paying, seed);
    this.contexts = new Contexts(this);
    this.models = new Models(this, seed);
    this.payloads = new Payloads(this);
    this.market = new Market(this);
    this.facilitator = new Facilitator(this);
    this.seekers = new Seekers(this);
    for (const { key, tier } of plan.workers) this.tiers.set(key, tier);
    for (const [user, keys] of Object.entries(plan.pairings)) this.pairings.set(user, new Set(keys));
    this.workers = plan.workers.map((worker) => new SimulatedWorker(this, worker));
  }

  // --- network ---

  dial(worker: SimulatedWorker): Socket {
    const socket = new Socket(`c${++this.#conns}`, this.agenda.now);
    this.#sockets.set(socket.connId, { socket, worker });
    return socket;
  }

  /** A frame from a worker. It arrives after those before it, or never. */
  up(socket: Socket, frame: UpFrame): void {
    const { agenda, random, plan } = this;
    if (socket.silentAt <= agenda.now) {
      socket.delayed.push(() => this.up(socket, frame));
      return;
    }
    socket.upAt = Math.max(socket.upAt, agenda.now + random.between(1, plan.latency));
    agenda.at(socket.upAt, () => {
      if (agenda.now >= socket.brokenAt) return;
      // A socket that the hub closed may still deliver what was on the way.
      if (!socket.hubOpen && (socket.attachment === null || random.chance(0.5))) return;
      this.hub.receive(socket, frame);
    });
  }

  /** A frame from the hub. */
  down(connId: string, frame: DownFrame): void {
    const entry = this.#sockets.get(connId);
    if (entry === undefined) return;
    const { socket, worker } = entry;
    this.#downAt(socket, () => worker.receive(socket, frame));
  }

  /** The hub's end is closed: by the hub itself, or 1006 by its death. A word of the closing reaches the hub later. */
  closed(connId: string, code: number): void {
    const entry = this.#sockets.get(connId);
    if (entry === undefined) return;
    const { socket, worker } = entry;
    const { agenda, random } = this;
    if (code === 1006) agenda.after(random.between(0, 3_000), () => worker.closed(socket, code));
    else {
      this.#downAt(socket, () => worker.closed(socket, code));
      // A worker behind a broken line misses heartbeat answers instead.
      if (socket.brokenAt < Infinity) agenda.after(random.between(5_000, 35_000), () => worker.closed(socket, 1006));
      const attached = socket.attachment !== null;
      if (attached && random.chance(0.7)) agenda.after(random.between(0, 2_000), () => this.hub.lost(socket));
    }
  }

  #downAt(socket: Socket, run: () => void): void {
    const { agenda, random, plan } = this;
    socket.downAt = Math.max(socket.downAt, agenda.now + random.between(1, plan.latency));
    agenda.at(socket.downAt, () => {
      if (agenda.now >= socket.brokenAt || !socket.workerOpen) return;
      if (agenda.now >= socket.silentAt) socket.delayed.push(run);
      else run();
    });
  }

  /** The worker closes, or its process is gone: what it sent before still arrives, then the hub hears of the end. */
  hangUp(socket: Socket): void {
    const { agenda, random, plan } = this;
    socket.workerOpen = false;
    socket.upAt = Math.max(socket.upAt, agenda.now + random.between(1, plan.latency));
    agenda.at(socket.upAt, () => {
      if (socket.hubOpen && agenda.now < socket.brokenAt) this.hub.lost(socket);
    });
  }

  /** The line breaks: a suffix of both directions is lost, and each end notices in its own time, the hub perhaps never. */
  snap(socket: Socket, halfOpen: boolean): void {
    const { agenda, random } = this;
    if (agenda.now >= socket.brokenAt) return;
    this.stats.breaks++;
    this.trace?.(`${socket.connId} breaks${halfOpen ? ", half-open" : ""}`);
    socket.brokenAt = agenda.now;
    const worker = this.#sockets.get(socket.connId)?.worker;
    agenda.after(halfOpen ? random.between(1_000, 35_000) : random.between(0, 500), () => worker?.closed(socket, 1006));
    // When the hub never notices, its sweep must.
    if (halfOpen && random.chance(0.5)) return;
    agenda.after(halfOpen ? random.between(1_000, 35_000) : random.between(0, 1_000), () => {
      if (socket.hubOpen) this.hub.lost(socket);
    });
  }

  // --- seekers ---

  submit(job: Plan["jobs"][number], triesLeft = 3): void {
    const { agenda, random } = this;
    const { id, jobType, policy, privacyClass, userId } = job;
    const facts = this.submitted({ id, jobType, policy, privacyClass, userId });
    this.hub.submit(facts, (said) => {
      if (said === "accepted") this.accepted.add(id);
      if (said !== "lost") return;
      // The router tries again; so may a client with an idempotency key.
      if (triesLeft > 1) agenda.after(random.between(50, 2_000), () => this.submit(job, triesLeft - 1));
    });
  }

  /** What the hub is told of a job that is submitted now. */
  submitted(job: Pick<JobFacts, "id" | "jobType" | "policy" | "privacyClass" | "userId">): JobFacts {
    const { userId } = job;
    const trustedKeys = job.privacyClass === "PRIVATE" ? [...(this.pairings.get(userId) ?? [])] : [];
    const facts: JobFacts = {
      ...job,
      ...this.models.wantedBy(job.id, job.jobType),
      trustedKeys,
      payloadBytes: payloadBytesOf(job.id, this.plan.settings),
      createdAt: this.agenda.now,
      network: this.market.networkOfUser(userId),
    };
    if (!this.#facts.has(facts.id)) this.known.push(facts.id);
    this.#facts.set(facts.id, facts);
    return facts;
  }

  /** A job's end is stored. */
  ended(jobId: string, outcome: Outcome, attempts: number): void {
    this.stats.ended(outcome, attempts);
    const request = this.money.request(jobId);
    if (request !== undefined && outcome.status === "failed" && outcome.cause !== "no_trusted_worker") this.seekers.failed(request);
  }

  /** What the last submit of this job said. */
  jobFacts(id: string): JobFacts | undefined {
    return this.#facts.get(id);
  }

  pair(userId: string, key: string): void {
    const keys = this.pairings.get(userId) ?? new Set();
    keys.add(key);
    this.pairings.set(userId, keys);
    this.hub.paired(userId, key);
  }
}
