// The operator's orders about payments in D1: the command line writes them, the hub carries them out and notes each outcome.
import * as z from "zod";
import type { OrderVerb } from "../dispatch/index.ts";
import { TUNING } from "../tuning.ts";
import { readD1, writeD1 } from "./database.ts";

/** An order of the operator about an unresolved payment, as the command line wrote it [PY8]. */
const Order = z.object({ id: z.string(), payment_key: z.string(), verb: z.enum(["credit", "void"]) });
/** An order, as it is carried out. */
export type PaymentOrder = { id: string; key: string; verb: OrderVerb };

/**
 * The orders that have no outcome yet, oldest first, and the ids of those that cannot be read, because the table can be written by hand.
 * @throws {StoreUnavailable}
 */
export async function openOrders(db: D1Database): Promise<{ orders: PaymentOrder[]; invalid: string[] }> {
  const query = db.prepare("SELECT id, payment_key, verb FROM payment_orders WHERE done_at IS NULL ORDER BY created_at, id LIMIT ?").bind(TUNING.paymentOrders);
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
export async function noteOutcome(db: D1Database, id: string, outcome: string, now: number): Promise<void> {
  const update = db.prepare("UPDATE payment_orders SET done_at = ?2, outcome = ?3 WHERE id = ?1 AND done_at IS NULL").bind(id, now, outcome);
  await writeD1(db, () => update.run());
}
