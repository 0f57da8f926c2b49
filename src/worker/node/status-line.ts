// The status lines of a worker in a terminal, and the escaping of untrusted text for terminals.
import { offText } from "../session/index.ts";
import type { LinkStatus, WorkerStatus } from "./worker-status.ts";

/** What the status lines need besides the status. `now` is the wall clock in ms since the epoch. */
export type StatusFrame = { publicKey: string; color: boolean; columns: number; now: number };

/** The status, cut to the width of the terminal: one line, or with several coordinators one line for each and one for their common part. */
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
        [stateOf(only, status), nameOf(only), ...clockOf(only), key, ...tierOf(only), model, ...countsOf(only), ...speedOf(links), ...workOf(only, frame.now)],
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
      [stateOf(link, status).padEnd(state), nameOf(link).padEnd(name), ...clockOf(link), ...tierOf(link), ...countsOf(link), ...workOf(link, frame.now)],
      frame,
    ),
  );
  return [...lines, cut(`  ${[key, model, ...speedOf(links)].join("  ")}`, frame.columns)];
}

/** A public key in a short form that is easy to compare. */
export function shortKey(publicKey: string): string {
  return `${publicKey.slice(0, 4)}…${publicKey.slice(-4)}`;
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
  const told = ok + rejected + failed;
  return [
    `jobs ${all}`,
    // Rounded down, so that 100% means all.
    ...(told > 0 ? [`ok ${Math.floor((100 * ok) / told)}%`] : []),
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

/** Cuts a line. It escapes the text, because the coordinator states the network and the runtime states the model. */
function cut(text: string, columns: number): string {
  const characters = [...untrusted(text)];
  return characters.length > columns ? `${characters.slice(0, Math.max(0, columns - 1)).join("")}…` : characters.join("");
}

function paint(mark: string, { link }: LinkStatus, { draining }: WorkerStatus): string {
  const code = link === "stopped" ? 31 : link === "online" && !draining ? 32 : 33;
  return `\u001B[${code}m${mark}\u001B[39m`;
}

/** Characters that control a terminal or change the order of the text: controls, bidirectional marks, line and paragraph separators. */
const COMMANDS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/**
 * Untrusted text as a part of a line. Characters that control a terminal are written as `\u001b`, because they could move the cursor, overwrite text, change
 * the title, fill the clipboard or reorder the text. Line ends are escaped too, because they could forge a line of this program.
 */
export function untrusted(text: string): string {
  return text.replaceAll(COMMANDS, escaped);
}

/** Untrusted text as a separate block: as {@link untrusted}, but line ends and tabs stay. JSON stays the same JSON. */
export function printable(text: string): string {
  return text.replaceAll(/\r\n|[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, (found) =>
    found === "\r\n" || found === "\n" || found === "\t" ? found : escaped(found),
  );
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
