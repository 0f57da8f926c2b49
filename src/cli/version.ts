import { readFileSync } from "node:fs";
import * as z from "zod";

/** The version of this package. Read, not imported: package.json lies outside of what the compiler may see. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return z.object({ version: z.string() }).parse(JSON.parse(text)).version;
}

/** Whether this Node has the WebSocket that working for a coordinator takes; all other commands do without. Node 22 was the first. */
export function hasWebSocket(): boolean {
  return typeof globalThis.WebSocket === "function";
}

/** What a hint to `worker start` says besides on a Node that cannot run it; empty on all others. */
export function needsNewerNode(): string {
  return hasWebSocket() ? "" : `, with Node 22 or newer (this is ${process.versions.node})`;
}

/** What to do on a Node without a WebSocket. */
export const NO_WEBSOCKET = `a worker needs Node 22 or newer, for its WebSocket; this is Node ${process.versions.node}. Get one at https://nodejs.org`;
