// One of several hubs: the real dispatch core, a disk, a line of requests that it serves one by one, and the moves of waiting jobs from and to other hubs.
import {
  createState,
  type DispatchEvent,
  type DispatchSettings,
  type DispatchState,
  type JobFacts,
  NEW_KEY,
  isIdle,
  nextDue,
  reduce,
  restore,
  type RowChange,
  type SavedJob,
  type Send,
  snapshotOf,
} from "../../../src/coordinator/dispatch/index.ts";
import { QUEUE_SIZE } from "../../support/queue-size.ts";
import { checkIndexes } from "../indexes.ts";
import type { Cluster } from "./cluster.ts";

/** What the disk of a hub has of a job. `moving`: it was given to another hub, which has not said yet that it has it; no worker of this hub may get it. */
type Row =
  | { kind: "live"; saved: SavedJob }
  | { kind: "moving"; saved: SavedJob; to: number; move: string }
  | { kind: "moved"; to: number }
  | { kind: "ended" };

/** A job on its way to another hub. Each move has a name of its own, so that a late delivery of an earlier one can be told from it. */
export type Move = { move: string; saved: SavedJob };

/** What a hub posts on the board: idle workers and waiting jobs. */
export type Load = { idle: number; waiting: number };

const RULES: DispatchSettings = { stake: false, receiptPolicy: "strict", queue: QUEUE_SIZE, clientShares: false, settlements: 4, chain: false };
const POOL = "TASK";
/** A commit of the disk on the platform, ms: what was decided leaves the hub so much later. */
const GATE = 10;
/** What a hub needs for one request, ms: the platform names 200 to 500 requests a second for an object that writes, and 1,000 for one that does not. */
export const COST = { write: 2, read: 1 } as const;
const BOOT = 1_000;
const ASK_AGAIN = 2_000;
/** So many jobs move with one request. */
const BATCH = 4;

/** A hub of a cluster. */
export class ClusterHub {
  readonly index: number;
  readonly #world: Cluster;
  readonly disk = new Map<string, Row>();
  /** Moves to this hub that it has taken, and those that it has refused for ever. */
  readonly #taken = new Set<string>();
  readonly #refused = new Set<string>();
  state: DispatchState = createState(RULES);
  isUp = true;
  /** ms of work so far, and until when the requests that are here keep it busy. */
  worked = 0;
  #busyUntil = 0;
  #boot = 0;
  #asking = false;
  #moves = 0;
  #alarmAt: number | null = null;
  #posted: Load = { idle: 0, waiting: 0 };

  constructor(world: Cluster, index: number) {
    this.#world = world;
    this.index = index;
  }

  /** Serves a request in its turn. While the hub is down, and if it dies before the turn, the request is lost. */
  serve(cost: number, run: () => void): void {
    if (!this.isUp) return;
    const { agenda } = this.#world;
    const boot = this.#boot;
    this.#busyUntil = Math.max(this.#busyUntil, agenda.now) + cost;
    this.worked += cost;
    agenda.at(this.#busyUntil, () => {
      if (this.isUp && boot === this.#boot) run();
    });
  }

  /** Sends something after what was decided is on the disk. If the hub dies before, it is never sent. */
  after(run: () => void): void {
    const boot = this.#boot;
    this.#world.agenda.after(GATE, () => {
      if (this.isUp && boot === this.#boot) run();
    });
  }

  /** Stores a job; `told` hears when it is durable. The same commit again changes nothing. */
  commit(facts: JobFacts, told: () => void): void {
    this.serve(COST.write, () => {
      if (!this.disk.has(facts.id)) this.apply({ type: "submit", job: { ...facts, createdAt: this.#world.agenda.now } });
      // A PRIVATE job may be refused; that is an answer too.
      this.after(told);
    });
  }

  /** Applies an event to the core, writes its rows, and sends its frames. */
  apply(event: DispatchEvent): void {
    const { now } = this.#world.agenda;
    const { rows, sends } = reduce(this.state, event, { now, lastSeen: () => now, storedCredits: () => [] });
    for (const row of rows) this.#write(row);
    for (const send of sends) this.#send(send);
    this.#arm();
    this.#askForWork();
  }

  /** A result of a job that this hub does not have: it is known here where the job went, or how it ended. */
  lateResult(key: string, jobId: string, attempt: number, answer: () => void): void {
    const row = this.disk.get(jobId);
    if (row?.kind === "moving" || row?.kind === "moved") {
      const { to } = row;
      this.after(() => this.#world.rpc(to, (hub) => hub.serve(COST.write, () => hub.#relayed(key, jobId, attempt, answer))));
      return;
    }
    this.after(answer);
  }

  /** A result that arrived at another hub. Its worker is not connected here: it is let in without any capability, for this one frame. */
  #relayed(key: string, jobId: string, attempt: number, answer: () => void): void {
    if (!this.state.jobs.has(jobId)) return this.lateResult(key, jobId, attempt, answer);
    if (this.state.workers.has(key)) return;
    const connId = `relay-${key}`;
    const capabilities = new Set<"TASK">();
    const worker = { capabilities, tier: "Open", acks: true, network: key, authenticated: true, record: NEW_KEY, lastUsedAt: 0, resume: undefined } as const;
    this.apply({ type: "register", connId, key, ...worker });
    this.apply({ type: "complete", connId, jobId, attempt, verdict: "valid" });
    this.apply({ type: "disconnect", connId });
    this.after(answer);
  }

  // ── Moves ─────────────────────────────────────────────────────────────────────────────────────

  /** If a worker is idle here and jobs wait at another hub, asks that hub for some. One question at a time. */
  #askForWork(): void {
    if (this.#asking || this.#world.hubs.length === 1) return;
    const { idle, waiting } = this.load;
    const from = idle > 0 && waiting === 0 ? this.#world.fullest(this.index) : null;
    if (from === null) return;
    this.#asking = true;
    const most = Math.min(idle, BATCH);
    // The answer may be lost.
    this.#world.agenda.after(ASK_AGAIN, () => (this.#asking = false));
    this.#world.rpc(from, (hub) => hub.serve(COST.write, () => hub.#give(this.index, most)));
  }

  /** Gives the first waiting jobs to another hub: on this disk they are `moving` before they leave. */
  #give(to: number, most: number): void {
    const moves: Move[] = [];
    const next = () => this.state.waiting.get(POOL)?.first();
    for (let first = next(); first !== undefined && moves.length < most; first = next()) {
      const row = this.disk.get(first.id);
      if (row?.kind !== "live") break;
      const move = { move: `${this.index}.${this.#boot}.${this.#moves++}`, saved: row.saved };
      this.#forget(first.id);
      if (this.#world.bug !== "gives without a note") this.#set(first.id, { kind: "moving", saved: row.saved, to, move: move.move });
      moves.push(move);
    }
    this.after(() => this.#world.rpc(to, (hub) => hub.serve(COST.write, () => hub.#receive(this.index, moves))));
    for (const { move, saved } of moves) this.#askLater(saved.facts.id, move);
  }

  #receive(from: number, moves: readonly Move[]): void {
    this.#asking = false;
    for (const { move, saved } of moves) {
      if (this.#refused.has(move) || this.#taken.has(move)) continue;
      this.#taken.add(move);
      this.#world.stats.moved++;
      this.#takeIn(saved);
    }
    this.after(() => this.#world.rpc(from, (hub) => hub.serve(COST.write, () => moves.forEach(({ move, saved }) => hub.#handedOver(saved.facts.id, move)))));
    this.#askForWork();
  }

  #handedOver(id: string, move: string): void {
    const row = this.disk.get(id);
    if (row?.kind === "moving" && row.move === move) this.#set(id, { kind: "moved", to: row.to });
  }

  /** While it is not known whether a job has arrived, the hub that was to get it is asked. Its answer holds for ever. */
  #askLater(id: string, move: string): void {
    const boot = this.#boot;
    this.#world.agenda.after(ASK_AGAIN, () => {
      const row = this.disk.get(id);
      if (boot !== this.#boot || !this.isUp || row?.kind !== "moving" || row.move !== move) return;
      this.#world.rpc(row.to, (hub) => hub.serve(COST.write, () => hub.#hasMove(this.index, id, move)));
      this.#askLater(id, move);
    });
  }

  #hasMove(from: number, id: string, move: string): void {
    const has = this.#taken.has(move);
    if (!has && this.#world.bug !== "does not refuse for ever") this.#refused.add(move);
    this.after(() => this.#world.rpc(from, (hub) => hub.serve(COST.write, () => (has ? hub.#handedOver(id, move) : hub.#takeBack(id, move)))));
  }

  #takeBack(id: string, move: string): void {
    const row = this.disk.get(id);
    if (row?.kind === "moving" && row.move === move) this.#takeIn(row.saved);
  }

  /** Makes a job wait here, with everything that has happened to it. */
  #takeIn(saved: SavedJob): void {
    const { id } = saved.facts;
    this.#set(id, { kind: "live", saved });
    restore(this.state, [saved], this.#world.agenda.now);
    const idle = [...this.state.workers.values()].find((worker) => worker.jobId === null && worker.capabilities.has(POOL));
    // The core offers jobs to a worker that changes.
    if (idle !== undefined) this.apply({ type: "update", connId: idle.connId, capabilities: idle.capabilities, acks: idle.acks });
    this.#arm();
  }

  /** Takes a waiting job out of the core without an end. */
  #forget(id: string): void {
    const { now } = this.#world.agenda;
    reduce(this.state, { type: "cancel", jobId: id }, { now, lastSeen: () => now, storedCredits: () => [] });
  }

  // ── Disk, death, time ─────────────────────────────────────────────────────────────────────────

  #write(row: RowChange): void {
    switch (row.type) {
      case "insert":
      case "save": {
        const job = this.state.jobs.get(row.type === "insert" ? row.job.id : row.jobId);
        if (job === undefined) return;
        const { id, jobType, policy, privacyClass, userId, trustedKeys, payloadBytes, createdAt, network } = job;
        const facts = { id, jobType, policy, privacyClass, userId, trustedKeys, payloadBytes, createdAt, network };
        return this.#set(id, { kind: "live", saved: { facts, rev: job.rev, snapshot: snapshotOf(job) } });
      }
      case "ended":
        this.#set(row.jobId, { kind: "ended" });
        return this.#world.ended(this.index, row);
      case "record":
        return void this.#world.records.set(row.key, row.record);
      case "model":
      case "save_payment":
      case "drop_payment":
        return;
      default:
        row satisfies never;
    }
  }

  #set(id: string, row: Row): void {
    this.disk.set(id, row);
    this.#world.owns(this.index, id, row.kind === "live");
  }

  #send(send: Send): void {
    if (send.type === "drained" || send.type === "parked") return;
    this.after(() => this.#world.down(send));
  }

  /** Everything in memory is gone, every socket is closed, and a moment later the hub starts from its disk. */
  crash(): void {
    if (!this.isUp) return;
    this.isUp = false;
    this.#boot++;
    this.#world.stats.crashes++;
    this.#world.closeAll(this.index);
    this.#world.agenda.after(BOOT, () => {
      this.isUp = true;
      this.#busyUntil = 0;
      this.#asking = false;
      this.#alarmAt = null;
      this.state = createState(RULES);
      const saved = [...this.disk.values()].flatMap((row) => (row.kind === "live" ? [row.saved] : []));
      restore(this.state, saved, this.#world.agenda.now);
      for (const [id, row] of this.disk) if (row.kind === "moving" && this.#world.bug !== "forgets its moves") this.#askLater(id, row.move);
      this.apply({ type: "restored", damaged: [] });
      this.apply({ type: "sockets_restored" });
    });
  }

  #arm(): void {
    const due = nextDue(this.state);
    if (due === null || (this.#alarmAt !== null && this.#alarmAt <= due)) return;
    const boot = this.#boot;
    this.#alarmAt = due;
    this.#world.agenda.at(due, () => {
      if (boot !== this.#boot || this.#alarmAt !== due) return;
      this.#alarmAt = null;
      this.serve(COST.write, () => this.apply({ type: "time" }));
    });
  }

  /** Idle workers and waiting jobs. */
  get load(): Load {
    let idle = 0;
    for (const worker of this.state.workers.values()) if (isIdle(worker) && worker.pools.has(POOL)) idle++;
    return { idle, waiting: this.state.waiting.get(POOL)?.size ?? 0 };
  }

  /** Posts its load on the board, if it has changed; the board answers with that of the others. */
  post(): void {
    const { load } = this;
    if (load.idle === this.#posted.idle && load.waiting === this.#posted.waiting) return this.#askForWork();
    this.#posted = load;
    this.serve(COST.read, () => this.after(() => this.#world.posted(this.index, load)));
    this.#askForWork();
  }

  check(): void {
    checkIndexes(this.state);
  }
}
