// What is stored of the models that workers offer: when each was last offered. It is written when workers come, change and go.
import { LIMITS } from "../../protocol/limits.ts";
import type { StoredModel } from "../dispatch/index.ts";
import { TokenBucket } from "../rates/token-bucket.ts";
import { TUNING } from "../tuning.ts";

/**
 * The rows of models [JB10]. Anyone can name any number of new models, so the rows have a rate of their own: those above it are kept in memory and written with
 * a later batch. A hub that loses its memory before that forgets them.
 */
export class StoredModels {
  readonly #sql: SqlStorage;
  /** Names that are not written yet, with when their last worker left; null if one is connected. The longest due first. */
  readonly #due = new Map<string, number | null>();
  readonly #rate = new TokenBucket(TUNING.modelRows, 0);

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Stores what has changed, in the transaction of a batch. If there are too many names, those that left the longest ago are deleted. */
  keep(models: ReadonlyMap<string, number | null>, now: number): void {
    for (const [name, leftAt] of models) {
      this.#due.delete(name);
      this.#due.set(name, leftAt);
    }
    let written = 0;
    for (const [name, leftAt] of this.#due) {
      if (this.#rate.take(now).kind !== "pass") break;
      this.#sql.exec("INSERT OR REPLACE INTO models (name, left_at) VALUES (?, ?)", name, leftAt);
      this.#due.delete(name);
      written++;
    }
    if (written > 0) this.#sql.exec(`DELETE FROM models WHERE name IN (${SURPLUS})`, LIMITS.modelsRemembered + 1);
    for (const name of this.#due.keys()) {
      if (this.#due.size <= LIMITS.modelsRemembered) return;
      this.#due.delete(name);
    }
  }

  /** What is stored, the model that left the longest ago first. */
  all(): StoredModel[] {
    const rows = this.#sql.exec<{ name: string; leftAt: SqlStorageValue }>("SELECT name, left_at AS leftAt FROM models ORDER BY left_at").toArray();
    // A damaged time counts as one that is over.
    return rows.map(({ name, leftAt }) => ({ name, leftAt: leftAt === null || typeof leftAt === "number" ? leftAt : 0 }));
  }
}

/** The names above the limit: those that left the longest ago. */
const SURPLUS = "SELECT name FROM models ORDER BY name = '' DESC, left_at IS NULL DESC, left_at DESC LIMIT -1 OFFSET ?";
