// What the metrics page of a worker shows (`--metrics`): its status.
import { metricText, type Sample } from "./metrics-page.ts";
import type { LinkStatus, WorkerStatus } from "./worker-status.ts";

/** What a metrics page shows besides the status. Times are the wall clock in ms since the epoch. */
type MetricsAbout = { publicKey: string; version: string; startedAt: number; now: number };

const TYPES = ["LLM_INFER", "TASK"] as const;
const OUTCOMES = ["completed", "failed", "cancelled"] as const;
const STATES = ["connecting", "online", "offline", "stopped"] as const;
const RESULTS = ["accepted", "duplicate", "rejected", "dropped"] as const;

/** The status in the Prometheus text format (version 0.0.4). */
export function metricsText(status: WorkerStatus, about: MetricsAbout): string {
  const { links, llm } = status;
  const each = (samples: (link: LinkStatus) => Sample[]): Sample[] =>
    links.flatMap((link) => samples(link).map(({ labels, value }) => ({ labels: { coordinator: link.coordinator, ...labels }, value })));
  const one = (value: number, labels: Sample["labels"] = {}): Sample[] => [{ labels, value }];
  return [
    metric("info", "gauge", "Always 1; the labels identify this worker", one(1, { provider_pubkey: about.publicKey, version: about.version })),
    metric("start_time_seconds", "gauge", "When the worker started, in seconds since the epoch", one(about.startedAt / 1000)),
    metric("llm_ready", "gauge", "1 while an LLM is available", one(llm === null ? 0 : 1)),
    metric("llm_info", "gauge", "Always 1; the labels identify the LLM", llm === null ? [] : one(1, llm)),
    metric(
      "socket_state",
      "gauge",
      "1 for the current state of the socket",
      each(({ link }) => STATES.map((state) => ({ labels: { state }, value: link === state ? 1 : 0 }))),
    ),
    metric(
      "reconnects_total",
      "counter",
      "Registrations after the first",
      each(({ reconnects }) => one(reconnects)),
    ),
    metric(
      "job_running",
      "gauge",
      "1 while a job runs",
      each(({ job }) => one(job === null ? 0 : 1)),
    ),
    metric(
      "jobs_total",
      "counter",
      "Jobs that were started, by type and outcome",
      each(({ jobs }) => TYPES.flatMap((type) => OUTCOMES.map((outcome) => ({ labels: { type, outcome }, value: jobs[type][outcome] })))),
    ),
    metric(
      "busy_seconds_total",
      "counter",
      "Time spent on jobs, including the current one",
      each(({ jobs, job }) =>
        TYPES.map((type) => ({ labels: { type }, value: (jobs[type].ms + (job?.type === type ? Math.max(0, about.now - job.since) : 0)) / 1000 })),
      ),
    ),
    metric(
      "tokens_total",
      "counter",
      "Tokens that the LLM generated",
      each(({ tokens }) => one(tokens)),
    ),
    metric(
      "rejections_total",
      "counter",
      "Jobs rejected before their start, by reason",
      each(({ rejections }) => Object.entries(rejections).map(([reason, value]) => ({ labels: { reason }, value }))),
    ),
    metric(
      "results_total",
      "counter",
      "Finished results, by the coordinator's answer",
      each(({ results }) => RESULTS.map((status) => ({ labels: { status }, value: results[status] ?? 0 }))),
    ),
  ].join("");
}

function metric(name: string, type: "counter" | "gauge", help: string, samples: readonly Sample[]): string {
  return metricText(`compute_router_worker_${name}`, type, help, samples);
}
