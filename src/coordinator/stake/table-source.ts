import { MAX_BOUND, stakesOf } from "../store/stakes.ts";
import type { Reading, StakeSource } from "./reading.ts";
import { tierOf } from "../../protocol/stake-tier.ts";

/** `STAKE_SOURCE=table`: the rows that the operator sets by `compute-router stake` [ST1]. */
export class TableSource implements StakeSource {
  readonly keysPerRead = MAX_BOUND;
  readonly #db: () => D1Database;
  readonly #deadline: number | undefined;

  constructor(db: () => D1Database, deadline?: number) {
    this.#db = db;
    this.#deadline = deadline;
  }

  async read(keys: readonly string[]): Promise<Reading[]> {
    const amounts = await stakesOf(this.#db(), keys, this.#deadline);
    // A row may have been written by hand, and SQLite keeps whatever text it was given.
    return keys.map((key) => {
      const amount = amounts.get(key) ?? 0;
      return typeof amount === "number" ? { ok: true, tier: tierOf(amount) } : { ok: false, reason: "nonsense" };
    });
  }
}
