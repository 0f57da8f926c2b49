// The payments that are not done yet, with their indexes. On a job's way: pay, and until the end of the job.
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { OrderedPool } from "./ordered-pool.ts";

/** One real payment, as the router read it. These facts are signed and never change. Amounts in atomic units, times in ms since the epoch [PY6]. */
export type PaymentFacts = {
  key: string;
  /** SHA-256 of the whole payload. */
  digest: string;
  /** SHA-256 of endpoint and validated fields: what the payment was sent for. */
  binding: string;
  /** Who pays; null until the facilitator has named the payer. */
  payer: string | null;
  /** The token that is paid: CAIP-2 network and token, `eip155:10143/0x534b…`. A payment in one asset never pays for a price in another. */
  asset: string;
  amount: string;
  /** When the authorization expires. */
  expiresAt: number;
};

/**
 * The phase of a payment. Money moves between `settling` and `settled` and nowhere else.
 * `reserved → held → settling → settled → spent`, with four other phases: `void` (no money moved), `unknown` (it is not known yet whether money moved),
 * `unresolved` (it is not known, and the job has ended: the operator is told) and `credit` (money moved, but the job failed: the payment pays for another
 * job). {@link MOVES} has every move from one to another. Times in ms since the epoch.
 */
export type PaymentPhase =
  | { kind: "reserved"; until: number }
  /** `retryDue`: the facilitator did not take the question, so the job is not offered before then. */
  | { kind: "held"; retryDue?: number }
  /** `until`: if nobody has reported the outcome of the settle call by then, it counts as lost. */
  | { kind: "settling"; until: number }
  | { kind: "unknown"; retryDue: number }
  /** `retryDue`: when the facilitator is asked again; null when it is not asked any more. */
  | { kind: "unresolved"; reason: Unresolved; retryDue: number | null; assumedAt?: number }
  /** `assumedAt`: only "already used" after a lost answer says that the money moved, and since when we believe it [PY8]. */
  | { kind: "settled"; transaction: string; assumedAt?: number }
  | { kind: "credit"; transaction: string }
  | { kind: "spent"; transaction: string; assumedAt?: number }
  | { kind: "void"; reason: "unused" | "refused" | "paid_by_credit" };

/**
 * Why only the operator can decide about a payment: its authorization has expired and the outcome is unknown; the facilitator says that it has been used,
 * and no call of ours can have done it; its job failed after a settlement that was only assumed; or it was about to make a move that is not in {@link MOVES}.
 */
export type Unresolved = "expired" | "already_used" | "assumed" | "illegal_move";

/**
 * Every legal move of a payment, from each step to the steps that may follow it. `none`: the ledger has no row. A step is a phase, with the part of it that
 * decides what may follow: why it is `void` or `unresolved`, whether it is settling `again` after a doubt, and whether the settlement is only `assumed`. A move
 * that is not here is a bug and never made. What may have moved money never becomes void or held [PY8].
 */
export const MOVES = {
  none: ["reserved"],
  reserved: ["none", "held", "void paid_by_credit"],
  held: ["held", "settling", "void unused"],
  settling: ["settled", "credit", "unknown", "unresolved expired", "unresolved already_used", "held", "void refused", "void unused"],
  "settling again": ["settled", "credit", "unknown", "unresolved expired", "unresolved already_used", "settled assumed"],
  unknown: ["settling again", "settled", "credit"],
  settled: ["spent", "credit"],
  "settled assumed": ["settled", "spent assumed", "unresolved assumed"],
  "spent assumed": ["spent"],
  credit: ["settled"],
  "unresolved expired": ["settling again", "credit"],
  "unresolved already_used": ["credit"],
  "unresolved assumed": ["credit"],
  "unresolved illegal_move": [],
  spent: [],
  "void unused": [],
  "void refused": [],
  "void paid_by_credit": [],
} as const satisfies Record<string, readonly string[]>;

/** The step of a payment in {@link MOVES}. */
export type PaymentStep = keyof typeof MOVES;

/** The step of a payment that has a row. */
export function stepOf({ phase, doubts }: Pick<Payment, "phase" | "doubts">): PaymentStep {
  if (phase.kind === "void") return `void ${phase.reason}`;
  if (phase.kind === "unresolved") return `unresolved ${phase.reason}`;
  if (phase.kind === "settling") return doubts > 0 ? "settling again" : "settling";
  if (phase.kind !== "settled" && phase.kind !== "spent") return phase.kind;
  return phase.assumedAt === undefined ? phase.kind : `${phase.kind} assumed`;
}

/** A move of a payment that {@link MOVES} does not have: a bug. Nothing of the event that wanted it may be kept. */
export class IllegalMove extends Error {
  override readonly name = "IllegalMove";
  readonly key: string;
  readonly from: PaymentStep;
  readonly to: PaymentStep;

  constructor(key: string, from: PaymentStep, to: PaymentStep) {
    super(`a payment moves from ${from} to ${to}`);
    this.key = key;
    this.from = from;
    this.to = to;
  }
}

/** Checks a move of the payment with this key. @throws {IllegalMove} */
export function checkMove(key: string, from: PaymentStep, to: PaymentStep): void {
  const legal: readonly string[] = MOVES[from];
  if (!legal.includes(to)) throw new IllegalMove(key, from, to);
}

/** A payment whose illegal move was refused: nothing happens to it any more, and the operator is told. */
export function quarantined(payment: Payment): Payment {
  return { ...payment, phase: { kind: "unresolved", reason: "illegal_move", retryDue: null } };
}

/** A row of the ledger: a payment and its phase. */
export type Payment = PaymentFacts & {
  /** The job that the payment pays for, or paid for last. */
  jobId: string;
  /** The job that the request with this payment started last, if another payment has spent it as a credit since; otherwise left out [PY6, PY9]. */
  ownJobId?: string;
  /** Number of settle calls after which the money may have moved and may not have [PY8]. */
  doubts: number;
  /** True if one of them had no answer at all: a time-out, a 5xx, a connection that was cut. Only then "already used" may mean one of our calls [PY8]. */
  lostAnswer: boolean;
  phase: PaymentPhase;
};

/** The ledger's answer to a payment that nobody has verified yet [PY5, PY6, PY9]. */
export type Reservation =
  | { state: "reserved" }
  | { state: "credit" }
  | { state: "known"; jobId: string }
  /** Another request with the same payment is being handled: wait for it, then ask again. */
  | { state: "busy" }
  | { state: "refused"; reason: "payment_already_used" | "too_many_held_payments" | "queue_full" | "no_such_model" | "no_trusted_worker" };

/** The payments that are not done, with their indexes. */
export type Ledger = {
  readonly payments: Map<string, Payment>;
  /** Keys of the payments that the hub settles now. */
  readonly inFlight: Set<string>;
  /** Keys of the payments that the request settles that brought them [PY7]. */
  readonly entrusted: Set<string>;
  /** Payments that wait until the hub may settle them, in the order of their arrival. */
  readonly settleQueue: Set<string>;
  /** Payments that may still move a payer's money: held, settling or unknown. */
  readonly unsettledByPayer: Map<string, Set<string>>;
  readonly creditsByPayer: Map<string, Set<string>>;
  /** When a reservation ends, or the facilitator is asked again. */
  readonly timers: OrderedPool;
  /** The settlements of the last day that were assumed, by key. */
  readonly assumed: Map<string, { payer: string | null; at: number }>;
};

/** The outcome of a settle call [PY8]. */
export type Settlement =
  | { kind: "settled"; transaction: string }
  | { kind: "refused" }
  | { kind: "already_used" }
  | { kind: "not_asked" }
  | { kind: "unknown"; lost: boolean };

/** True if nothing happens to a payment by itself any more. */
function isDone(phase: PaymentPhase): boolean {
  return phase.kind === "spent" || phase.kind === "void" || (phase.kind === "unresolved" && phase.retryDue === null);
}

/** True if a payment may still be settled before its authorization expires. */
function isUnsettled({ phase, expiresAt }: Payment): boolean {
  // Such a payment is asked for during a whole day. Meanwhile it must not count against its payer.
  if (phase.kind === "unknown") return phase.retryDue <= expiresAt;
  return phase.kind === "held" || phase.kind === "settling";
}

/** The job that answers a request with this payment that comes again. */
export function jobOf({ jobId, ownJobId }: Payment): string {
  return ownJobId ?? jobId;
}

/** Updates the ledger's indexes for this payment; call it after every change of the payment. */
export function indexPayment(ledger: Ledger, payment: Payment): void {
  const { key, payer, phase } = payment;
  if (isDone(phase)) ledger.payments.delete(key);
  else ledger.payments.set(key, payment);
  if (payer !== null) {
    put(ledger.unsettledByPayer, payer, key, isUnsettled(payment));
    put(ledger.creditsByPayer, payer, key, phase.kind === "credit");
  }
  const due = "until" in phase ? phase.until : "retryDue" in phase ? phase.retryDue : null;
  if (typeof due === "number") ledger.timers.add(key, due, 0);
  else ledger.timers.remove(key);
  if ("assumedAt" in phase && phase.assumedAt !== undefined) ledger.assumed.set(key, { payer, at: phase.assumedAt });
  else ledger.assumed.delete(key);
  if (phase.kind !== "held" && phase.kind !== "unknown" && phase.kind !== "unresolved") ledger.settleQueue.delete(key);
}

/** Removes a payment from the ledger as if it had never come. */
export function dropPayment(ledger: Ledger, payment: Payment): void {
  ledger.payments.delete(payment.key);
  ledger.timers.remove(payment.key);
}

/** The payer's smallest credit that covers `amount` of `asset`; undefined if the payer has none [PY9]. */
export function creditFor(ledger: Ledger, payer: string, { asset, amount }: Pick<PaymentFacts, "asset" | "amount">): Payment | undefined {
  let best: Payment | undefined;
  for (const key of ledger.creditsByPayer.get(payer) ?? []) {
    const credit = ledger.payments.get(key);
    if (credit === undefined || credit.asset !== asset || BigInt(credit.amount) < BigInt(amount)) continue;
    if (best === undefined || BigInt(credit.amount) < BigInt(best.amount)) best = credit;
  }
  return best;
}

/**
 * The number of a payer's payments that are verified and wait for a worker or for a clear outcome [PY9]. A payment that is being settled for the first time
 * does not count.
 */
export function heldOf(ledger: Ledger, payer: string): number {
  let held = 0;
  for (const key of ledger.unsettledByPayer.get(payer) ?? []) {
    const payment = ledger.payments.get(key);
    if (payment === undefined) continue;
    const isOnItsWay = payment.doubts === 0 && (payment.phase.kind === "settling" || ledger.settleQueue.has(key));
    if (!isOnItsWay) held++;
  }
  return held;
}

/** True if one more settlement may be assumed for this payer today [PY8]. */
export function mayAssume(ledger: Ledger, payer: string | null, now: number): boolean {
  let own = 0;
  for (const [key, { payer: other, at }] of ledger.assumed) {
    if (at <= now - TIMING.day) ledger.assumed.delete(key);
    else if (other === payer) own++;
  }
  return own < LIMITS.assumedPerPayer && ledger.assumed.size < LIMITS.assumedPerHub;
}

function put(index: Map<string, Set<string>>, payer: string, key: string, belongs: boolean): void {
  const keys = index.get(payer);
  if (belongs) {
    if (keys === undefined) index.set(payer, new Set([key]));
    else keys.add(key);
  } else if (keys?.delete(key) && keys.size === 0) index.delete(payer);
}
