// The calls that settle payments: asked, waited for, and their outcomes. On a job's way: settle.
import { shortJobId } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { IllegalMove, type Payment, stepOf } from "../dispatch/index.ts";
import { errorFacts, logError, logWarning, safeReason } from "../log.ts";
import type { SettleOutcome } from "../payment/facilitator.ts";
import { TUNING } from "../tuning.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { Deadlines } from "./timers.ts";

type Parts = {
  dispatcher: Dispatcher;
  ledger: LedgerStore;
  deadlines: Deadlines;
  clock: () => number;
  settle: (payload: string, requirements: string) => Promise<SettleOutcome>;
};

/** The settle calls of the hub, and the waits of requests for every settle call, those that a router makes too [PY7, PY8]. */
export class SettleCalls {
  readonly #parts: Parts;
  /** The payments that this hub settles, until the outcome is written. */
  readonly #calls = new Set<string>();
  /** What ends the waits of requests, by payment. */
  readonly #waits = new Map<string, PromiseWithResolvers<void>>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Asks the facilitator to settle, and records the outcome. Called when the row is durable. Never rejects. */
  async settle(key: string): Promise<void> {
    const { dispatcher } = this.#parts;
    this.#calls.add(key);
    const outcome = await this.#askToSettle(key);
    // Nobody else knows the outcome, so it is written again if it could not be.
    for (const pause of [0, ...TUNING.outcomePauses]) {
      if (pause > 0) await scheduler.wait(pause);
      if (!this.#conclude(key, outcome, "hub") || (await dispatcher.becameDurable())) break;
    }
    this.#calls.delete(key);
    this.endWaits(key);
  }

  /** True while a settle call of this hub for this payment runs, or has an outcome that is not written. */
  isSettling(key: string): boolean {
    return this.#calls.has(key);
  }

  /** Records the outcome of a settle call that a router made; false if it could not be recorded. */
  async reported(key: string, outcome: SettleOutcome): Promise<boolean> {
    const isTaken = this.#conclude(key, outcome, "request");
    const isDurable = await this.#parts.dispatcher.becameDurable();
    this.endWaits(key);
    return isTaken && isDurable;
  }

  /** Hands an outcome to dispatch; false if it would be an illegal move, which the dispatcher has logged. */
  #conclude(key: string, outcome: SettleOutcome, by: "hub" | "request"): boolean {
    const { dispatcher } = this.#parts;
    const payment = dispatcher.state.ledger.payments.get(key);
    const before = payment?.phase;
    try {
      const stored = payment === undefined ? dispatcher.storedPayment(key) : null;
      const texts = "response" in outcome ? { payment: { key, response: outcome.response } } : {};
      dispatcher.apply({ type: "settled", key, settlement: outcome, by, stored }, texts);
    } catch (error) {
      if (error instanceof IllegalMove) return false;
      throw error;
    }
    // If the answer changed nothing, there is nothing to log: another call may have moved the money.
    if (outcome.kind === "settled" || payment === undefined || payment.phase === before) return true;
    // Each of these concerns a payment of a user, so the operator should see them. What counts is what became of the payment, not the words of one call.
    logWarning(eventOf(payment), { job: shortJobId(payment.jobId), reason: safeReason(outcome.reason) });
    return true;
  }

  /** Waits for the settle call of a payment, for as long as a request may wait; false if none is under way. */
  async waitForEnd(key: string): Promise<boolean> {
    if (this.#parts.dispatcher.state.ledger.payments.get(key)?.phase.kind !== "settling") return false;
    const waiting = this.#waits.get(key) ?? Promise.withResolvers<void>();
    this.#waits.set(key, waiting);
    await this.#parts.deadlines.until(this.#parts.clock() + TIMING.settleWait, waiting.promise);
    return true;
  }

  /** Ends the waits for a settle call: its outcome is known, or it is in doubt. */
  endWaits(key: string): void {
    this.#waits.get(key)?.resolve();
    this.#waits.delete(key);
  }

  async #askToSettle(key: string): Promise<SettleOutcome> {
    const { ledger, settle } = this.#parts;
    let isSent = false;
    try {
      const texts = ledger.settleTexts(key);
      if (texts === null) return { kind: "unknown", reason: "payload_erased", lost: false };
      isSent = true;
      return await settle(texts.payload, texts.requirements);
    } catch (error) {
      // Without an outcome the call would use one of the few places for settlements forever.
      logError("settlement_failed", errorFacts(error));
      // The call reports each fault of the facilitator as an outcome. If the call itself breaks off, its answer is lost, and the facilitator may still be
      // processing it.
      return { kind: "unknown", reason: "failed", lost: isSent, ...(isSent && { mayStillRun: true }) };
    }
  }
}

/** What is logged of a payment that the facilitator did not confirm, by the step that it is at then. */
const SETTLEMENT_EVENTS = {
  "settled assumed": "settlement_assumed",
  "void refused": "settlement_refused",
  "unresolved already_used": "settlement_already_used",
  held: "settlement_not_asked",
  "void unused": "settlement_not_asked",
  others: "settlement_unknown",
} as const;

function eventOf(payment: Payment): string {
  const events: Partial<Record<string, string>> = SETTLEMENT_EVENTS;
  return events[stepOf(payment)] ?? SETTLEMENT_EVENTS.others;
}
