import type { WorkerNote } from "./desktop-worker.ts";
import { printable } from "./printable.ts";
import { FIRST_STATUS, nextStatus, type StatusFrame, statusLine } from "./worker-status.ts";

/** Where a view writes: a terminal, a pipe. */
export type Out = { write(text: string): unknown };

/** Shows what a worker does. */
export interface WorkerView {
  note(note: WorkerNote): void;
  /** A line that is no note: progress of an install, say. */
  say(line: string): void;
  /** Leaves the screen tidy. */
  close(): void;
}

/** One JSON object a line: `{"time", "type", …}`. `time` is ISO 8601. */
export function jsonView(out: Out, time: () => string): WorkerView {
  const write = (value: object) => out.write(`${JSON.stringify({ time: time(), ...value })}\n`);
  return { note: write, say: (message) => write({ type: "info", message }), close: () => {} };
}

/** One status line, drawn again in place, and above it what a person should know. */
export function lineView(out: Out, frame: () => StatusFrame): WorkerView {
  let status = FIRST_STATUS;
  const draw = () => out.write(`\r\u001B[2K${statusLine(status, frame())}`);
  const say = (line: string) => {
    out.write(`\r\u001B[2K${printable(line)}\n`);
    draw();
  };
  return {
    note: (note) => {
      status = nextStatus(status, note);
      const line = sentence(note);
      if (line === null) draw();
      else say(line);
    },
    say,
    close: () => out.write("\n"),
  };
}

/** The notes that deserve a line of their own. */
function sentence(note: WorkerNote): string | null {
  switch (note.type) {
    case "offline":
      return `offline: ${note.cause}${note.code === null ? "" : ` (${note.code})`}; trying again in ${(note.retry_in_ms / 1000).toFixed(1)} s`;
    case "tier":
      return `tier: ${note.tier}${note.tier === "Open" ? "; FAST jobs go to others" : ""}`;
    case "runtime_ready":
      return `LLM: ${note.model} by ${note.runtime}`;
    case "runtime_lost":
      return `LLM: ${note.runtime} is gone; working on tasks only until it is back`;
    case "runtime_missing":
      return `no LLM: working on tasks only; to get one, ${note.hint}`;
    case "job_failed":
      return `job ${note.job_id.slice(0, 8)} failed: ${note.error} (${note.message})`;
    case "job_acknowledged":
      return note.status === "rejected"
        ? `result of job ${note.job_id.slice(0, 8)} was rejected: ${note.error ?? "no reason given"}${clockHint(note.error)}`
        : null;
    case "result_dropped":
      return `result of job ${note.job_id.slice(0, 8)} was dropped: ${note.reason}`;
    case "draining":
      return "finishing the present job; once more to leave at once";
    case "warning":
    case "stopped":
      return note.message;
    default:
      return null;
  }
}

function clockHint(error: string | null): string {
  return error === "invalid_receipt" ? "; is this machine's clock right?" : "";
}
