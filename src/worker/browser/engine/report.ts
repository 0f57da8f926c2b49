import type { Tier } from "../../../protocol/worker-messages.ts";
import type { SessionNote } from "../../session/session-event.ts";
import type { Stop } from "../../session/state.ts";

/** Where the worker's link is. Times are wall clock in ms since the epoch. */
export type LinkReport =
  | { kind: "off" }
  | { kind: "connecting" }
  | { kind: "online"; since: number; authenticated: boolean; tier: Tier | null; network: string | null }
  | { kind: "waiting"; until: number; cause: string; parked: boolean }
  /** Ended by somebody else: it takes a person to go on. */
  | { kind: "ended"; reason: Stop["reason"]; message: string };

/** All that a person sees of the worker's state. */
export type Report = {
  link: LinkReport;
  /** Finishes the present job and takes no other. */
  leaving: boolean;
  job: { jobId: string; since: number } | null;
  /** Finished results that the coordinator has not acknowledged. */
  unacknowledged: number;
  /** What is wrong with this device's clock; null while it agrees with the coordinator's. */
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
