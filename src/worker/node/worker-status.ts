import type { Tier } from "../../protocol/worker-messages.ts";
import type { WorkerNote } from "./desktop-worker.ts";
import { printable } from "./printable.ts";

/** What the status line shows. */
export type WorkerStatus = {
  link: "connecting" | "online" | "offline" | "stopped";
  draining: boolean;
  network: string | null;
  tier: Tier | null;
  authenticated: boolean;
  model: string | null;
  runs: boolean;
  finished: number;
  failed: number;
  /** Tokens and milliseconds of all LLM answers so far. */
  tokens: number;
  tokenMs: number;
};

/** The status of a worker that has just begun. */
export const FIRST_STATUS: WorkerStatus = {
  link: "connecting",
  draining: false,
  network: null,
  tier: null,
  authenticated: false,
  model: null,
  runs: false,
  finished: 0,
  failed: 0,
  tokens: 0,
  tokenMs: 0,
};

/** The status after a note. */
export function nextStatus(status: WorkerStatus, note: WorkerNote): WorkerStatus {
  switch (note.type) {
    case "connecting":
      return { ...status, link: "connecting" };
    case "online":
      return { ...status, link: "online", tier: note.tier, authenticated: note.authenticated, network: note.network ?? status.network };
    case "tier":
      return { ...status, tier: note.tier };
    case "offline":
      return { ...status, link: "offline" };
    case "stopped":
      return { ...status, link: "stopped", runs: false };
    case "draining":
      return { ...status, draining: true };
    case "runtime_ready":
      return { ...status, model: note.model };
    case "runtime_lost":
      return { ...status, model: null };
    case "job_started":
      return { ...status, runs: true };
    case "job_finished": {
      const { tokens, ms } = note;
      const spent = tokens === null ? {} : { tokens: status.tokens + tokens, tokenMs: status.tokenMs + ms };
      return { ...status, ...spent, runs: false, finished: status.finished + 1 };
    }
    case "job_failed":
      return { ...status, runs: false, failed: status.failed + 1 };
    case "job_cancelled":
      return { ...status, runs: false };
    case "job_rejected":
    case "job_acknowledged":
    case "result_dropped":
    case "runtime_missing":
    case "warning":
      return status;
    default:
      return note satisfies never;
  }
}

/** What does not change while a worker runs. */
export type StatusFrame = { host: string; publicKey: string; color: boolean; columns: number };

/** The status as one line, cut to the width of the terminal. */
export function statusLine(status: WorkerStatus, { host, publicKey, color, columns }: StatusFrame): string {
  const jobs = status.finished + status.failed;
  const parts = [
    status.draining ? "finishing" : status.link,
    `${instanceOf(status.network)}${host}`,
    `key ${shortKey(publicKey)}`,
    ...(status.link === "online" ? [status.authenticated ? (status.tier ?? "signed") : "not signed"] : []),
    status.model ?? "tasks only",
    `jobs ${jobs}`,
    ...(jobs > 0 ? [`ok ${Math.floor((100 * status.finished) / jobs)}%`] : []),
    ...(status.tokenMs > 0 ? [`${Math.round((1000 * status.tokens) / status.tokenMs)} tok/s`] : []),
    ...(status.runs ? ["working"] : []),
  ];
  const mark = status.link === "online" ? "●" : "○";
  // The network is what the coordinator says, the model what the runtime says.
  const text = printable(parts.join("  "));
  const cut = [...text].length + 2 > columns ? `${[...text].slice(0, Math.max(0, columns - 3)).join("")}…` : text;
  return `${color ? paint(mark, status) : mark} ${cut}`;
}

/** A public key short enough to read and to compare at a glance. */
export function shortKey(publicKey: string): string {
  return `${publicKey.slice(0, 4)}…${publicKey.slice(-4)}`;
}

function paint(mark: string, { link, draining }: WorkerStatus): string {
  const code = link === "online" && !draining ? 32 : link === "stopped" ? 31 : 33;
  return `\u001B[${code}m${mark}\u001B[39m`;
}

/** The instance that serves a network, as a word. */
function instanceOf(network: string | null): string {
  if (network === null) return "";
  const [namespace] = network.split(":");
  if (namespace === "eip155") return "evm ";
  return namespace === "solana" ? "svm " : `${namespace} `;
}
