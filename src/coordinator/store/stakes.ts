import { inArray } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { readD1 } from "./database.ts";
import { stakes } from "./schema.ts";

/** Parameters that one statement of D1 may bind. */
export const MAX_BOUND = 100;

/**
 * The stakes in token units that the operator recorded for these keys, {@link MAX_BOUND} of them at most; one without a row is not in the map [ST1].
 * @throws {StoreUnavailable}
 */
export async function stakesOf(db: D1Database, pubkeys: readonly string[], deadline?: number): Promise<ReadonlyMap<string, unknown>> {
  const query = drizzle(db)
    .select({ pubkey: stakes.providerPubkey, amount: stakes.amount })
    .from(stakes)
    .where(inArray(stakes.providerPubkey, [...pubkeys]));
  const rows = await readD1(db, () => query, deadline);
  return new Map(rows.map(({ pubkey, amount }) => [pubkey, amount]));
}
