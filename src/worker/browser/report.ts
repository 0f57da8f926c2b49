// What the worker page knows about its worker: the state and the sentences made from the session's notes, and the messages between page and engine.
import { shortJobId } from "../../protocol/text.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import { clockSentence } from "../session/clock.ts";
import type { SessionNote, Stop } from "../session/state.ts";
import type { JobRecord } from "./history.ts";
import type { WorkerIdentity } from "./identity.ts";
import type { StorageState } from "./kept-store.ts";

/** The coordinator or another worker ended the link. Only a person can continue. */
export type EndedLink = { kind: "ended"; reason: Stop["reason"]; message: string };

/** The state of the worker's link. Times are the wall clock in ms since the epoch. */
type LinkReport =
  | { kind: "off" }
  | { kind: "connecting" }
  | { kind: "online"; since: number; authenticated: boolean; tier: Tier | null; network: string | null }
  | { kind: "waiting"; until: number; cause: string; parked: boolean }
  | EndedLink;

/** Everything that a person sees of the worker's state. */
export type Report = {
  link: LinkReport;
  /** True while the worker finishes its current job and takes no other. */
  leaving: boolean;
  job: { jobId: string; since: number } | null;
  /** Finished results that the coordinator has not acknowledged. */
  unacknowledged: number;
  /** How far this device's clock is off; null while it agrees with the coordinator's. */
  clock: { refused: boolean; offMs: number } | null;
};

/** Before the first session. */
export const FIRST_REPORT: Report = { link: { kind: "off" }, leaving: false, job: null, unacknowledged: 0, clock: null };

/** The report after a note of the session. */
export function nextReport(report: Report, note: SessionNote, now: number): Report {
  switch (note.type) {
    case "connecting":
      return { ...report, link: { kind: "connecting" } };
    case "online": {
      const { authenticated, tier, network } = note;
      return { ...report, link: { kind: "online", since: now, authenticated, tier, network } };
    }
    case "tier":
      return report.link.kind === "online" ? { ...report, link: { ...report.link, tier: note.tier } } : report;
    case "offline":
      return { ...report, link: { kind: "waiting", until: now + note.retry_in_ms, cause: note.cause, parked: note.cause === "parked" } };
    case "draining":
      return { ...report, leaving: true };
    case "stopped": {
      const { reason, message } = note;
      const own = reason === "stopped" || reason === "drained";
      return { ...report, link: own ? { kind: "off" } : { kind: "ended", reason, message }, leaving: false, job: null };
    }
    case "job_started":
      return { ...report, job: { jobId: note.job_id, since: now } };
    case "job_finished":
    case "job_failed":
    case "job_cancelled":
      return report.job?.jobId === note.job_id ? { ...report, job: null } : report;
    case "clock":
      return { ...report, clock: note.verdict === "right" ? null : { refused: note.verdict === "refused", offMs: note.off_ms } };
    case "job_waiting":
    case "job_progress":
    case "woke":
    case "job_rejected":
    case "job_acknowledged":
    case "result_dropped":
    case "warning":
      return report;
    default:
      return note satisfies never;
  }
}

/** A note as a sentence for the list of events; null for a note that the state already shows. */
export function eventText(note: SessionNote): { tone: "info" | "warning"; text: string } | null {
  switch (note.type) {
    case "online":
      return note.authenticated
        ? { tone: "info", text: "Connected, and the coordinator has checked the key." }
        : { tone: "warning", text: "Connected, but the coordinator has not checked the key: it gives no PRIVATE jobs." };
    case "offline":
      return { tone: "warning", text: `Offline: ${note.cause}${note.code === null ? "" : ` (${note.code})`}.` };
    case "job_failed":
      return { tone: "warning", text: `Job ${shortJobId(note.job_id)} failed: ${note.error} (${note.message}).` };
    case "job_cancelled":
      return { tone: "info", text: `Job ${shortJobId(note.job_id)} was cancelled by the coordinator: ${note.reason}.` };
    case "job_acknowledged":
      if (note.status !== "rejected") return null;
      return {
        tone: "warning",
        text: `The result of job ${shortJobId(note.job_id)} was rejected: ${note.error ?? "no reason given"}.${note.message === null ? "" : ` The coordinator says: ${sentence(note.message)}`}`,
      };
    case "result_dropped":
      return {
        tone: "warning",
        text: `The result of job ${shortJobId(note.job_id)} was dropped: ${note.reason === "expired" ? "too old to count" : "no room"}.`,
      };
    case "clock":
      return { tone: note.verdict === "right" ? "info" : "warning", text: sentence(clockSentence(note.verdict, note.off_ms)) };
    case "warning":
      return { tone: "warning", text: sentence(note.message) };
    case "stopped":
      return note.reason === "replaced"
        ? { tone: "warning", text: "Another connection with the same key has taken over." }
        : { tone: "info", text: sentence(note.message) };
    case "draining":
      return { tone: "info", text: "Taking no new jobs." };
    case "tier":
      return { tone: "info", text: `This worker's stake tier is now ${note.tier}.` };
    // The engine reports this itself, because it notices a frozen page too.
    case "woke":
    case "job_waiting":
    case "job_progress":
    case "connecting":
    case "job_started":
    case "job_finished":
    case "job_rejected":
      return null;
    default:
      return note satisfies never;
  }
}

/** A text with a capital letter at its beginning and a full stop at its end. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** A pairing of this worker. The user's id is a secret of the other side and is not stored. */
export type Pairing = { code: string; pairedAt: string; network: string };

/** The messages from the page to the engine. */
export type PageMessage =
  /** Take jobs. */
  | { type: "work" }
  /** Finish the current job, take no other, leave. */
  | { type: "rest" }
  /** Leave at once. */
  | { type: "stop" }
  /** The network is back, or the page was frozen. */
  | { type: "nudge" }
  | { type: "pair"; code: string }
  | { type: "clear_history" }
  /** Store the worker again after it was deleted from this browser. */
  | { type: "store_again" };

/** The messages from the engine to the page. */
export type EngineMessage =
  | { type: "ready"; identity: WorkerIdentity; pairings: readonly Pairing[]; records: readonly JobRecord[]; delivered: number; version: string; engine: string }
  | { type: "report"; report: Report }
  /** A job is new or has changed. */
  | { type: "record"; record: JobRecord; delivered: number }
  | { type: "history_cleared" }
  | { type: "paired"; pairings: readonly Pairing[] }
  | { type: "pairing_failed"; message: string }
  /** A line for the list of events. */
  | { type: "event"; at: number; tone: "info" | "warning"; text: string }
  | { type: "storage"; state: StorageState }
  /** A newer version of this page is in use: this one takes no more jobs. */
  | { type: "outdated" }
  /** The engine cannot work at all. */
  | { type: "broken"; message: string };
