import type { JobRecord } from "./job-record.ts";
import type { Report } from "./report.ts";

/** The newest jobs that are remembered. */
export const HISTORY_JOBS = 300;

/** Who this worker is. */
export type WorkerIdentity = {
  /** 64 lowercase hex characters. */
  publicKey: string;
  /** What to compare by eye. */
  words: readonly string[];
  /** `locked`: the browser keeps the key and gives it to nobody. `stored`: this browser cannot, so the seed lies in its storage. */
  custody: "locked" | "stored";
  /** False when the browser refused to store anything: the key is gone with the tab. */
  kept: boolean;
};

/** A pairing that this worker made. The user's id is the other side's secret and is not kept. */
export type Pairing = { code: string; pairedAt: string; network: string };

/**
 * What has become of the browser's storage: all is on disk; it never was to be had; it was deleted while the worker ran; it takes nothing more; it
 * does not answer; a newer version of this page has it. In all but the last one the worker goes on in memory.
 */
export type StorageState = "kept" | "blocked" | "cleared" | "full" | "failed" | "outdated";

/** What the page asks of the engine. */
export type PageMessage =
  /** Take jobs. */
  | { type: "work" }
  /** Finish the present job, take no other, leave. */
  | { type: "rest" }
  /** Leave at once. */
  | { type: "stop" }
  /** The network is back, or the page was frozen. */
  | { type: "nudge" }
  | { type: "pair"; code: string }
  | { type: "clear_history" }
  /** Store the worker again that was deleted from this browser. */
  | { type: "store_again" };

/** What the engine tells the page. */
export type EngineMessage =
  | { type: "ready"; identity: WorkerIdentity; pairings: readonly Pairing[]; records: readonly JobRecord[]; delivered: number; version: string; engine: string }
  | { type: "report"; report: Report }
  /** A job is new or has changed. */
  | { type: "record"; record: JobRecord; delivered: number }
  | { type: "history_cleared" }
  | { type: "paired"; pairings: readonly Pairing[] }
  | { type: "pairing_failed"; message: string }
  /** Something that a person should know. */
  | { type: "event"; at: number; tone: "info" | "warning"; text: string }
  | { type: "storage"; state: StorageState }
  /** A newer version of this page is in use: this one takes no more jobs. */
  | { type: "outdated" }
  /** The engine cannot work at all. */
  | { type: "broken"; message: string };
