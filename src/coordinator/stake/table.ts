import { inArray } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { tierOf } from "../../protocol/worker-messages.ts";
import { readD1 } from "../store/database.ts";
import { stakes } from "../store/schema.ts";
import type { StakeSource, TierResult } from "./sources.ts";

/** The most parameters of one statement of D1. */
const MAX_BOUND = 100;

/** `STAKE_SOURCE=table`: reads the rows of D1 that the operator sets by `compute-router stake` [ST1]. */
export class TableSource implements StakeSource {
  readonly keysPerRead = MAX_BOUND;
  readonly #db: () => D1Database;
  readonly #deadline: number | undefined;

  constructor(db: () => D1Database, deadline?: number) {
    this.#db = db;
    this.#deadline = deadline;
  }

  async read(keys: readonly string[]): Promise<TierResult[]> {
    const amounts = await stakesOf(this.#db(), keys, this.#deadline);
    // A row may have been written by hand, and SQLite keeps a text even in a number column.
    return keys.map((key) => {
      const amount = amounts.get(key) ?? 0;
      return typeof amount === "number" ? { ok: true, value: tierOf(amount) } : { ok: false, reason: "invalid_response" };
    });
  }
}

/**
 * Returns the recorded stakes of at most {@link MAX_BOUND} keys, in token units. A key without a row is not in the map [ST1].
 * @throws {StoreUnavailable}
 */
async function stakesOf(db: D1Database, pubkeys: readonly string[], deadline?: number): Promise<ReadonlyMap<string, unknown>> {
  const query = drizzle(db)
    .select({ pubkey: stakes.providerPubkey, amount: stakes.amount })
    .from(stakes)
    .where(inArray(stakes.providerPubkey, [...pubkeys]));
  const rows = await readD1(db, () => query, deadline);
  return new Map(rows.map(({ pubkey, amount }) => [pubkey, amount]));
}
