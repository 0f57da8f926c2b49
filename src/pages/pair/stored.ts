// What the pair page stores in the browser: the user for the next visit, and the open code while its tab lives.
import { PAIRING_CODE } from "../../protocol/text.ts";
import { toHex } from "../../receipt/bytes.ts";

/** The item of the storage that has the user. All tabs of the browser share it. */
export const USER_KEY = "compute-router-user";
const OPEN_CODE_KEY = "compute-router-pairing-code";
const ID_BYTES = 16;

/** The user: an id, which is secret, and the optional token that protects it [TR1, TR2]. */
export type User = { userId: string; userToken: string | null };

/** The storage for a user or a code; null if the browser forbids it. */
export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem"> | null;

/** 128 random bits as 32 hex characters, which nobody can guess. */
export function randomSecret(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(ID_BYTES)));
}

/** The user of the last visit; null on the first visit. */
export function readUser(store: Store): User | null {
  const stored = readJson(store, USER_KEY);
  const userId = stored.get("userId");
  const userToken = stored.get("userToken");
  if (typeof userId !== "string" || userId === "") return null;
  return { userId, userToken: typeof userToken === "string" && userToken !== "" ? userToken : null };
}

/** True if both are the same user with the same token, or nobody. */
export function sameUser(one: User | null, other: User | null): boolean {
  return one?.userId === other?.userId && one?.userToken === other?.userToken;
}

/** Stores the user for the next visit. Returns false if the browser does not store it. */
export function writeUser(store: Store, user: User): boolean {
  return writeJson(store, USER_KEY, user);
}

/**
 * The code that the page shows, as `trust.create()` returned it. `earlierUntil` is when the hour of the code that it has replaced is over, ms since the epoch;
 * left out if there was none.
 */
export type OpenCode = { code: string; expires_at: string; expiresAt: Date; workerUrl: string; earlierUntil?: number };

/** The code that the page showed before it was unloaded, if it belongs to this user and is still valid at `now`. Phones unload pages at any time. */
export function readOpenCode(store: Store, { userId }: User, now: number): OpenCode | null {
  const stored = readJson(store, OPEN_CODE_KEY);
  const [code, expires_at, until, workerUrl] = ["code", "expires_at", "until", "workerUrl"].map((name) => stored.get(name));
  if (stored.get("userId") !== userId || typeof code !== "string" || !PAIRING_CODE.test(code)) return null;
  if (typeof expires_at !== "string" || typeof until !== "number" || until <= now || typeof workerUrl !== "string") return null;
  const earlierUntil = stored.get("earlierUntil");
  return { code, expires_at, expiresAt: new Date(until), workerUrl, ...(typeof earlierUntil === "number" && { earlierUntil }) };
}

/** Stores the code that the page shows; null deletes it. */
export function writeOpenCode(store: Store, { userId }: User, open: OpenCode | null): void {
  if (open === null) return store?.removeItem(OPEN_CODE_KEY);
  const { code, expires_at, expiresAt, workerUrl, earlierUntil } = open;
  writeJson(store, OPEN_CODE_KEY, { userId, code, expires_at, until: expiresAt.getTime(), workerUrl, earlierUntil });
}

/** The members of a stored JSON object; an empty map if there is none. */
function readJson(store: Store, key: string): Map<string, unknown> {
  try {
    const stored: unknown = JSON.parse(store?.getItem(key) ?? "null");
    return new Map(typeof stored === "object" && stored !== null ? Object.entries(stored) : []);
  } catch {
    return new Map();
  }
}

/** Stores an object as JSON. Returns false if the browser does not store it. */
function writeJson(store: Store, key: string, value: object): boolean {
  try {
    store?.setItem(key, JSON.stringify(value));
    return store !== null;
  } catch {
    return false;
  }
}
