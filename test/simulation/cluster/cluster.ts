// Several hubs behind one wire, in simulated time: routers, workers, the board on which hubs post their load, faults, and what must hold for all of them
// together. docs/scaling.md describes the design that is tried here.
import type { JobEnd, JobFacts, KeyRecord, Send } from "../../../src/coordinator/dispatch/index.ts";
import { Agenda, START } from "../agenda.ts";
import { Random } from "../random.ts";
import { broken, Violation } from "../violation.ts";
import { ClusterHub, COST, type Load } from "./hub.ts";
import { ClusterWorker } from "./worker.ts";

/** What to try: jobs per second for `seconds`, then calm until everything has ended. */
export type ClusterPlan = {
  seed: number;
  hubs: number;
  workers: number;
  rate: number;
  seconds: number;
  /** The part of the workers that are at home at the first quarter of the hubs, whatever their key says. */
  skew: number;
  /** Crashes of a hub, and breaks of a line, per second of all together; and the part of the requests between hubs that are lost or late. */
  faults: { crashes: number; breaks: number; lost: number };
  /** Milliseconds of work, on average. */
  execute: number;
  bug?: Bug;
};

/** What the invariants must find. */
export const BUGS = ["gives without a note", "does not refuse for ever", "forgets its moves"] as const;
export type Bug = (typeof BUGS)[number];

/** What happened. Latencies are from the commit of a job to its assignment at a worker, ms. */
export class ClusterStats {
  accepted = 0;
  completed = 0;
  failed = 0;
  moved = 0;
  crashes = 0;
  lost = 0;
  /** Jobs completed before the calm. */
  inTime = 0;
  readonly latencies: number[] = [];
  /** Jobs that ended at each hub. */
  readonly endedAt: number[] = [];
  /** The part of the time that each hub worked. */
  readonly busy: number[] = [];
}

const POST = 250;
const PRIVATE_SHARE = 0.1;
const AGAIN_SHARE = 0.05;
const CALM = 240_000;

/** A cluster of hubs. */
export class Cluster {
  readonly plan: ClusterPlan;
  readonly agenda = new Agenda(START);
  readonly random: Random;
  readonly stats = new ClusterStats();
  readonly hubs: ClusterHub[];
  readonly workers: ClusterWorker[];
  readonly conns = new Map<string, ClusterWorker>();
  /** What the home of each key remembers of it. */
  readonly records = new Map<string, KeyRecord>();
  readonly bug: Bug | undefined;
  readonly #board: Load[];
  readonly #owner = new Map<string, number>();
  readonly #facts = new Map<string, { facts: JobFacts; at: number }>();
  readonly #accepted = new Set<string>();
  readonly #ends = new Map<string, JobEnd>();
  readonly #assigned = new Map<string, Set<string>>();
  #isCalm = false;

  constructor(plan: ClusterPlan) {
    this.plan = plan;
    this.bug = plan.bug;
    this.random = new Random(plan.seed);
    this.hubs = Array.from({ length: plan.hubs }, (_, index) => new ClusterHub(this, index));
    this.#board = this.hubs.map(() => ({ idle: 0, waiting: 0 }));
    const quarter = Math.max(1, Math.floor(plan.hubs / 4));
    this.workers = Array.from({ length: plan.workers }, (_, n) => {
      const key = `w${n}`;
      return new ClusterWorker(this, key, n < plan.skew * plan.workers ? n % quarter : homeOf(key, plan.hubs));
    });
  }

  // ── The network ───────────────────────────────────────────────────────────────────────────────

  /** Something on the way between a client or a worker and a hub. */
  wire(run: () => void): void {
    this.agenda.after(this.random.between(5, 25), run);
  }

  /** A request to a hub, or its answer. It may be lost, or be late. */
  rpc(to: number, run: (hub: ClusterHub) => void): void {
    const isTroubled = !this.#isCalm && this.random.chance(this.plan.faults.lost);
    if (isTroubled) this.stats.lost++;
    if (isTroubled && this.random.chance(0.5)) return;
    // What is not lost may be very late: later than the question whether it has arrived, and its answer.
    this.agenda.after(isTroubled ? this.random.between(1_000, 6_000) : this.random.between(2, 15), () => {
      const hub = this.hubs[to];
      if (hub?.isUp === true) run(hub);
    });
  }

  /** A frame for a worker. */
  down(send: Send): void {
    const worker = this.conns.get(send.connId);
    if (worker === undefined) return;
    if (send.type === "assign") this.#noteAssign(worker, send.jobId);
    // Frames of one socket keep their order.
    worker.downAt = Math.max(worker.downAt, this.agenda.now + this.random.between(5, 25));
    this.agenda.at(worker.downAt, () => {
      if (worker.connId !== send.connId) return;
      if (send.type === "assign" && send.attempt === 1) this.stats.latencies.push(this.agenda.now - (this.#facts.get(send.jobId)?.at ?? 0));
      worker.receive(send);
    });
  }

  closeAll(hub: number): void {
    for (const worker of this.workers) if (worker.home === hub) worker.closed();
  }

  // ── The board ─────────────────────────────────────────────────────────────────────────────────

  posted(hub: number, load: Load): void {
    this.agenda.after(this.random.between(2, 15), () => (this.#board[hub] = load));
  }

  /** The hub with the most waiting jobs, as the board has it; null if none waits. */
  fullest(but: number): number | null {
    let best: number | null = null;
    for (const [index, { waiting }] of this.#board.entries()) {
      if (index !== but && waiting > (best === null ? 0 : (this.#board[best]?.waiting ?? 0))) best = index;
    }
    return best;
  }

  // ── What must hold ────────────────────────────────────────────────────────────────────────────

  /** C2: at each moment at most one hub has a job so that it may give it to a worker. */
  owns(hub: number, id: string, live: boolean): void {
    const owner = this.#owner.get(id);
    if (live && owner !== undefined && owner !== hub) broken("C2", `${id} is live at hubs ${owner} and ${hub}`);
    if (live) this.#owner.set(id, hub);
    else if (owner === hub) this.#owner.delete(id);
  }

  /** C1: one end. C5: only a worker that held the job completes it. */
  ended(hub: number, end: JobEnd): void {
    const { jobId, outcome } = end;
    if (this.#ends.has(jobId)) broken("C1", `${jobId} ends twice, now at hub ${hub}`);
    this.#ends.set(jobId, end);
    this.stats.endedAt[hub] = (this.stats.endedAt[hub] ?? 0) + 1;
    if (outcome.status === "completed") {
      this.stats.completed++;
      if (!this.#isCalm) this.stats.inTime++;
      if (this.#assigned.get(jobId)?.has(outcome.key) !== true) broken("C5", `${jobId} is completed by ${outcome.key}, which never had it`);
    } else {
      this.stats.failed++;
      const { createdAt = 0 } = this.#facts.get(jobId)?.facts ?? {};
      if (outcome.cause === "no_eligible_worker" && this.agenda.now < createdAt + 30_000) broken("I7", `${jobId} fails before its window ends`);
    }
  }

  /** C4: a PRIVATE job only on a worker that its user has paired. */
  #noteAssign(worker: ClusterWorker, jobId: string): void {
    const { facts } = this.#facts.get(jobId) ?? {};
    if (facts?.privacyClass === "PRIVATE" && !facts.trustedKeys.includes(worker.key)) broken("C4", `${jobId} goes to ${worker.key}`);
    this.#assigned.set(jobId, (this.#assigned.get(jobId) ?? new Set()).add(worker.key));
  }

  /** C6: what was accepted has ended. C7: who knows only the id finds the end. I9: nobody is busy. And every index of every hub is right. */
  #checkRest(): void {
    for (const id of this.#accepted) {
      if (!this.#ends.has(id)) broken("C6", `${id} was accepted and has not ended`);
      let at = hubOf(id);
      for (let hops = 0; this.hubs[at]?.disk.get(id)?.kind !== "ended"; hops++) {
        const row = this.hubs[at]?.disk.get(id);
        if (row?.kind !== "moved" || hops > this.plan.hubs) broken("C7", `the way to ${id} ends at hub ${at}, where it is ${row?.kind ?? "unknown"}`);
        at = row.to;
      }
    }
    for (const worker of this.workers) if (worker.isBusy) broken("I9", `${worker.key} is busy at rest`);
    for (const hub of this.hubs) hub.check();
  }

  // ── A run ─────────────────────────────────────────────────────────────────────────────────────

  /** A commit: the router chooses the hub, and tries again until it has an answer. */
  #commit(number: number): void {
    const { random } = this;
    const isPrivate = random.chance(PRIVATE_SHARE);
    const trusted = isPrivate ? [random.pick(this.workers), random.pick(this.workers)] : [];
    // A PRIVATE job is at home where one of its workers is.
    const hub = isPrivate
      ? this.#better(...(trusted.map(({ home }) => home) as [number, number]))
      : this.#better(random.between(0, this.hubs.length - 1), random.between(0, this.hubs.length - 1));
    const id = jobIdOf(number, hub, random);
    const facts: JobFacts = {
      ...{ id, jobType: "TASK", policy: random.chance(0.5) ? "FAST" : "CHEAP", privacyClass: isPrivate ? "PRIVATE" : "PUBLIC", userId: `u${number % 50}` },
      ...{
        trustedKeys: trusted.filter(({ home }) => home === hub).map(({ key }) => key),
        payloadBytes: 100,
        createdAt: this.agenda.now,
        network: `n${number % 50}`,
      },
    };
    this.#facts.set(id, { facts, at: this.agenda.now });
    const send = (): void => {
      this.wire(() =>
        this.hubs[hub]?.commit(facts, () => {
          if (!this.#accepted.has(id)) this.stats.accepted++;
          this.#accepted.add(id);
        }),
      );
      this.agenda.after(2_000, () => {
        if (!this.#accepted.has(id)) send();
      });
    };
    send();
    if (random.chance(AGAIN_SHARE)) send();
    // Its poll.
    this.agenda.after(this.plan.execute * 2, () => this.wire(() => this.hubs[hub]?.serve(COST.read, () => {})));
  }

  /** Of two hubs the one with an idle worker, or else the one where fewer jobs wait, as the board has it. The router counts what it sends there meanwhile. */
  #better(one: number, other: number): number {
    const [a = { idle: 0, waiting: 0 }, b = { idle: 0, waiting: 0 }] = [this.#board[one], this.#board[other]];
    const chosen = a.waiting - a.idle <= b.waiting - b.idle ? one : other;
    const { idle, waiting } = this.#board[chosen] ?? { idle: 0, waiting: 0 };
    this.#board[chosen] = idle > 0 ? { idle: idle - 1, waiting } : { idle, waiting: waiting + 1 };
    return chosen;
  }

  /** Runs the plan. @throws {Violation} */
  run(): ClusterStats {
    const { plan, agenda, random } = this;
    for (const worker of this.workers) agenda.after(random.between(0, 1_000), () => worker.connect());
    for (const [index, hub] of this.hubs.entries()) {
      const post = (): void => {
        if (hub.isUp) hub.post();
        agenda.after(POST, post);
      };
      agenda.after((index * POST) / this.hubs.length, post);
    }
    const begin = 3_000;
    for (let n = 0; n < plan.rate * plan.seconds; n++) agenda.after(begin + (n * 1_000) / plan.rate, () => this.#commit(n));
    for (let n = 0; n < plan.faults.crashes * plan.seconds; n++)
      agenda.after(begin + random.between(0, plan.seconds * 1_000), () => random.pick(this.hubs).crash());
    for (let n = 0; n < plan.faults.breaks * plan.seconds; n++)
      agenda.after(begin + random.between(0, plan.seconds * 1_000), () => random.pick(this.workers).snap());
    agenda.runUntil(START + begin);
    const before = this.hubs.map(({ worked }) => worked);
    agenda.runUntil(START + begin + plan.seconds * 1_000);
    this.stats.busy.push(...this.hubs.map(({ worked }, index) => Math.min(1, (worked - (before[index] ?? 0)) / (plan.seconds * 1_000))));
    this.#isCalm = true;
    agenda.runUntil(agenda.now + CALM);
    this.#checkRest();
    return this.stats;
  }
}

/** Runs a plan; the violation, if one was found, instead of an error. */
export function runCluster(plan: ClusterPlan): { stats: ClusterStats; violation: Violation | null } {
  const cluster = new Cluster(plan);
  try {
    return { stats: cluster.run(), violation: null };
  } catch (error) {
    if (error instanceof Violation) return { stats: cluster.stats, violation: error };
    throw error;
  }
}

/** The home of a key, by the highest hash of key and hub: if a hub is added, only the keys that move there have another home. */
export function homeOf(key: string, hubs: number): number {
  let best = 0;
  let highest = -1;
  for (let hub = 0; hub < hubs; hub++) {
    const score = new Random(hash(`${key} ${hub}`)).next();
    if (score > highest) [best, highest] = [hub, score];
  }
  return best;
}

function hash(text: string): number {
  let value = 0x81_1c_9d_c5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01_00_01_93);
  return value >>> 0;
}

/** A UUID of version 8 whose last byte names the hub. */
function jobIdOf(number: number, hub: number, random: Random): string {
  const hex = (digits: number, value: number): string => value.toString(16).padStart(digits, "0").slice(-digits);
  return `${hex(8, random.between(0, 0xffff_ffff))}-0000-8000-8000-${hex(10, number)}${hex(2, hub)}`;
}

/** The hub where a job was committed. */
function hubOf(id: string): number {
  return Number.parseInt(id.slice(-2), 16);
}
