import { clockSentence } from "../session/clock.ts";
import type { SessionNote } from "../session/session-event.ts";

/** A note as a sentence for the list of events; null for a note that the state already shows. */
export function eventText(note: SessionNote): { tone: "info" | "warning"; text: string } | null {
  switch (note.type) {
    case "online":
      return note.authenticated
        ? { tone: "info", text: "Connected, and the coordinator has checked the key." }
        : { tone: "warning", text: "Connected, but the coordinator has not checked the key: it gives no PRIVATE jobs." };
    case "offline":
      return { tone: "warning", text: `Connection lost: ${note.cause}${note.code === null ? "" : ` (${note.code})`}.` };
    case "job_failed":
      return { tone: "warning", text: `Job ${note.job_id.slice(0, 8)} failed: ${note.error} (${note.message}).` };
    case "job_cancelled":
      return { tone: "info", text: `Job ${note.job_id.slice(0, 8)} was cancelled by the coordinator: ${note.reason}.` };
    case "job_acknowledged":
      if (note.status !== "rejected") return null;
      return {
        tone: "warning",
        text: `The result of job ${note.job_id.slice(0, 8)} was rejected: ${note.error ?? "no reason given"}.${note.message === null ? "" : ` The coordinator says: ${sentence(note.message)}`}`,
      };
    case "result_dropped":
      return {
        tone: "warning",
        text: `The result of job ${note.job_id.slice(0, 8)} was dropped: ${note.reason === "expired" ? "too old to count" : "no room"}.`,
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
