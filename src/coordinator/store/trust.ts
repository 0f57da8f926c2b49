// Pairings and user tokens in D1. A PRIVATE job's commit reads the paired keys here.
import { and, desc, eq, gt, inArray, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { LIMITS } from "../../protocol/limits.ts";
import type { ClaimRefusal } from "../../protocol/rest.ts";
import type { Result } from "../../protocol/result.ts";
import { DAY, TIMING } from "../../protocol/times.ts";
import type { BoundToken } from "../hub/rpc.ts";
import { errorFacts, logError } from "../log.ts";
import { readD1, writeD1 } from "./database.ts";
import { pairings, users } from "./schema.ts";

/** A worker that is paired with a user. `pairedAt` is in ms since the epoch. */
export type Pairing = { providerPubkey: string; pairedAt: number };

/**
 * A user's paired workers, newest first, each once; the user's token hash, null without a token [TR2]; and since when one of these rows has not been marked as
 * used (ms since the epoch), see {@link noteUse}.
 */
type UserTrust = { tokenHash: string | null; pairings: Pairing[]; usedAt: number };

/** A use of a user's token. `usedAt`: when one was noted last; `requestId`: of which request, for the log. */
type Use = { userId: string; keys: readonly string[]; usedAt: number; requestId: string };

/** One row for each paired worker, or one without a worker; `user_used_at` is null without a user. */
type TrustRow = { token_hash: string | null; user_used_at: number | null; provider_pubkey: string | null; paired_at: number | null; used_at: number | null };

/** Each statement is a message to D1, so this is one: every PRIVATE commit waits for it. */
const READ_TRUST = `SELECT token_hash, users.used_at AS user_used_at, provider_pubkey, paired_at, paired.used_at
  FROM (SELECT ?1 AS user_id) AS asked
  LEFT JOIN users ON users.user_id = asked.user_id
  LEFT JOIN (
    SELECT provider_pubkey, max(paired_at) AS paired_at, max(used_at) AS used_at, max(id) AS id FROM pairings
    WHERE user_id = ?1 AND claimed = 1 GROUP BY provider_pubkey ORDER BY 2 DESC, 4 DESC LIMIT ?2
  ) AS paired
  ORDER BY paired_at DESC, id DESC`;

/** Reads the paired workers and the token hash of a user in one call: at most `limit` workers, or all if it is null. @throws {StoreUnavailable} */
export async function trustOf(db: D1Database, userId: string, limit: number | null = LIMITS.pairedKeys): Promise<UserTrust> {
  const { results } = await readD1(db, () =>
    db
      .prepare(READ_TRUST)
      .bind(userId, limit ?? -1)
      .all<TrustRow>(),
  );
  const paired = results.flatMap(({ provider_pubkey: providerPubkey, paired_at: pairedAt, used_at: usedAt }) =>
    providerPubkey === null || pairedAt === null ? [] : [{ providerPubkey, pairedAt, usedAt: usedAt ?? 0 }],
  );
  const [user] = results;
  return {
    tokenHash: user?.token_hash ?? null,
    usedAt: Math.min(...paired.map(({ usedAt }) => usedAt), user?.user_used_at ?? Infinity),
    pairings: paired.map(({ providerPubkey, pairedAt }) => ({ providerPubkey, pairedAt })),
  };
}

/** Returns the token that is bound to a user; null if there is no token, or no such user [TR2]. @throws {StoreUnavailable} */
export async function tokenOf(db: D1Database, userId: string): Promise<BoundToken | null> {
  return (await tokensOf(db, [userId])).get(userId) ?? null;
}

/** Returns the tokens that are bound to these users, by their ids. @throws {StoreUnavailable} */
export async function tokensOf(db: D1Database, userIds: readonly string[]): Promise<Map<string, BoundToken>> {
  const { userId, tokenHash, createdAt: boundAt, usedAt } = users;
  const query = drizzle(db)
    .select({ userId, hash: tokenHash, boundAt, usedAt })
    .from(users)
    .where(inArray(userId, [...userIds]));
  const found = await readD1(db, () => query);
  return new Map(found.flatMap(({ userId: id, hash, ...times }) => (hash === null ? [] : [[id, { hash, ...times }]])));
}

/**
 * Notes that a user has just given the token, so that retention keeps the user and these of the user's pairings [LM3]. Once a day is often enough. A pairing
 * that is older than the newest ones, which are all that a PRIVATE job is offered to, is not marked. A request does not depend on it: the next one tries again.
 * Never rejects.
 */
export async function noteUse(db: D1Database, { userId, keys, usedAt, requestId }: Use, now = Date.now()): Promise<void> {
  if (now - usedAt < DAY) return;
  await markUsed(db, userId, keys, now).catch((error: unknown) => logError("pairings_not_marked", { request_id: requestId, ...errorFacts(error) }));
}

/** @throws {StoreUnavailable} */
async function markUsed(db: D1Database, userId: string, keys: readonly string[], now: number): Promise<void> {
  const orm = drizzle(db);
  const isOneOf = sql`${pairings.providerPubkey} IN (SELECT value FROM json_each(${JSON.stringify(keys)}))`;
  await writeD1(db, () =>
    orm.batch([
      orm.update(users).set({ usedAt: now }).where(eq(users.userId, userId)),
      orm
        .update(pairings)
        .set({ usedAt: now })
        .where(and(eq(pairings.userId, userId), eq(pairings.claimed, true), isOneOf)),
    ]),
  );
}

/** The size of each D1, in bytes, as its last answer to this isolate about codes told it. */
const sizes = new WeakMap<D1Database, number>();

/**
 * True if D1 has reached this size, so that nothing new may be stored [LM3]. Once it has, it is asked each time: retention makes room.
 * @throws {StoreUnavailable}
 */
export async function isFull(db: D1Database, most: number): Promise<boolean> {
  if ((sizes.get(db) ?? 0) < most) return false;
  const { meta } = await readD1(db, () => db.prepare("SELECT 1").run());
  sizes.set(db, meta.size_after);
  return meta.size_after >= most;
}

/** Why a new code was not stored. `too_many`: the user may have no more open codes until `until` (ms since the epoch). */
type CodeFault = { kind: "taken" } | { kind: "too_many"; until: number };

/**
 * Stores a new pairing code and returns when it expires (ms since the epoch). It is one statement, so that two users never get the same code and no
 * user gets too many [TR3]. `openLimit` is the most open codes of one user; null means no limit. @throws {StoreUnavailable}
 */
export async function storeCode(
  db: D1Database,
  fresh: { code: string; userId: string; now: number; openLimit: number | null },
): Promise<Result<number, CodeFault>> {
  const { code, userId, now, openLimit } = fresh;
  const expiresAt = now + TIMING.pairingCode;
  const insert = db
    .prepare(
      `INSERT INTO pairings (pairing_code, user_id, claimed, created_at, expires_at)
       SELECT ?1, ?2, 0, ?3, ?4
       WHERE NOT EXISTS (SELECT 1 FROM pairings WHERE pairing_code = ?1 AND claimed = 0 AND expires_at > ?3)
         AND (?5 IS NULL OR (SELECT count(*) FROM pairings WHERE user_id = ?2 AND claimed = 0 AND expires_at > ?3) < ?5)`,
    )
    .bind(code, userId, now, expiresAt, openLimit);
  const { meta } = await writeD1(db, () => insert.run());
  sizes.set(db, meta.size_after);
  if (meta.changes > 0) return { ok: true, value: expiresAt };
  if (openLimit === null) return { ok: false, reason: { kind: "taken" } };
  const open = drizzle(db)
    .select({ count: sql<number>`count(*)`, until: sql<number | null>`min(expires_at)` })
    .from(pairings)
    .where(and(eq(pairings.userId, userId), eq(pairings.claimed, false), gt(pairings.expiresAt, now)));
  const [row] = await readD1(db, () => open);
  if (row === undefined || row.until === null || row.count < openLimit) return { ok: false, reason: { kind: "taken" } };
  return { ok: false, reason: { kind: "too_many", until: row.until } };
}

/**
 * Claims a code (6 upper-case hex digits) for a worker's key and returns the user id. It is one conditional UPDATE, so a race has one winner [API4].
 * @throws {StoreUnavailable}
 */
export async function claimCode(db: D1Database, code: string, providerPubkey: string, now: number): Promise<Result<string, ClaimRefusal>> {
  const orm = drizzle(db);
  const newest = orm.select({ id: pairings.id }).from(pairings).where(eq(pairings.pairingCode, code)).orderBy(desc(pairings.id)).limit(1);
  const claim = orm
    .update(pairings)
    .set({ claimed: true, providerPubkey, pairedAt: now, usedAt: now })
    .where(and(eq(pairings.id, sql`(${newest})`), eq(pairings.claimed, false), gt(pairings.expiresAt, now)))
    .returning({ userId: pairings.userId });
  const [won] = await writeD1(db, () => claim);
  if (won !== undefined) return { ok: true, value: won.userId };
  const look = orm.select({ claimed: pairings.claimed }).from(pairings).where(eq(pairings.pairingCode, code)).orderBy(desc(pairings.id)).limit(1);
  const [row] = await readD1(db, () => look);
  if (row === undefined) return { ok: false, reason: "invalid_code" };
  return { ok: false, reason: row.claimed ? "already_claimed" : "expired" };
}

/**
 * Records that a user creates a pairing code, and returns the token hash that is bound to this user; null if the first
 * code came without a token. The user's first code decides: if two come at once, one wins, and both calls return its
 * hash [TR2]. A request with the token keeps the user from being forgotten [LM3]. @throws {StoreUnavailable}
 */
export async function boundToken(db: D1Database, userId: string, tokenHash: string | null, now: number): Promise<string | null> {
  const [, read] = await writeD1(db, () =>
    db.batch<{ token_hash: string | null }>([
      db
        .prepare(
          // A user with codes but without a row here has never bound a token. A stranger must not be able to bind one now.
          `INSERT INTO users (user_id, token_hash, created_at, used_at)
           SELECT ?1, CASE WHEN EXISTS (SELECT 1 FROM pairings WHERE user_id = ?1) THEN NULL ELSE ?2 END, ?3, ?3 WHERE true
           ON CONFLICT (user_id) DO UPDATE SET used_at = ?3 WHERE used_at <= ?4 AND (token_hash IS NULL OR token_hash = ?2)`,
        )
        .bind(userId, tokenHash, now, now - DAY),
      db.prepare("SELECT token_hash FROM users WHERE user_id = ?").bind(userId),
    ]),
  );
  return read?.results[0]?.token_hash ?? null;
}
