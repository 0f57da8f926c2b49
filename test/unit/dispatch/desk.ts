// The desk of the dispatch tests: a state, a clock that the test moves, and short words for events.
import type { JobType } from "../../../src/protocol/job.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import type { Tier } from "../../../src/protocol/worker-messages.ts";
import {
  type Answer,
  balanceOf,
  createState,
  type DispatchEvent,
  type DispatchSettings,
  type DispatchState,
  type Finding,
  type JobFacts,
  type KeyRecord,
  NEW_KEY,
  nextDue,
  type OrderVerb,
  ownerOf,
  type Payment,
  type PaymentFacts,
  quarantined,
  reduce,
  type Reduced,
  restore,
  restorePayments,
  type RowChange,
  type Send,
  type Settlement,
  Snapshot,
  snapshotOf,
  statusOf,
} from "../../../src/coordinator/dispatch/index.ts";
import { QUEUE_SIZE } from "../../support/queue-size.ts";

export const START = 1_000_000;

type WorkerOptions = {
  capabilities?: readonly JobType[];
  tier?: Tier;
  acks?: boolean;
  context?: number;
  contexts?: ReadonlyMap<string, number>;
  models?: readonly string[];
  chats?: boolean;
  lastUsedAt?: number;
  resume?: readonly { jobId: string; attempt: number }[];
  strikes?: number;
  /** Its network; left out for one of its own. */
  network?: string;
  /** Left out, it signed its registration. */
  authenticated?: boolean;
  publicOnly?: boolean;
  /** What is stored of its key; left out, the key is proven. */
  record?: Partial<KeyRecord>;
  draining?: boolean;
  registeredAt?: number;
};

/** Dispatch on a desk: a state, a clock that is moved by hand, and short words for its events. */
export class Desk {
  state: DispatchState;
  now = START;
  readonly settings: DispatchSettings;
  /** How each job ended: `completed w`, `failed cause`. */
  readonly ends = new Map<string, string>();
  /** Every row of the ledger, the done ones too, as the store has it. */
  readonly rows = new Map<string, Payment>();
  readonly #seen = new Map<string, number>();
  readonly #sockets = new Map<string, number>();

  constructor(settings: Partial<DispatchSettings> = {}) {
    this.settings = { stake: false, receiptPolicy: "strict", queue: QUEUE_SIZE, settlements: 4, chain: false, clientShares: true, ...settings };
    this.state = createState(this.settings);
  }

  tell(event: DispatchEvent): Reduced {
    const told = reduce(this.state, event, { now: this.now, lastSeen: (connId) => this.#seen.get(connId) ?? this.now, storedCredits: this.#storedCredits });
    for (const row of told.rows) {
      if (row.type === "save_payment") this.rows.set(row.payment.key, row.payment);
      if (row.type === "drop_payment") this.rows.delete(row.key);
      if (row.type !== "ended") continue;
      const { outcome } = row;
      const said = outcome.status === "failed" && outcome.message !== undefined ? `: ${outcome.message}` : "";
      this.ends.set(row.jobId, outcome.status === "completed" ? `completed ${outcome.key}` : `failed ${outcome.cause}${said}`);
    }
    return told;
  }

  readonly #storedCredits = (owned: Pick<Payment, "payer" | "key">): Payment[] =>
    [...this.rows.values()].filter((row) => row.credit !== undefined && ownerOf(row) === ownerOf(owned)).map((row) => ({ ...row }));

  /** Registers `key` on a new socket, `key#1`, `key#2`, and so on. */
  register(
    key: string,
    {
      capabilities = ["LLM_INFER", "TASK"],
      tier = "Sentinel",
      acks = true,
      context,
      contexts,
      models,
      chats,
      lastUsedAt = 0,
      resume,
      strikes = 0,
      network = `net ${key}`,
      authenticated = true,
      publicOnly = false,
      record: stored = { completed: 3 },
      draining,
      registeredAt,
    }: WorkerOptions = {},
  ): Reduced {
    const number = (this.#sockets.get(key) ?? 0) + 1;
    this.#sockets.set(key, number);
    const record = { ...NEW_KEY, strikes, ...stored };
    const who = { key, network, authenticated, publicOnly, record };
    const more = {
      ...(draining !== undefined && { draining }),
      ...(registeredAt !== undefined && { registeredAt }),
      ...(context !== undefined && { context }),
      ...(contexts !== undefined && { contexts }),
      ...(models !== undefined && { models }),
      ...(chats !== undefined && { chats }),
    };
    return this.tell({ type: "register", connId: `${key}#${number}`, ...who, capabilities: new Set(capabilities), tier, acks, lastUsedAt, resume, ...more });
  }

  submit(id: string, facts: Partial<JobFacts> = {}): Reduced {
    return this.tell({ type: "submit", job: { ...this.#facts(id), ...facts } });
  }

  #facts(id: string): JobFacts {
    return {
      id,
      jobType: "TASK",
      policy: "CHEAP",
      privacyClass: "PUBLIC",
      userId: "ann",
      trustedKeys: [],
      payloadBytes: 10,
      createdAt: this.now,
      network: "seekers",
    };
  }

  /** Reserves payment `key` for job `id`, as the router does before it has it verified. */
  reserve(key: string, id: string, payment: Partial<PaymentFacts> = {}, facts: Partial<JobFacts> = {}): Reduced {
    const base = { key, digest: `digest ${key}`, binding: "body", payer: "pam", asset: "usdc", amount: "1000", expiresAt: this.now + 300_000 };
    const stored = this.rows.get(key) ?? null;
    return this.tell({ type: "reserve", payment: { ...base, ...payment }, job: { ...this.#facts(id), ...facts }, stored });
  }

  /** Submits job `id` with a verified payment. */
  buy(key: string, id: string, payer: string | null = "pam", facts: Partial<JobFacts> = {}, byRequest = false): Reduced {
    return this.tell({ type: "submit", job: { ...this.#facts(id), ...facts }, payment: { key, payer, stored: this.rows.get(key) ?? null, byRequest } });
  }

  /** Reserve and submit in one. */
  pay(key: string, id: string, payment: Partial<PaymentFacts> = {}, facts: Partial<JobFacts> = {}): Reduced[] {
    return [this.reserve(key, id, payment, facts), this.buy(key, id, payment.payer === undefined ? "pam" : payment.payer, facts)];
  }

  settled(key: string, settlement: Settlement = { kind: "settled", transaction: `tx ${key}` }): Reduced {
    const by = this.state.ledger.settlingByRequest.has(key) ? "request" : "hub";
    return this.tell({ type: "settled", key, settlement, by, stored: this.rows.get(key) ?? null });
  }

  /** The operator's order about a payment. */
  order(key: string, verb: OrderVerb): Reduced {
    return this.tell({ type: "order", key, verb, stored: this.rows.get(key) ?? null });
  }

  /** The chain's word about a payment. */
  found(key: string, finding: Finding): Reduced {
    return this.tell({ type: "chain", key, finding, stored: this.rows.get(key) ?? null });
  }

  /** The phase of a payment as it is stored: `held`, `void refused`, `gone`. */
  money(key: string): string {
    const phase = this.rows.get(key)?.phase;
    if (phase === undefined) return "gone";
    if (phase.kind === "spent" && phase.by !== undefined) return `spent by ${phase.by}`;
    return phase.kind === "void" || phase.kind === "unresolved" ? `${phase.kind} ${phase.reason}` : phase.kind;
  }

  /** What the payer can spend. */
  balance(payer = "pam", asset = "usdc"): number {
    return Number(balanceOf(this.state.ledger, { key: "", payer, asset }, this.#storedCredits));
  }

  /** Lets time pass, and tells it only when it was asked for, as the alarm does. Returns all that followed. */
  pass(ms: number): Reduced[] {
    const told: Reduced[] = [];
    const end = this.now + ms;
    for (let due = nextDue(this.state); due !== null && due <= end; due = nextDue(this.state)) {
      this.now = Math.max(this.now, due);
      told.push(this.tell({ type: "time" }));
    }
    this.now = end;
    return told;
  }

  /** From now on this socket is not heard any more. */
  silence(connId: string): void {
    this.#seen.set(connId, this.now);
  }

  hear(connId: string): void {
    this.#seen.delete(connId);
  }

  isSilent(connId: string): boolean {
    return this.now - (this.#seen.get(connId) ?? this.now) > 25_000;
  }

  /** The hub's memory is gone; `live` are the workers whose sockets are still there. */
  forget(live: readonly string[] = []): void {
    const saved = [...this.state.jobs.values()].map((job) => {
      const { id, jobType, policy, privacyClass, userId, trustedKeys, payloadBytes, createdAt, network, rev } = job;
      const facts = { id, jobType, policy, privacyClass, userId, trustedKeys, payloadBytes, createdAt, network };
      return { facts, rev, snapshot: Snapshot.parse(JSON.parse(JSON.stringify(snapshotOf(job)))) };
    });
    this.state = createState(this.settings);
    const isDone = ({ phase }: Payment) =>
      phase.kind === "credit" || phase.kind === "spent" || phase.kind === "void" || (phase.kind === "unresolved" && phase.retryDue === null);
    const isLent = ({ credit }: Payment) => credit !== undefined && credit.lent !== "0";
    const isAssumed = ({ phase }: Payment) => "assumedAt" in phase && phase.assumedAt !== undefined && phase.assumedAt > this.now - TIMING.parkHalving;
    restorePayments(
      this.state,
      [...this.rows.values()].filter((row) => !isDone(row) || isAssumed(row) || isLent(row) || (row.streamedAt ?? 0) > this.now - TIMING.parkHalving),
      this.now,
    );
    restore(this.state, saved, this.now);
    for (const key of live) this.register(key);
  }

  /** What the hub does after an illegal move of this payment: it keeps nothing of that event, sets the payment aside and starts again. */
  quarantine(key: string): void {
    const row = this.rows.get(key);
    if (row !== undefined) this.rows.set(key, quarantined(row));
    this.forget([...this.state.workers.keys()]);
    this.tell({ type: "restored", damaged: [] });
  }

  /** Where a job is: `pending`, `assigned w 1`, `running w 1`, `… gone` without a socket, or how it ended. */
  where(id: string): string {
    const job = this.state.jobs.get(id);
    if (job === undefined) return this.ends.get(id) ?? "unknown";
    if (job.phase.kind === "waiting") return "pending";
    if (job.phase.kind === "settling") return job.phase.claimed === null ? "settling" : `settling for ${job.phase.claimed.key}`;
    const { lease, kind } = job.phase;
    return `${statusOf(job)} ${lease.key} ${lease.attempt}${kind === "orphaned" ? " gone" : ""}`;
  }
}

/** What follows from an event that changes nothing. */
export const NOTHING: Reduced = { answer: null, rows: [], sends: [], settles: [] };

/** What followed from events in short words: the rows that are deleted, the answer, what is sent, what is settled. */
export function words(told: Reduced | readonly Reduced[]): string {
  return [told]
    .flat()
    .flatMap(({ answer, rows, sends, settles }) => [
      ...rows.flatMap(wordOfRow),
      ...wordOfAnswer(answer),
      ...sends.map(wordOfSend),
      ...settles.map((key) => `settle ${key}`),
    ])
    .join(", ");
}

function wordOfRow(row: RowChange): string[] {
  return row.type === "drop_payment" ? [`drop ${row.key}`] : [];
}

/** Nothing for the answer that is expected: a job that is accepted. */
function wordOfAnswer(answer: Answer): string[] {
  if (answer === null) return [];
  if (typeof answer === "string") return [answer];
  if ("ok" in answer) return answer.ok ? [] : [answer.reason];
  if (answer.state === "known") return [`known ${answer.jobId}`];
  return [answer.state === "refused" ? answer.reason : answer.state];
}

function wordOfSend(send: Send): string {
  switch (send.type) {
    case "assign":
      return `assign ${send.jobId} ${send.attempt} to ${send.connId}`;
    case "cancel_attempt":
      return `cancel ${send.jobId} ${send.attempt} on ${send.connId}: ${send.reason}`;
    case "completion_ack":
      return send.answer.status === "accepted" ? "accepted" : `rejected: ${send.answer.error}`;
    case "drained":
      return `drained ${send.connId}`;
    case "parked":
      return `tell ${send.connId} parked for ${send.ms / 1_000} s`;
    case "close":
      return `close ${send.connId} ${send.code}`;
    default:
      return send satisfies never;
  }
}
