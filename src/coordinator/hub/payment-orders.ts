import { shortJobId } from "../../protocol/text.ts";
import type { OrderOutcome } from "../dispatch/index.ts";
import { errorFacts, logError, logWarning } from "../log.ts";
import { noteOutcome, openOrders, type PaymentOrder } from "../store/payment-orders.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { LedgerStore } from "./ledger-store.ts";

type Parts = { dispatcher: Dispatcher; ledger: LedgerStore; db: () => D1Database; clock: () => number };

/**
 * The operator's orders [PY8]. Each is carried out once: the ledger notes its id in the transaction that changes its payment. D1 gets the outcome after
 * that, and an order whose outcome D1 did not take is not carried out again.
 */
export class PaymentOrders {
  readonly #parts: Parts;
  #running: Promise<void> | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Carries out the orders that have no outcome. Never rejects. */
  carryOut(): Promise<void> {
    this.#running ??= this.#run()
      .catch((error: unknown) => logError("payment_orders_failed", errorFacts(error)))
      .finally(() => (this.#running = null));
    return this.#running;
  }

  async #run(): Promise<void> {
    const { db, clock, ledger } = this.#parts;
    const { orders, invalid } = await openOrders(db());
    for (const id of invalid) await noteOutcome(db(), id, "invalid", clock());
    for (const order of orders) {
      const outcome = ledger.orderOutcome(order.id) ?? (await this.#carryOut(order));
      if (outcome !== "under_way") await noteOutcome(db(), order.id, outcome, clock());
    }
  }

  async #carryOut({ id, key, verb }: PaymentOrder): Promise<OrderOutcome> {
    const { dispatcher } = this.#parts;
    const stored = dispatcher.storedPayment(key);
    const outcome = dispatcher.apply({ type: "order", key, verb, stored });
    if (outcome === "under_way") return outcome;
    dispatcher.keepOrder(id, outcome);
    await dispatcher.whenDurable();
    logWarning("payment_order", { order: id.slice(0, 8), verb, outcome, job: stored && shortJobId(stored.jobId) });
    return outcome;
  }
}
