import { writeD1 } from "./database.ts";

/**
 * Notes that a user makes a pairing code, and gives the token hash that stands for this user; null for one whose first code came without.
 * The first code ever decides, this one or an earlier one: of two at once one wins, and both are told the same [TR2]. @throws {StoreUnavailable}
 */
export async function boundToken(db: D1Database, userId: string, tokenHash: string | null, now: number): Promise<string | null> {
  const [, read] = await writeD1(db, () =>
    db.batch<{ token_hash: string | null }>([
      db
        .prepare(
          // A router of before tokens, still at work during a deploy, makes codes and no row here.
          `INSERT INTO users (user_id, token_hash, created_at)
           SELECT ?1, CASE WHEN EXISTS (SELECT 1 FROM pairings WHERE user_id = ?1) THEN NULL ELSE ?2 END, ?3 WHERE true
           ON CONFLICT (user_id) DO NOTHING`,
        )
        .bind(userId, tokenHash, now),
      db.prepare("SELECT token_hash FROM users WHERE user_id = ?").bind(userId),
    ]),
  );
  return read?.results[0]?.token_hash ?? null;
}
