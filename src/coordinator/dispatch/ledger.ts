import type { OrderedPool } from "./ordered-pool.ts";

/** One real payment, as the router read it: what is signed cannot change. Amounts in atomic units, times in ms since the epoch [PY6]. */
export type PaymentFacts = {
  key: string;
  /** SHA-256 of the whole payload. */
  digest: string;
  /** SHA-256 of endpoint and validated fields. */
  binding: string;
  /** Null until the facilitator has said who pays. */
  payer: string | null;
  /** What is paid in: CAIP-2 network and token, `eip155:10143/0x534b…`. Money of one asset is no money of another. */
  asset: string;
  amount: string;
  /** When the authorization dies. */
  expiresAt: number;
};

/**
 * Where a payment is. Money moves between `settling` and `settled` and nowhere else.
 * `reserved → held → settling → settled → spent`, with the ways out `void` (nothing moved), `unknown` (nobody knows yet) and `credit`
 * (moved, but its job failed: it buys another).
 */
export type PaymentPhase =
  | { kind: "reserved"; until: number }
  | { kind: "held" }
  | { kind: "settling" }
  | { kind: "unknown"; retryDue: number }
  | { kind: "settled"; transaction: string }
  | { kind: "credit"; transaction: string }
  | { kind: "spent"; transaction: string }
  | { kind: "void"; reason: "unused" | "refused" | "paid_by_credit" };

/** A row of the ledger. */
export type Payment = PaymentFacts & {
  /** The job that it pays for, or paid for last. */
  jobId: string;
  /** The job that its own request started last, where a fresh payment has spent it as a credit since; `jobId` when left out [PY6, PY9]. */
  ownJobId?: string;
  /** Settle calls that ended without an answer: from the first on, "already used" means that it was us [PY8]. */
  doubts: number;
  phase: PaymentPhase;
};

/** What the ledger says to a payment before anyone is asked about it [PY5, PY6, PY9]. */
export type Reservation =
  | { state: "reserved" }
  | { state: "credit" }
  | { state: "known"; jobId: string }
  /** Another request with the same payment is being looked at: wait for it, then ask again. */
  | { state: "busy" }
  | { state: "refused"; reason: "payment_already_used" | "too_many_held_payments" | "queue_full" | "no_trusted_worker" };

/** The ledger as dispatch knows it: payments that are not done, with their indexes. */
export type Ledger = {
  readonly payments: Map<string, Payment>;
  /** Settle calls that are under way. */
  readonly inFlight: Set<string>;
  /** Payments whose settle call waits for one of those to end, first come first. */
  readonly settleQueue: Set<string>;
  /** Payments that may still take a payer's money: held, settling or unknown. */
  readonly unsettledByPayer: Map<string, Set<string>>;
  readonly creditsByPayer: Map<string, Set<string>>;
  /** When a reservation ends or an unknown outcome is asked for again. */
  readonly timers: OrderedPool;
};

/** What became of a settle call [PY8]. */
export type Settlement = { kind: "settled"; transaction: string } | { kind: "refused"; alreadyUsed: boolean } | { kind: "unknown" };

/** Whether nothing can happen to a payment any more. */
function isDone(phase: PaymentPhase): boolean {
  return phase.kind === "spent" || phase.kind === "void";
}

/** Whether a payment may still be settled while its authorization is good. */
function isUnsettled({ phase, expiresAt }: Payment): boolean {
  // What is still asked for after its authorization has expired can hold nothing up, for a whole day.
  if (phase.kind === "unknown") return phase.retryDue <= expiresAt;
  return phase.kind === "held" || phase.kind === "settling";
}

/** The job that a request is answered with when it comes again. */
export function jobOf({ jobId, ownJobId }: Payment): string {
  return ownJobId ?? jobId;
}

/** Brings the ledger's indexes up to date with this payment; call after every change of it. */
export function indexPayment(ledger: Ledger, payment: Payment): void {
  const { key, payer, phase } = payment;
  if (isDone(phase)) ledger.payments.delete(key);
  else ledger.payments.set(key, payment);
  if (payer !== null) {
    put(ledger.unsettledByPayer, payer, key, isUnsettled(payment));
    put(ledger.creditsByPayer, payer, key, phase.kind === "credit");
  }
  if (phase.kind === "reserved") ledger.timers.add(key, phase.until, 0);
  else if (phase.kind === "unknown") ledger.timers.add(key, phase.retryDue, 0);
  else ledger.timers.remove(key);
  if (phase.kind !== "held" && phase.kind !== "unknown") ledger.settleQueue.delete(key);
}

/** Takes a payment out of the ledger as if it had never come. */
export function dropPayment(ledger: Ledger, payment: Payment): void {
  ledger.payments.delete(payment.key);
  ledger.timers.remove(payment.key);
}

/** The payer's credit that covers `amount` of `asset` and is the smallest that does; undefined when there is none [PY9]. */
export function creditFor(ledger: Ledger, payer: string, { asset, amount }: Pick<PaymentFacts, "asset" | "amount">): Payment | undefined {
  let best: Payment | undefined;
  for (const key of ledger.creditsByPayer.get(payer) ?? []) {
    const credit = ledger.payments.get(key);
    if (credit === undefined || credit.asset !== asset || BigInt(credit.amount) < BigInt(amount)) continue;
    if (best === undefined || BigInt(credit.amount) < BigInt(best.amount)) best = credit;
  }
  return best;
}

/** How many of a payer's payments are held: verified, and waiting for a worker or for an answer [PY9]. One that a worker is kept for is on its way. */
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

function put(index: Map<string, Set<string>>, payer: string, key: string, belongs: boolean): void {
  const keys = index.get(payer);
  if (belongs) {
    if (keys === undefined) index.set(payer, new Set([key]));
    else keys.add(key);
  } else if (keys?.delete(key) && keys.size === 0) index.delete(payer);
}
