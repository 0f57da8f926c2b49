// Carries out the operator's orders about payments in doubt. After a job's way.
import * as z from "zod";
import type { OrderOutcome } from "../dispatch/index.ts";
import { errorFacts, logError, logWarning } from "../log.ts";
import { readD1, writeD1 } from "../store/database.ts";
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
    logWarning("payment_order", { order: id.slice(0, 8), verb, outcome, job: stored?.jobId.slice(0, 8) ?? null });
    return outcome;
  }
}

/** An order of the operator about an unresolved payment, as the command line wrote it [PY8]. */
const Order = z.object({ id: z.string(), payment_key: z.string(), verb: z.enum(["credit", "void"]) });
type PaymentOrder = { id: string; key: string; verb: "credit" | "void" };

/** The most orders that one reading takes; the others follow with the next. */
const MOST_ORDERS = 100;

/**
 * The orders that have no outcome yet, oldest first, and the ids of those that cannot be read, because the table can be written by hand.
 * @throws {StoreUnavailable}
 */
async function openOrders(db: D1Database): Promise<{ orders: PaymentOrder[]; invalid: string[] }> {
  const query = db.prepare("SELECT id, payment_key, verb FROM payment_orders WHERE done_at IS NULL ORDER BY created_at, id LIMIT ?").bind(MOST_ORDERS);
  const { results } = await readD1(db, () => query.all());
  const orders: PaymentOrder[] = [];
  const invalid: string[] = [];
  for (const row of results) {
    const order = Order.safeParse(row);
    if (order.success) orders.push({ id: order.data.id, key: order.data.payment_key, verb: order.data.verb });
    else invalid.push(String(row["id"]));
  }
  return { orders, invalid };
}

/** Notes the outcome of an order, once. @throws {StoreUnavailable} */
async function noteOutcome(db: D1Database, id: string, outcome: string, now: number): Promise<void> {
  const update = db.prepare("UPDATE payment_orders SET done_at = ?2, outcome = ?3 WHERE id = ?1 AND done_at IS NULL").bind(id, now, outcome);
  await writeD1(db, () => update.run());
}
