const KEY = "compute-router-user";
const ID_BYTES = 16;

/** The user: an id, which is secret, and the optional token that protects it [TR1, TR2]. */
export type User = { userId: string; userToken: string | null };

/** The storage for a user or a code; null if the browser forbids it. */
export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem"> | null;

/** 128 random bits as 32 hex characters, which nobody can guess. */
export function randomSecret(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(ID_BYTES)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The user of the last visit; null on the first visit. */
export function readUser(store: Store): User | null {
  const stored = readJson(store, KEY);
  const userId = stored.get("userId");
  const userToken = stored.get("userToken");
  if (typeof userId !== "string" || userId === "") return null;
  return { userId, userToken: typeof userToken === "string" && userToken !== "" ? userToken : null };
}

/** Stores the user for the next visit. Returns false if the browser does not store it. */
export function writeUser(store: Store, user: User): boolean {
  return writeJson(store, KEY, user);
}

/** The members of a stored JSON object; an empty map if there is none. */
export function readJson(store: Store, key: string): Map<string, unknown> {
  try {
    const stored: unknown = JSON.parse(store?.getItem(key) ?? "null");
    return new Map(typeof stored === "object" && stored !== null ? Object.entries(stored) : []);
  } catch {
    return new Map();
  }
}

/** Stores an object as JSON. Returns false if the browser does not store it. */
export function writeJson(store: Store, key: string, value: object): boolean {
  try {
    store?.setItem(key, JSON.stringify(value));
    return store !== null;
  } catch {
    return false;
  }
}
