import { isCode } from "../worker/pair-panel.ts";
import { readJson, type Store, type User, writeJson } from "./user.ts";

const KEY = "compute-router-pairing-code";

/** A code that is shown, as `trust.create()` gave it. */
export type OpenCode = { code: string; expires_at: string; expiresAt: Date; workerUrl: string };

/** The code that was shown when the page was left, if it is this user's and still valid at `now`: phones throw pages away. */
export function readOpenCode(store: Store, { userId }: User, now: number): OpenCode | null {
  const stored = readJson(store, KEY);
  const [code, expires_at, until, workerUrl] = ["code", "expires_at", "until", "workerUrl"].map((name) => stored.get(name));
  if (stored.get("userId") !== userId || typeof code !== "string" || !isCode(code)) return null;
  if (typeof expires_at !== "string" || typeof until !== "number" || until <= now || typeof workerUrl !== "string") return null;
  return { code, expires_at, expiresAt: new Date(until), workerUrl };
}

/** Keeps the code that is shown; null forgets it. */
export function writeOpenCode(store: Store, { userId }: User, open: OpenCode | null): void {
  if (open === null) return store?.removeItem(KEY);
  const { code, expires_at, expiresAt, workerUrl } = open;
  writeJson(store, KEY, { userId, code, expires_at, until: expiresAt.getTime(), workerUrl });
}
