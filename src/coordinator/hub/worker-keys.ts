// The keys of workers: what the hub remembers of them in its SQLite, and the check of their signatures. Registration asks it, the end of an attempt changes it.
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import * as z from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import type { Settings } from "../config.ts";
import { type KeyRecord, NEW_KEY } from "../dispatch/index.ts";
import { TUNING } from "../tuning.ts";

/** What is known of a worker key: its record, and when it last authenticated (null for never) [WS5]. Times in ms since the epoch. */
type KnownKey = { record: KeyRecord; authenticatedAt: number | null; lastUsedAt: number };

const count = z.number().catch(0);

/** The row of a worker key. A damaged number counts as 0; a key whose authentication is damaged must authenticate [WS5]. */
const KeyRow = z.object({
  strikes: count,
  parks: count,
  parked_until: count,
  completed: count,
  failed: count,
  failed_at: count,
  last_used: count,
  has_completed: count,
  users: z
    .string()
    .transform((text) => (text.match(/\d+/g) ?? []).map(Number))
    .catch([]),
  authenticated_at: z.number().nullable().catch(0),
});

/**
 * The name of the row with the last time at which a key signed and the table had no place for it. No worker has this
 * name as its key.
 */
const UNPLACED = "";

/**
 * The keys of workers. Anyone can make any number of keys, so a key gets a row only when a job says something about it: it completed one, failed one, or got a
 * strike. Keys that have never completed a job are few, and forgotten a day after they were last seen [LM3].
 *
 * Where keys need not sign, one that has signed gets a row too, for 30 days, because it must go on signing [WS5]. Such a row is never deleted to make room:
 * otherwise a stranger with many fresh keys could have a known worker's key forgotten, and register in its name. So the keys that come when all places are
 * taken are not noted. While there may be such a key, a worker that does not sign may be a stranger with it, and gets no PRIVATE jobs.
 */
export class WorkerKeys {
  readonly #sql: SqlStorage;
  /** True if a key that has signed once must go on signing [WS5]. */
  readonly #keepsSigned: boolean;
  /** The keys that can be forgotten to make room, in SQL. */
  readonly #new: string;
  /** When the keys without a row last got a job. */
  readonly #lastUsed = new Map<string, number>();

  constructor(sql: SqlStorage, { workerAuth }: Pick<Settings, "workerAuth">) {
    this.#sql = sql;
    this.#keepsSigned = workerAuth === "optional";
    this.#new = `has_completed = 0${this.#keepsSigned ? " AND authenticated_at IS NULL" : ""}`;
  }

  find(key: string): KnownKey | null {
    const row = this.#sql.exec("SELECT * FROM keys WHERE key = ?", key).toArray()[0];
    if (row === undefined) {
      const lastUsedAt = this.#lastUsed.get(key);
      return lastUsedAt === undefined ? null : { record: NEW_KEY, authenticatedAt: null, lastUsedAt };
    }
    const { strikes, parks, completed, users, failed, ...rest } = KeyRow.parse(row);
    const record = {
      strikes,
      parks,
      parkedUntil: rest.parked_until,
      completed,
      users,
      hasCompleted: rest.has_completed !== 0,
      failed,
      failedAt: rest.failed_at,
    };
    return { record, authenticatedAt: rest.authenticated_at, lastUsedAt: rest.last_used };
  }

  /** True if this worker gets no PRIVATE jobs: it did not sign, and its key may be one that has [WS5]. */
  isPublicOnly(authenticated: boolean): boolean {
    return !authenticated && this.#sql.exec("SELECT 1 FROM keys WHERE key = ?", UNPLACED).toArray().length > 0;
  }

  /** Notes that a worker with this key connected or left. */
  seen(key: string, authenticated: boolean, lastUsedAt: number, now: number): void {
    const signedAt = authenticated && this.#hasPlace(key, now) ? now : null;
    const update = "UPDATE keys SET authenticated_at = coalesce(?2, authenticated_at), last_seen = ?3, last_used = ?4 WHERE key = ?1";
    if (this.#sql.exec(update, key, signedAt, now, lastUsedAt).rowsWritten > 0) return;
    this.#lastUsed.delete(key);
    if (signedAt !== null && this.#keepsSigned) {
      this.#sql.exec("INSERT INTO keys (key, authenticated_at, last_seen, last_used) VALUES (?, ?, ?, ?)", key, signedAt, now, lastUsedAt);
      return;
    }
    if (lastUsedAt > 0) this.#lastUsed.set(key, lastUsedAt);
    const [oldest] = this.#lastUsed.keys();
    if (this.#lastUsed.size > LIMITS.unprovenKeys && oldest !== undefined) this.#lastUsed.delete(oldest);
  }

  /** Stores the record of a key. `authenticated`: its worker has signed, which is noted with it, because the hub may die before the worker leaves. */
  keep(key: string, record: KeyRecord, authenticated: boolean, now: number): void {
    const { strikes, parks, parkedUntil, completed, users, hasCompleted, failed, failedAt } = record;
    const signedAt = authenticated && (hasCompleted || this.#hasPlace(key, now)) ? now : null;
    const values = [key, now, strikes, parks, parkedUntil, completed, users.join(), hasCompleted ? 1 : 0, failed, failedAt, signedAt];
    const update = `UPDATE keys SET last_seen = ?2, strikes = ?3, parks = ?4, parked_until = ?5, completed = ?6, users = ?7, has_completed = ?8, failed = ?9,
      failed_at = ?10, authenticated_at = coalesce(?11, authenticated_at) WHERE key = ?1`;
    if (this.#sql.exec(update, ...values).rowsWritten > 0) return;
    this.#sql.exec(
      `INSERT INTO keys (key, last_seen, strikes, parks, parked_until, completed, users, has_completed, failed, failed_at, authenticated_at, last_used)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...values,
      this.#lastUsed.get(key) ?? 0,
    );
    this.#lastUsed.delete(key);
    const oldest = `SELECT key FROM keys WHERE ${this.#new} ORDER BY last_seen DESC LIMIT -1 OFFSET ?`;
    this.#sql.exec(`DELETE FROM keys WHERE key IN (${oldest})`, LIMITS.newKeys);
  }

  /** Deletes the keys that were last seen too long ago, a bounded number at a time. Those that are connected count as seen now [WS5, LM3]. */
  purge(now: number, isConnected: (key: string) => boolean): void {
    const old = this.#sql
      .exec<{ key: string }>("SELECT key FROM keys WHERE last_seen <= ? ORDER BY last_seen LIMIT ?", now - TIMING.authenticatedKey, TUNING.purgedRows)
      .toArray();
    const fresh = this.#sql.exec<{ key: string }>(`SELECT key FROM keys WHERE ${this.#new} AND last_seen <= ?`, now - TIMING.newKey).toArray();
    for (const { key } of [...old, ...fresh]) {
      if (isConnected(key)) this.#sql.exec("UPDATE keys SET last_seen = ? WHERE key = ?", now, key);
      else this.#sql.exec("DELETE FROM keys WHERE key = ?", key);
    }
  }

  /** True if the table has a place to note that this key has signed. If it has none, the time is noted, for as long as the key would have been remembered. */
  #hasPlace(key: string, now: number): boolean {
    if (!this.#keepsSigned) return true;
    const has = "SELECT 1 FROM keys WHERE key = ? AND (has_completed = 1 OR authenticated_at IS NOT NULL)";
    if (this.#sql.exec(has, key).toArray().length > 0) return true;
    const taken = "SELECT count(*) AS keys FROM keys WHERE has_completed = 0 AND authenticated_at IS NOT NULL";
    if (this.#sql.exec<{ keys: number }>(taken).one().keys < LIMITS.newKeys) return true;
    this.#sql.exec(
      "INSERT INTO keys (key, last_seen, has_completed) VALUES (?, ?, 1) ON CONFLICT (key) DO UPDATE SET last_seen = excluded.last_seen",
      UNPLACED,
      now,
    );
    return false;
  }
}

/** The SubjectPublicKeyInfo header of an Ed25519 key (RFC 8410), before the 32 key bytes. */
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
/** The keys in the form that the check needs, by their hex text. Bounded. */
const keyObjects = new Map<string, KeyObject>();

function keyObject(publicKey: string): KeyObject {
  let key = keyObjects.get(publicKey);
  if (key === undefined) {
    if (keyObjects.size >= LIMITS.sockets) keyObjects.clear();
    key = createPublicKey({ key: Buffer.concat([SPKI, Buffer.from(publicKey, "hex")]), format: "der", type: "spki" });
    keyObjects.set(publicKey, key);
  }
  return key;
}

/**
 * True if `signature` is the signature of `publicKey` over the UTF-8 of `text`. The key must have passed `isPublicKey` (no small order) when it registered;
 * BoringSSL refuses S ≥ L. It is synchronous on purpose: nothing can change between the check and the decision.
 */
export function verifySync(text: string, signature: Uint8Array, publicKey: string): boolean {
  return verify(null, Buffer.from(text, "utf8"), keyObject(publicKey), signature);
}
