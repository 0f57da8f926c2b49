// What the worker page shows of the worker's state, as a pure function.
import type { JobOutcome, JobRecord } from "../../worker/browser/history.ts";
import { type EndedLink, type Report, sentence } from "../../worker/browser/report.ts";
import { clockSentence } from "../../worker/session/clock.ts";
import type { Pause } from "./conditions.ts";

/** The input of {@link viewOf}. */
export type Situation = {
  report: Report;
  wanted: boolean;
  pause: Pause | null;
  /** A newer version of this page is in use. */
  outdated: boolean;
  /** Host of the coordinator. */
  host: string;
  /** Wall clock in ms since the epoch. */
  now: number;
};

/** The colour and symbol of a state. The words have the same meaning. */
type Tone = "off" | "busy" | "good" | "wait" | "bad";

/** What the page shows. A screen reader reads `announce` when it changes, so it has no seconds that count down. */
export type View = {
  tone: Tone;
  title: string;
  detail: string;
  announce: string;
  button: { label: string; act: "start" | "rest" | "stop" | "reload" };
};

const START = { label: "Start", act: "start" } as const;
const STOP = { label: "Stop", act: "rest" } as const;
const RELOAD = { label: "Reload", act: "reload" } as const;
const STOP_NOW = { label: "Stop now", act: "stop" } as const;

/** The state in words [WS4, WS11]. */
export function viewOf(situation: Situation): View {
  const { report, wanted, pause } = situation;
  if (situation.outdated) return report.leaving ? leaving(report, "Finishing", "then stops: there is a newer version of this page") : outdated(report);
  if (report.link.kind === "ended") return ended(report.link);
  // A session that was told to leave and may not have said so yet: "Start" would be there for a moment only.
  if (!wanted && (report.leaving || report.link.kind !== "off")) return leaving(report, "Finishing", "then stops");
  if (!wanted) {
    const idle = "Start to take small text jobs. Each result is signed with this device's key.";
    return view("off", "Off", `${idle}${waitingResults(report)}`, START);
  }
  if (report.leaving && pause !== null) return leaving(report, "Pausing", `then pauses: ${WHY[pause].because}`);
  if (pause !== null && report.link.kind !== "online") return view("wait", "Paused", `${WHY[pause].sentence}${waitingResults(report)}`, STOP);
  return linked(situation);
}

/** The message for `replaced` is about options of the command line, which a browser does not have. */
function ended({ reason, message }: EndedLink): View {
  const replaced = "Another tab or window runs this worker. Only one can work at a time. Start continues here.";
  return view("bad", "Stopped", reason === "replaced" ? replaced : sentence(message), START);
}

function outdated(report: Report): View {
  return view("bad", "Out of date", `There is a newer version of this page. This one takes no more jobs: reload it.${waitingResults(report)}`, RELOAD);
}

const WHY: Record<Pause, { sentence: string; because: string }> = {
  hidden: { sentence: "This page is hidden. Work continues when you come back to it.", because: "the page is hidden" },
  low_battery: { sentence: "The battery is below 20 %. Work continues when the device is charging.", because: "the battery is low" },
  offline: { sentence: "This device has no network. The worker reconnects automatically.", because: "there is no network" },
};

function linked({ report, pause, host, now }: Situation): View {
  const { link, job } = report;
  switch (link.kind) {
    case "off":
    case "connecting":
      // The title is in the sentence, so a screen reader does not read it before.
      return announcedAs(`Connecting to ${host}.`, view("wait", "Connecting", `Connecting to ${host}.${waitingResults(report)}`, STOP));
    case "online":
      if (pause === "offline") return view("wait", "Paused", `${WHY.offline.sentence}${waitingResults(report)}`, STOP);
      if (job !== null) return view("busy", "Working", "This worker is running a job.", STOP);
      if (report.clock?.refused === true) return view("bad", "Clock is wrong", sentence(clockSentence("refused", report.clock.offMs)), STOP);
      return view("good", "Ready", `Waiting for a job from ${host}.${clockDoubt(report)}${waitingResults(report)}`, STOP);
    case "waiting": {
      const cause = link.parked ? "The coordinator has asked this worker to wait for a while." : causeSentence(link.cause);
      const next = `Next try in ${seconds(link.until - now)}.`;
      return announcedAs(`Reconnecting. ${cause}`, view("wait", "Reconnecting", `${cause} ${next}${waitingResults(report)}`, STOP));
    }
    case "ended":
      return ended(link);
    default:
      return link satisfies never;
  }
}

/** Why there is no connection. Some causes of the session are only parts of a sentence. */
function causeSentence(cause: string): string {
  switch (cause) {
    case "connection lost":
      return "The connection was lost.";
    case "no connection":
      return "There is no connection.";
    case "registration not answered":
      return "The coordinator did not answer the registration.";
    default:
      return sentence(cause);
  }
}

function announcedAs(announce: string, shown: View): View {
  return { ...shown, announce };
}

function clockDoubt({ clock }: Report): string {
  return clock === null ? "" : ` ${sentence(clockSentence("doubtful", clock.offMs))}`;
}

function leaving(report: Report, title: string, then: string): View {
  const first = report.job === null ? "Sends the finished results" : "Finishes the current job";
  return view("wait", title, `${first}, ${then}. No new jobs.`, STOP_NOW);
}

function view(tone: Tone, title: string, detail: string, button: View["button"]): View {
  return {
    tone,
    title,
    detail,
    // Jobs start and end too fast to announce each of them.
    announce: tone === "busy" || tone === "good" ? "Ready for jobs." : `${title}. ${detail}`,
    button,
  };
}

function waitingResults({ unacknowledged }: Report): string {
  if (unacknowledged === 0) return "";
  return unacknowledged === 1
    ? " One finished result is kept until the coordinator has it."
    : ` ${unacknowledged} finished results are kept until the coordinator has them.`;
}

function seconds(ms: number): string {
  const whole = Math.max(0, Math.ceil(ms / 1000));
  return whole < 120 ? `${whole} s` : `${Math.ceil(whole / 60)} min`;
}

/** The name of a task type for people. */
export function taskName(taskType: string): string {
  switch (taskType) {
    case "summarize":
      return "Summary";
    case "classify":
      return "Sentiment";
    case "extract_json":
      return "Extraction";
    default:
      return taskType;
  }
}

/** Milliseconds as text, for example 1.2 s. */
export function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

/** The median duration of the results; null without any. */
export function medianTime(records: readonly JobRecord[]): number | null {
  const times = records.flatMap(({ ms }) => (ms === null ? [] : [ms])).toSorted((a, b) => a - b);
  const [low, high] = [times[Math.floor((times.length - 1) / 2)], times[Math.floor(times.length / 2)]];
  return low === undefined || high === undefined ? null : (low + high) / 2;
}

const LABELS: Record<JobOutcome, { tone: Tone; label: string }> = {
  waiting: { tone: "wait", label: "Not yet confirmed" },
  accepted: { tone: "good", label: "Accepted" },
  rejected: { tone: "bad", label: "Rejected" },
  failed: { tone: "bad", label: "Failed" },
  cancelled: { tone: "off", label: "Cancelled" },
  dropped: { tone: "bad", label: "Dropped" },
};

/** The outcome of a job as a label and a tone. */
export function outcomeLabel({ outcome, error, receipt }: JobRecord): { tone: Tone; label: string } {
  if (outcome === "waiting" && receipt === null) return { tone: "wait", label: "Working" };
  const { tone, label } = LABELS[outcome];
  return { tone, label: error === null ? label : `${label}: ${error.replaceAll("_", " ")}` };
}

/** The result of checking the stored receipt, with a short form of the output's hash. */
export function receiptLine({ receipt, signatureValid }: JobRecord): string {
  if (receipt === null) return "No receipt";
  const check = signatureValid === true ? "signature checked" : "signature is not valid";
  return `${receipt.output_hash.slice(0, 15)}…${receipt.output_hash.slice(-4)} · ${check}`;
}

/** The history as a file for its owner: receipts as they were signed, wire names, ISO 8601 times. */
export function exportOf(records: readonly JobRecord[], worker: { publicKey: string; words: readonly string[]; host: string }, at: Date): string {
  const jobs = records.map(({ jobId, attempt, taskType, startedAt, ms, outcome, error, receipt, signatureValid }) => ({
    job_id: jobId,
    attempt,
    task_type: taskType,
    started_at: new Date(startedAt).toISOString(),
    duration_ms: ms,
    outcome,
    error,
    receipt,
    signature_valid: signatureValid,
  }));
  const { publicKey, words, host } = worker;
  return `${JSON.stringify({ exported_at: at.toISOString(), coordinator: host, provider_pubkey: publicKey, fingerprint: words.join(" "), jobs }, null, 2)}\n`;
}
