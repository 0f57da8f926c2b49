import { TIMING } from "../../protocol/limits.ts";
/**
 * The claims of pairing codes of the last minute, in the hub's SQLite: a hub that slept has not forgotten them [TR3].
 * A claim counts as failed from its beginning until it is known to have won, so that neither a burst nor a lost answer gets past the limit.
 */
export class PairingClaims {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Begins the claim `id`; false when its client, or all failed claims together, are at their limit. The same claim asked about again is the same. */
  begin(id: string, client: string, most: { perClient: number; failed: number }, now: number): boolean {
    // What lies ahead was written before the clock was set back.
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

  /** The claim has won. */
  won(id: string): void {
    this.#sql.exec("UPDATE code_claims SET failed = 0 WHERE id = ?", id);
  }

  /** Forgets whom nobody has to count any more. */
  purge(now: number): void {
    this.#sql.exec("DELETE FROM code_claims WHERE began_at <= ?", now - TIMING.minute);
  }
}
