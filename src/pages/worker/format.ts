// The texts of the job list on the worker page: task names, durations, outcomes, receipts, and the export file.
import type { JobRecord, JobOutcome } from "../../worker/browser/job-record.ts";
import type { Tone } from "./view.ts";

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
export function receiptLine({ receipt, signatureHolds }: JobRecord): string {
  if (receipt === null) return "No receipt";
  const check = signatureHolds === true ? "signature checked" : "signature is not valid";
  return `${receipt.output_hash.slice(0, 15)}…${receipt.output_hash.slice(-4)} · ${check}`;
}

/** The history as a file for its owner: receipts as they were signed, wire names, ISO 8601 times. */
export function exportOf(records: readonly JobRecord[], worker: { publicKey: string; words: readonly string[]; host: string }, at: Date): string {
  const jobs = records.map(({ jobId, attempt, taskType, startedAt, ms, outcome, error, receipt, signatureHolds }) => ({
    job_id: jobId,
    attempt,
    task_type: taskType,
    started_at: new Date(startedAt).toISOString(),
    duration_ms: ms,
    outcome,
    error,
    receipt,
    signature_valid: signatureHolds,
  }));
  const { publicKey, words, host } = worker;
  return `${JSON.stringify({ exported_at: at.toISOString(), coordinator: host, provider_pubkey: publicKey, fingerprint: words.join(" "), jobs }, null, 2)}\n`;
}
