// A payment: its phases and legal moves. And the ledger: the payments that are not done, with their indexes. On a job's way: pay, until the end.
import { LIMITS } from "../../protocol/limits.ts";
import { DAY, TIMING } from "../../protocol/times.ts";
import type { OrderedPool } from "./pools.ts";

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
 * The phase of a payment. The facilitator is asked to settle only in `settling`. If its answer is lost or unclear, the money may move later too, in a phase of
 * doubt. `reserved → held → settling → settled → spent`, with other phases: `void` (no money moved), `unknown` (it is not known yet whether money moved),
 * `unresolved` (it is not known, and the job has ended: the operator is told) and `credit` (money moved, but the job failed: its amount is in the payer's
 * balance). A payment whose job is paid from a balance is `covered`, and nothing of its own money moves. {@link MOVES} has every move from one to another.
 * Times in ms since the epoch.
 */
export type PaymentPhase =
  | { kind: "reserved"; until: number }
  /** `retryDue`: the facilitator did not accept the request, so no worker is claimed for the job before then. */
  | { kind: "held"; retryDue?: number }
  /** `until`: if nobody has reported the outcome of the settle call by then, it counts as lost. `by` is left out if the hub makes it. */
  | { kind: "settling"; until: number; by?: "request" }
  | { kind: "unknown"; retryDue: number }
  /** `retryDue`: when the facilitator is asked again; null when it is not asked any more. */
  | { kind: "unresolved"; reason: Unresolved; retryDue: number | null; assumedAt?: number }
  /** `assumedAt`: only "already used" after a lost answer says that the money moved, and since when we believe it [PY8]. */
  | { kind: "settled"; transaction: string; assumedAt?: number }
  | { kind: "credit"; transaction: string }
  /**
   * Its job is paid from the balance. `parts`: what it takes of each credit. `transaction`: the transaction of the
   * oldest credit. `own`: the transaction of the payment itself, null if its money never moved.
   */
  | { kind: "covered"; transaction: string; parts: readonly CreditPart[]; own: string | null }
  /**
   * `by`: its job was paid from the `balance`, or its job failed and `others` have spent its money; left out if it paid for its own job. `own`: the transaction
   * of its own money, if its job was paid from the balance.
   */
  | { kind: "spent"; transaction: string; assumedAt?: number; by?: "balance" | "others"; own?: string }
  | { kind: "void"; reason: "unused" | "refused" }
  /** It was unresolved, and the operator has found that no money moved. An assumption that was wrong still counts for its day. */
  | { kind: "void"; reason: "by_operator"; assumedAt?: number }
  /** The chain has shown that no money has moved to us and that none can move any more. */
  | { kind: "void"; reason: "by_chain"; proof: VoidProof; assumedAt?: number }
  /** `given_back`: its job was paid from the balance and failed. `transaction`: that of the oldest credit that paid. */
  | { kind: "void"; reason: "paid_by_credit" | "given_back"; transaction?: string };

/**
 * How a finalized block has shown that a payment is void [PY8]. `cancelled`: its payer has cancelled the authorization. `used_elsewhere`: it was used for
 * something else than our transfer. `failed`: its transaction was executed and failed. `expired`: it was not used, and its time is over by the chain's own
 * clock.
 */
export type VoidProof = "cancelled" | "used_elsewhere" | "failed" | "expired";

/** What the chain says about a payment in doubt. */
export type Finding = { kind: "settled"; transaction: string } | { kind: "void"; proof: VoidProof };

/** What a job takes of one credit: the key of its payment, and an amount in atomic units. */
export type CreditPart = { key: string; amount: string };

/**
 * The money of a payment that its payer may spend again: what is `left`, and what is `lent` to live jobs, in atomic units; since when, ms since the epoch; and
 * the transaction that moved it, empty if the facilitator did not name it.
 */
export type Credit = { left: string; lent: string; since: number; transaction: string };

/**
 * Why only the operator can decide about a payment: its authorization has expired and the outcome is unknown; the facilitator says that it has been used,
 * and no call of ours can have done it; its job failed after a settlement that was only assumed; or it was about to make a move that is not in {@link MOVES}.
 */
export type Unresolved = "expired" | "already_used" | "assumed" | "illegal_move";

/**
 * Every legal move of a payment, from each step to the steps that may follow it. `none`: the ledger does not know it. A step is a phase, with the part of it
 * that decides what may follow: why it is `void` or `unresolved`, whether it is settling `again` after a doubt, and whether the settlement is only `assumed`. A
 * move that is not here is a bug and never made. What may have moved money never becomes void or held, unless the chain has shown or the operator has found
 * that none moved [PY8].
 */
export const MOVES = {
  none: ["reserved"],
  reserved: ["none", "held", "covered"],
  held: ["held", "settling", "void unused"],
  settling: ["settled", "credit", "unknown", "unresolved expired", "unresolved already_used", "held", "void refused", "void unused"],
  "settling again": ["settled", "credit", "unknown", "unresolved expired", "unresolved already_used", "settled assumed", "void by_chain"],
  unknown: ["settling again", "settled", "credit", "void by_chain"],
  settled: ["spent", "credit"],
  "settled assumed": ["settled", "spent assumed", "unresolved assumed"],
  "spent assumed": ["spent"],
  credit: ["covered", "spent by others"],
  covered: ["credit", "spent by balance", "spent by others", "void paid_by_credit", "void given_back"],
  "unresolved expired": ["settling again", "credit", "void by_operator", "void by_chain"],
  "unresolved already_used": ["credit", "void by_operator", "void by_chain"],
  "unresolved assumed": ["credit", "void by_operator", "void by_chain"],
  "unresolved illegal_move": ["credit", "void by_operator"],
  spent: [],
  "spent by balance": [],
  "spent by others": ["covered"],
  "void given_back": ["covered"],
  "void unused": [],
  "void refused": [],
  "void by_operator": [],
  "void by_chain": [],
  "void paid_by_credit": [],
} as const satisfies Record<string, readonly string[]>;

/** The step of a payment in {@link MOVES}. */
export type PaymentStep = keyof typeof MOVES;

/** The step of a payment. */
export function stepOf({ phase, doubts }: Pick<Payment, "phase" | "doubts">): PaymentStep {
  if (phase.kind === "void") return `void ${phase.reason}`;
  if (phase.kind === "unresolved") return `unresolved ${phase.reason}`;
  if (phase.kind === "settling") return doubts > 0 ? "settling again" : "settling";
  if (phase.kind !== "settled" && phase.kind !== "spent") return phase.kind;
  if (phase.kind === "spent" && phase.by !== undefined) return `spent by ${phase.by}`;
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

/**
 * True if it is not known whether the money of a payment has moved, so that what the chain shows counts. Only the operator decides about a payment that is
 * quarantined.
 */
export function isInDoubt({ phase, doubts }: Pick<Payment, "phase" | "doubts">): boolean {
  if (phase.kind === "unresolved") return phase.reason !== "illegal_move";
  return phase.kind === "unknown" || (phase.kind === "settling" && doubts > 0);
}

/** A payment whose illegal move was refused: nothing happens to it any more, and the operator is told. What was assumed of it still counts for its day. */
export function quarantined(payment: Payment): Payment {
  const { assumedAt } = "assumedAt" in payment.phase ? payment.phase : {};
  return { ...payment, phase: { kind: "unresolved", reason: "illegal_move", retryDue: null, ...(assumedAt !== undefined && { assumedAt }) } };
}

/** A row of the ledger: a payment and its phase. */
export type Payment = PaymentFacts & {
  /** The job that the request with this payment started last [PY6]. */
  jobId: string;
  /** What of its money is in its payer's balance; left out if nothing is [PY9]. */
  credit?: Credit;
  /** When its job made a credit although it had streamed text, ms since the epoch; left out if it did not [PY9]. */
  streamedAt?: number;
  /** Number of settle calls with an unclear outcome: the money may have moved or not [PY8]. */
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
  readonly settlingByHub: Set<string>;
  /** Keys of the payments that are being settled by the request that brought them [PY7]. */
  readonly settlingByRequest: Set<string>;
  /** Payments of live jobs that wait until the hub may settle them, in the order of their arrival. */
  readonly settleQueue: Set<string>;
  /**
   * Payments of jobs that have ended and that wait until the hub may ask about them again. They come after the payments
   * of `settleQueue` and never keep another payment out.
   */
  readonly askQueue: Set<string>;
  /** Payments that may still move a payer's money: held, settling or unknown. */
  readonly unsettledByPayer: Map<string, Set<string>>;
  /** The credits of the last day of jobs that had streamed text, by key. */
  readonly streamed: Map<string, { payer: string; at: number }>;
  /** When a reservation ends, or the facilitator is asked again. */
  readonly timers: OrderedPool;
  /** The settlements of the last day that were assumed, by key. */
  readonly assumed: Map<string, { payer: string | null; at: number }>;
};

/** What the core reads of the outcome of a settle call (`SettleOutcome` of payment/facilitator.ts) [PY8]. */
export type Settlement =
  | { kind: "settled"; transaction: string }
  | { kind: "refused" }
  | { kind: "already_used" }
  | { kind: "not_asked" }
  /** `mayStillRun`: there was no answer in time, and the facilitator may still be processing it. */
  | { kind: "unknown"; lost: boolean; mayStillRun?: true };

/**
 * True if nothing happens to a payment by itself any more, and nothing of it is lent. A credit that waits for its payer is done too: its payer may never come
 * back, so it is not kept in memory.
 */
function isDone({ phase, credit }: Payment): boolean {
  if (credit !== undefined && credit.lent !== "0") return false;
  return phase.kind === "credit" || phase.kind === "spent" || phase.kind === "void" || (phase.kind === "unresolved" && phase.retryDue === null);
}

/** Until when the settle call of a payment may run. No other one begins before [PY8]. */
export function callEnd({ until }: Extract<PaymentPhase, { kind: "settling" }>): number {
  return until - TIMING.settleReport + TIMING.settleCall;
}

/**
 * True if a payment may still be settled. An expired payment is `unresolved`, and the facilitator is asked about it for
 * a whole day. It must not count against its payer, not even while the facilitator is being asked.
 */
function isUnsettled({ phase, expiresAt }: Payment): boolean {
  if (phase.kind === "settling") return phase.until - TIMING.settleReport < expiresAt;
  return phase.kind === "held" || phase.kind === "unknown";
}

/** Whose balance a payment belongs to. A payment without a known payer has one of its own. */
export function ownerOf({ payer, key }: Pick<Payment, "payer" | "key">): string {
  return payer ?? key;
}

/** Reads the stored payments of a payment's owner that have a credit, with what is not written yet. Each call gives new objects. */
export type StoredCredits = (payment: Pick<Payment, "payer" | "key">) => readonly Payment[];

/** Updates the ledger's indexes for this payment; call it after every change of the payment. */
export function indexPayment(ledger: Ledger, payment: Payment): void {
  const { key, payer, phase } = payment;
  if (isDone(payment)) ledger.payments.delete(key);
  else ledger.payments.set(key, payment);
  if (payer !== null) {
    put(ledger.unsettledByPayer, payer, key, isUnsettled(payment));
  }
  if (payment.streamedAt !== undefined) ledger.streamed.set(key, { payer: ownerOf(payment), at: payment.streamedAt });
  const due = "until" in phase ? phase.until : "retryDue" in phase ? phase.retryDue : null;
  if (typeof due === "number") ledger.timers.add(key, due, 0);
  else ledger.timers.remove(key);
  if ("assumedAt" in phase && phase.assumedAt !== undefined) ledger.assumed.set(key, { payer, at: phase.assumedAt });
  else ledger.assumed.delete(key);
  if (phase.kind !== "held" && phase.kind !== "unknown" && phase.kind !== "unresolved") {
    ledger.settleQueue.delete(key);
    ledger.askQueue.delete(key);
  }
}

/** The payment of a job that is in the ledger; undefined for a free job, and for a payment that is done. */
export function paymentOf({ payments }: Ledger, { payment }: { payment: string | null }): Payment | undefined {
  return payment === null ? undefined : payments.get(payment);
}

/** Removes a payment from the ledger as if it had never come. */
export function dropPayment(ledger: Ledger, payment: Payment): void {
  ledger.payments.delete(payment.key);
  ledger.timers.remove(payment.key);
}

/** The credits of a payment's payer in the same asset, the oldest first [PY9]. */
export function creditsOf(
  { payments }: Ledger,
  payment: Pick<Payment, "payer" | "key" | "asset">,
  storedCredits: StoredCredits,
): (Payment & { credit: Credit })[] {
  const credits = storedCredits(payment)
    .map((one) => payments.get(one.key) ?? one)
    .filter((one): one is Payment & { credit: Credit } => one.credit !== undefined && one.asset === payment.asset);
  return credits.toSorted((a, b) => a.credit.since - b.credit.since || (a.key < b.key ? -1 : 1));
}

/** What a payment's payer can spend in the same asset, in atomic units: the sum of what is left of the credits [PY9]. */
export function balanceOf(ledger: Ledger, payment: Pick<Payment, "payer" | "key" | "asset">, storedCredits: StoredCredits): bigint {
  return creditsOf(ledger, payment, storedCredits).reduce((sum, { credit }) => sum + BigInt(credit.left), 0n);
}

/** True if the payer's balance covers the amount of this payment [PY9]. */
export function isCovered(ledger: Ledger, payment: Pick<Payment, "payer" | "key" | "asset" | "amount">, storedCredits: StoredCredits): boolean {
  return balanceOf(ledger, payment, storedCredits) >= BigInt(payment.amount);
}

/**
 * True if one more job that streamed text may give its amount back to this payer today [PY9]. The same payment may pay
 * several jobs, but it is noted only once. So it gives its amount back once a day.
 */
export function mayGiveBack(ledger: Ledger, payment: Payment, now: number): boolean {
  let own = 0;
  for (const [key, { payer, at }] of ledger.streamed) {
    if (at <= now - DAY) ledger.streamed.delete(key);
    else if (key === payment.key) return false;
    else if (payer === ownerOf(payment)) own++;
  }
  return own < LIMITS.streamedCreditsPerPayer;
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
    if (at <= now - DAY) ledger.assumed.delete(key);
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
