// The versions of this program and of its Node, and what a Node without a WebSocket cannot do.
import { readFileSync } from "node:fs";
import * as z from "zod";

/** The version of this package. It is read at run time, because package.json is outside the folders of the compiler. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return z.object({ version: z.string() }).parse(JSON.parse(text)).version;
}

/** True if this Node has a WebSocket (Node 22 and later). Only a worker needs it. */
export function hasWebSocket(): boolean {
  return typeof globalThis.WebSocket === "function";
}

/** An addition to a hint at `worker start`, for a Node that cannot run it; empty for all others. */
export function needsNewerNode(): string {
  return hasWebSocket() ? "" : `, with Node 22 or newer (this is ${process.versions.node})`;
}

/** Advice for a Node without a WebSocket. */
export const NO_WEBSOCKET = `a worker needs Node 22 or newer, for its WebSocket; this is Node ${process.versions.node}. Get one at https://nodejs.org`;
