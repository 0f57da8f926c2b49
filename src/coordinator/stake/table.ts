import type { StakeSource, TierResult } from "./source.ts";
import { tierOf } from "../../protocol/worker-messages.ts";
import { inArray } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { readD1 } from "../store/database.ts";
import { stakes } from "../store/schema.ts";

/** `STAKE_SOURCE=table`: the rows that the operator sets by `compute-router stake` [ST1]. */
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
    // A row may have been written by hand, and SQLite keeps whatever text it was given.
    return keys.map((key) => {
      const amount = amounts.get(key) ?? 0;
      return typeof amount === "number" ? { ok: true, tier: tierOf(amount) } : { ok: false, reason: "nonsense" };
    });
  }
}

/** Parameters that one statement of D1 may bind. */
const MAX_BOUND = 100;

/**
 * The stakes in token units that the operator recorded for these keys, {@link MAX_BOUND} of them at most; one without a row is not in the map [ST1].
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
