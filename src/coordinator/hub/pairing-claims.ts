// Counts the claims of pairing codes and decides which may go on. A pairing comes before a PRIVATE job.
import { LIMITS } from "../../protocol/limits.ts";
import { MINUTE, TIMING } from "../../protocol/times.ts";
import type { Settings } from "../config.ts";
import { blockOf } from "../rates/network.ts";

/** A claim of a pairing code. `signedBy` is the key whose signature it carries; null if it carries none [TR4]. */
export type CodeClaim = { id: string; client: string; signedBy: string | null };

/** The counts that decide about a claim; those without "hour" are of the last minute. */
type Counts = { known: number; ofClient: number; failedInBlock: number; failed: number; failedOfKeyInHour: number; sparedInHour: number };

/**
 * The claims of pairing codes in the last hour. They are in the hub's SQLite, so that a hub that slept still counts them [TR3].
 * A claim counts as failed until it is known that it has won, so that neither a burst nor a lost answer can exceed a budget.
 */
export class PairingClaims {
  readonly #sql: SqlStorage;
  readonly #rates: Settings["rates"];

  constructor(sql: SqlStorage, rates: Settings["rates"]) {
    this.#sql = sql;
    this.#rates = rates;
  }

  /**
   * Begins a claim; false if a budget is spent. Strangers can spend the common budget. Then a claim still passes if a worker signed it that was there before:
   * `connectedSince` gives since when the worker of a key has been connected (ms since the epoch), or null. A repeated claim is the same claim.
   */
  begin({ id, client, signedBy }: CodeClaim, connectedSince: (key: string) => number | null, now: number): boolean {
    this.purge(now);
    const block = blockOf(client);
    const counts = this.#sql
      .exec<Counts>(
        `SELECT count(*) FILTER (WHERE id = ?1) AS known,
           count(*) FILTER (WHERE began_at > ?5 AND client = ?2) AS ofClient,
           count(*) FILTER (WHERE began_at > ?5 AND failed = 1 AND block = ?3) AS failedInBlock,
           count(*) FILTER (WHERE began_at > ?5 AND failed = 1 AND spared = 0) AS failed,
           count(*) FILTER (WHERE failed = 1 AND signed_by = ?4) AS failedOfKeyInHour,
           count(*) FILTER (WHERE failed = 1 AND spared = 1) AS sparedInHour
         FROM code_claims`,
        ...[id, client, block, signedBy, now - TIMING.ratePeriod],
      )
      .one();
    if (counts.known > 0) return true;
    const { pairingClaimsPerMinute, failedPairingClaimsPerBlock, failedPairingClaimsPerMinute, pairingConnectedMinutes } = this.#rates;
    if (counts.ofClient >= pairingClaimsPerMinute || counts.failedInBlock >= failedPairingClaimsPerBlock) return false;
    const isOverBudget = counts.failed >= failedPairingClaimsPerMinute;
    if (isOverBudget) {
      if (counts.failedOfKeyInHour >= LIMITS.failedClaimsPerKey || counts.sparedInHour >= LIMITS.failedSparedClaims) return false;
      const since = signedBy === null ? null : connectedSince(signedBy);
      if (since === null || now - since < pairingConnectedMinutes * MINUTE) return false;
    }
    this.#sql.exec(
      "INSERT INTO code_claims (id, client, block, signed_by, began_at, failed, spared) VALUES (?, ?, ?, ?, ?, 1, ?)",
      ...[id, client, block, signedBy, now, isOverBudget ? 1 : 0],
    );
    return true;
  }

  /** Notes that the claim has won. */
  won(id: string): void {
    this.#sql.exec("UPDATE code_claims SET failed = 0 WHERE id = ?", id);
  }

  /** Deletes the claims that do not count any more: those of an hour ago, and of a minute ago unless a key signed them. */
  purge(now: number): void {
    // A claim in the future was written before the clock was set back.
    this.#sql.exec(
      "DELETE FROM code_claims WHERE began_at > ?1 OR began_at <= ?2 OR (began_at <= ?3 AND (signed_by IS NULL OR failed = 0))",
      ...[now, now - TIMING.failedClaims, now - TIMING.ratePeriod],
    );
  }
}
