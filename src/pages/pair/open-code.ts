import { PAIRING_CODE } from "../../protocol/text.ts";
import { readJson, type Store, type User, writeJson } from "./user.ts";

const KEY = "compute-router-pairing-code";

/** The code that the page shows, as `trust.create()` returned it. */
export type OpenCode = { code: string; expires_at: string; expiresAt: Date; workerUrl: string };

/** The code that the page showed before it was unloaded, if it belongs to this user and is still valid at `now`. Phones unload pages at any time. */
export function readOpenCode(store: Store, { userId }: User, now: number): OpenCode | null {
  const stored = readJson(store, KEY);
  const [code, expires_at, until, workerUrl] = ["code", "expires_at", "until", "workerUrl"].map((name) => stored.get(name));
  if (stored.get("userId") !== userId || typeof code !== "string" || !PAIRING_CODE.test(code)) return null;
  if (typeof expires_at !== "string" || typeof until !== "number" || until <= now || typeof workerUrl !== "string") return null;
  return { code, expires_at, expiresAt: new Date(until), workerUrl };
}

/** Stores the code that the page shows; null deletes it. */
export function writeOpenCode(store: Store, { userId }: User, open: OpenCode | null): void {
  if (open === null) return store?.removeItem(KEY);
  const { code, expires_at, expiresAt, workerUrl } = open;
  writeJson(store, KEY, { userId, code, expires_at, until: expiresAt.getTime(), workerUrl });
}
