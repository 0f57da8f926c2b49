// What a worker shows: status lines and sentences in a terminal, or one JSON object per line.
import { clockSentence } from "../session/index.ts";
import { ownCommand } from "./command-name.ts";
import type { WorkerNote } from "./desktop-worker.ts";
import { type StatusFrame, statusLines, untrusted } from "./status-line.ts";
import type { WorkerStatus } from "./worker-status.ts";

/** The output of a view: a terminal or a pipe. */
type Out = { write(text: string): unknown };

/** Shows what a worker does. */
export interface WorkerView {
  /** Shows a note; `status` is the status after it. */
  note(note: WorkerNote, status: WorkerStatus): void;
  /** Updates the shown seconds. */
  tick(): void;
  /** Shows a line that is not a note, for example the progress of an install. */
  say(line: string): void;
  /** Ends the output with a line end. */
  close(): void;
}

/** How often a log shows the progress of a long job. A terminal shows every second. */
const LOGGED_PROGRESS_MS = 10_000;

/** One JSON object per line: `{"time", "type", …}`. `time` is ISO 8601. */
export function jsonView(out: Out, time: () => string): WorkerView {
  const write = (value: object) => out.write(`${JSON.stringify({ time: time(), ...value })}\n`);
  const told = new Map<string, number>();
  return {
    note: (note) => {
      if (note.type === "job_progress") {
        if (note.ms - (told.get(note.coordinator) ?? 0) < LOGGED_PROGRESS_MS) return;
        told.set(note.coordinator, note.ms);
      }
      if (note.type === "job_started") told.delete(note.coordinator);
      write(note);
    },
    tick: () => {},
    say: (message) => write({ type: "info", message }),
    close: () => {},
  };
}

/**
 * Status lines that are redrawn in place, and above them the notes for a person. `check` is the command that finds out why a coordinator cannot be reached.
 */
export function lineView(out: Out, first: WorkerStatus, frame: () => StatusFrame, check: string = ownCommand("worker doctor")): WorkerView {
  let status = first;
  /** Why each coordinator is offline. The worker retries every few seconds, and the same reason is shown once. */
  const causes = new Map<string, string>();
  let drawn = 0;
  const erase = () => `\r${drawn > 1 ? `\u001B[${drawn - 1}A` : ""}\u001B[J`;
  const show = (line: string | null) => {
    const lines = statusLines(status, frame());
    out.write(`${erase()}${line === null ? "" : `${untrusted(line)}\n`}${lines.join("\n")}`);
    drawn = lines.length;
  };
  return {
    note: (note, next) => {
      // The worker leaves all coordinators at the same time, so one line is enough.
      const isKnown = (note.type === "draining" && status.draining) || (note.type === "offline" && causes.get(note.coordinator) === note.cause);
      const line = isKnown ? null : sentence(note, check);
      if (note.type === "offline") causes.set(note.coordinator, note.cause);
      if (note.type === "online") causes.delete(note.coordinator);
      status = next;
      const named = "coordinator" in note && note.type !== "draining" && next.links.length > 1;
      show(line !== null && named ? `${note.coordinator}: ${line}` : line);
    },
    tick: () => {
      if (status.links.some(({ job }) => job !== null)) show(null);
    },
    say: show,
    close: () => out.write("\n"),
  };
}

/** The line for a note; null for a note without a line. */
function sentence(note: WorkerNote, check: string): string | null {
  switch (note.type) {
    case "offline":
      // 1006 means that the connection ended without a code [RFC 6455].
      return `offline: ${note.cause}${note.code === null || note.code === 1006 ? "" : ` (${note.code})`}; trying again. To check: ${check}`;
    case "tier":
      return `tier: ${note.tier}${note.tier === "Open" ? "; FAST jobs go to other workers" : ""}`;
    case "runtime_ready":
      return `LLM: ${note.model} by ${note.runtime}`;
    case "runtime_lost":
      return `LLM: ${note.runtime} is no longer available; taking tasks only until it is back`;
    case "runtime_missing":
      return `no LLM: taking tasks only; to get one, ${note.hint}`;
    case "standby":
      return note.llm === "left" ? "LLM jobs: another worker takes them; this one stands by" : "LLM jobs: no other worker takes them; this one does";
    case "job_failed":
      return `job ${note.job_id.slice(0, 8)} failed: ${note.error} (${note.message})`;
    case "job_acknowledged":
      return note.status === "rejected"
        ? `result of job ${note.job_id.slice(0, 8)} was rejected: ${note.error ?? "no reason given"}${note.message === null ? clockHint(note.error) : ` (${note.message})`}`
        : null;
    case "result_dropped":
      return `result of job ${note.job_id.slice(0, 8)} was dropped: ${note.reason}`;
    case "draining":
      return "no more jobs: leaving when the current one is done; press Ctrl-C again to leave at once";
    case "woke":
      return `this machine slept for ${Math.round(note.slept_ms / 1000)} s: checking the connection`;
    case "clock":
      return clockSentence(note.verdict, note.off_ms);
    case "warning":
    case "stopped":
      return note.message;
    default:
      return null;
  }
}

function clockHint(error: string | null): string {
  return error === "invalid_receipt" ? `; is this machine's clock correct? To check: ${ownCommand("worker doctor")}` : "";
}
