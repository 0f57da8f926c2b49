import { TIMING } from "../../protocol/limits.ts";

/**
 * The claims of pairing codes in the last minute. They are in the hub's SQLite, so that a hub that slept still counts them [TR3].
 * A claim counts as failed until it is known that it has won, so that neither a burst nor a lost answer can exceed the limit.
 */
export class PairingClaims {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Begins the claim `id`; false if its client, or all failed claims together, have reached their limit. A repeated `id` is the same claim. */
  begin(id: string, client: string, most: { perClient: number; failed: number }, now: number): boolean {
    // A claim in the future was written before the clock was set back.
    this.#sql.exec("DELETE FROM code_claims WHERE began_at <= ? OR began_at > ?", now - TIMING.minute, now);
    const { known, own, failed } = this.#sql
      .exec<{ known: number; own: number; failed: number }>(
        "SELECT count(*) FILTER (WHERE id = ?1) AS known, count(*) FILTER (WHERE client = ?2) AS own, count(*) FILTER (WHERE failed = 1) AS failed FROM code_claims",
        id,
        client,
      )
      .one();
    if (known > 0) return true;
    if (own >= most.perClient || failed >= most.failed) return false;
    this.#sql.exec("INSERT INTO code_claims (id, client, began_at, failed) VALUES (?, ?, ?, 1)", id, client, now);
    return true;
  }

  /** Notes that the claim has won. */
  won(id: string): void {
    this.#sql.exec("UPDATE code_claims SET failed = 0 WHERE id = ?", id);
  }

  /** Deletes the claims that do not count any more. */
  purge(now: number): void {
    this.#sql.exec("DELETE FROM code_claims WHERE began_at <= ?", now - TIMING.minute);
  }
}
