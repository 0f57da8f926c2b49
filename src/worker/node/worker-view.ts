// What a worker shows: status lines and sentences in a terminal, or one JSON object per line.
import { shortJobId, untrusted } from "../../protocol/text.ts";
import { shortKey } from "../../receipt/ed25519.ts";
import { clockSentence, offText } from "../session/index.ts";
import { fitted } from "./fitted.ts";
import { ownCommand } from "./program.ts";
import type { WorkerNote } from "./desktop-worker.ts";
import type { LinkStatus, WorkerStatus } from "./worker-status.ts";

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
    const now = frame();
    const lines = statusLines(status, now);
    const said = line === null ? [] : fitted(untrusted(line), now.columns);
    out.write(`${erase()}${[...said, ...lines].join("\n")}`);
    drawn = lines.length;
  };
  return {
    note: (note, next) => {
      // The worker leaves all coordinators at the same time, so one line is enough.
      const isKnown = (note.type === "draining" && status.draining) || (note.type === "offline" && causes.get(note.coordinator) === note.cause);
      const line = isKnown ? null : sentence(note, next, check);
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

/** The line for a note, after which the status is this one; null for a note without a line. */
function sentence(note: WorkerNote, { links }: WorkerStatus, check: string): string | null {
  switch (note.type) {
    case "offline":
      // 1006 means that the connection ended without a code [RFC 6455].
      return `offline: ${note.cause}${note.code === null || note.code === 1006 ? "" : ` (${note.code})`}; trying again. To check: ${check}`;
    case "tier":
      return `tier: ${note.tier}${note.tier === "Open" ? "; FAST jobs go to other workers" : ""}`;
    case "runtime_ready":
      return `LLM: ${note.model} by ${note.runtime}${note.hint === undefined ? "" : `; ${note.hint}`}`;
    case "runtime_lost":
      return `LLM: ${note.runtime} is no longer available; taking tasks only until it is back`;
    case "runtime_missing":
      return `no LLM: taking tasks only; to get one, ${note.hint}`;
    case "standby":
      return note.llm === "left" ? "LLM jobs: another worker takes them; this one stands by" : "LLM jobs: no other worker takes them; this one does";
    case "job_failed":
      return `job ${shortJobId(note.job_id)} failed: ${note.error} (${note.message})`;
    case "job_acknowledged":
      return note.status === "rejected"
        ? `result of job ${shortJobId(note.job_id)} was rejected: ${note.error ?? "no reason given"}${note.message === null ? clockHint(note.error) : ` (${note.message})`}`
        : null;
    case "result_dropped":
      return `result of job ${shortJobId(note.job_id)} was dropped: ${note.reason}`;
    case "draining":
      return links.some(({ job }) => job !== null)
        ? "no more jobs: leaving when the current one is done; press Ctrl-C again to leave at once"
        : "no more jobs: leaving";
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

/** What the status lines need besides the status. `now` is the wall clock in ms since the epoch. */
type StatusFrame = { publicKey: string; color: boolean; columns: number; now: number };

/**
 * The status, cut to the width of the terminal: one line, or with several coordinators one line for each and one for their common part. What changes most
 * comes first, so that 80 columns show it.
 */
export function statusLines(status: WorkerStatus, frame: StatusFrame): string[] {
  const { links, llm } = status;
  const key = `key ${shortKey(frame.publicKey)}`;
  const model = llm?.model ?? "tasks only";
  const [only] = links;
  if (links.length === 1 && only !== undefined) {
    return [
      marked(
        only,
        status,
        [stateOf(only, status), nameOf(only), ...clockOf(only), ...countsOf(only), ...workOf(only, frame.now), key, ...tierOf(only), model, ...speedOf(links)],
        frame,
      ),
    ];
  }
  const state = Math.max(...links.map((link) => stateOf(link, status).length));
  const name = Math.max(...links.map((link) => nameOf(link).length));
  const lines = links.map((link) =>
    marked(
      link,
      status,
      [stateOf(link, status).padEnd(state), nameOf(link).padEnd(name), ...clockOf(link), ...countsOf(link), ...workOf(link, frame.now), ...tierOf(link)],
      frame,
    ),
  );
  return [...lines, cut(`  ${[key, model, ...speedOf(links)].join("  ")}`, frame.columns)];
}

function stateOf({ link }: LinkStatus, { draining }: WorkerStatus): string {
  return draining && link !== "stopped" ? "finishing" : link;
}

function nameOf({ network, coordinator }: LinkStatus): string {
  return `${instanceOf(network)}${coordinator}`;
}

/** The instance that serves a network, as a word for the line. */
function instanceOf(network: string | null): string {
  if (network === null) return "";
  const [namespace] = network.split(":");
  if (namespace === "eip155") return "evm ";
  return namespace === "solana" ? "svm " : `${namespace} `;
}

function tierOf({ link, authenticated, tier }: LinkStatus): string[] {
  if (link !== "online") return [];
  return [authenticated ? (tier ?? "signed") : "not signed"];
}

/** A job counts as ok once the coordinator has accepted its result. A result that was only sent may still be rejected. */
function countsOf({ jobs, results, lastRejection }: LinkStatus): string[] {
  const failed = jobs.LLM_INFER.failed + jobs.TASK.failed;
  const all = jobs.LLM_INFER.completed + jobs.TASK.completed + failed;
  const ok = (results.accepted ?? 0) + (results.duplicate ?? 0);
  const rejected = (results.rejected ?? 0) + (results.dropped ?? 0);
  const settled = ok + rejected + failed;
  return [
    `jobs ${all}`,
    // Rounded down, so that 100% means all.
    ...(settled > 0 ? [`ok ${Math.floor((100 * ok) / settled)}%`] : []),
    ...(rejected > 0 ? [`rejected ${rejected}${lastRejection === null ? "" : ` (${lastRejection})`}`] : []),
  ];
}

function clockOf({ clockOff }: LinkStatus): string[] {
  return clockOff === null ? [] : [`clock ${offText(clockOff)} the coordinator's`];
}

function speedOf(links: readonly LinkStatus[]): string[] {
  const tokens = links.reduce((sum, link) => sum + link.tokens, 0);
  const ms = links.reduce((sum, link) => sum + link.tokenMs, 0);
  return ms > 0 ? [`${Math.round((1000 * tokens) / ms)} tok/s`] : [];
}

/** What the worker does now. Seconds appear only for a job that takes at least one. */
function workOf({ job, waits }: LinkStatus, now: number): string[] {
  if (job === null) return waits ? ["waiting for the LLM"] : [];
  const seconds = Math.floor((now - job.since) / 1000);
  return [["working", ...(seconds > 0 ? [`${seconds} s`] : []), ...(job.chars > 0 ? [`${job.chars} characters`] : [])].join(" ")];
}

function marked(link: LinkStatus, status: WorkerStatus, parts: string[], { color, columns }: StatusFrame): string {
  const mark = link.link === "online" ? "●" : "○";
  return `${color ? paint(mark, link, status) : mark} ${cut(parts.join("  "), columns - 2)}`;
}

/**
 * Cuts a line. It escapes the text, because the coordinator states the network and the runtime states the model. A short key may end with an ellipsis of its
 * own.
 */
function cut(text: string, columns: number): string {
  const characters = [...untrusted(text)];
  if (characters.length <= columns) return characters.join("");
  const shown = characters.slice(0, Math.max(0, columns - 1)).join("");
  return `${shown.replace(/…$/, "")}…`;
}

function paint(mark: string, { link }: LinkStatus, { draining }: WorkerStatus): string {
  const code = link === "stopped" ? 31 : link === "online" && !draining ? 32 : 33;
  return `\u001B[${code}m${mark}\u001B[39m`;
}
