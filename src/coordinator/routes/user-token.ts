import { createHash, timingSafeEqual } from "node:crypto";
import { LIMITS } from "../../protocol/limits.ts";

/** What the header `X-User-Token` said: the hash that is kept of it, null where it was not sent; or what is wrong with it. */
export type TokenReading = { ok: true; hash: string | null } | { ok: false; error: string };

const TOKEN = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.userTokenChars}}$`);

/** Reads a user's token [TR2]. Its hash is SHA-256 over a name, the user and the token, so that two users with one token have two hashes. */
export function readUserToken(header: string | undefined, userId: string): TokenReading {
  if (header === undefined) return { ok: true, hash: null };
  if (!TOKEN.test(header)) return { ok: false, error: `X-User-Token must be 1 to ${LIMITS.userTokenChars} printable ASCII characters` };
  return { ok: true, hash: createHash("sha256").update(`compute-router/user-token/v1\n${userId}\n${header}`).digest("hex") };
}

/** Whether who sent `given` may act for a user to whom `bound` stands; takes as long for a wrong token as for the right one. */
export function provesUser(given: string | null, bound: string | null): boolean {
  if (bound === null) return true;
  return given !== null && given.length === bound.length && timingSafeEqual(Buffer.from(given), Buffer.from(bound));
}
