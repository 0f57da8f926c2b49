// The metrics page of a worker (`--metrics`): its status in the text format of Prometheus.
import { createServer } from "node:http";
import type { LinkStatus, WorkerStatus } from "./worker-status.ts";

/** A running metrics page. */
export type MetricsServer = { url: string; close: () => void };

/** Where a metrics page listens. */
export type MetricsAddress = { host: string; port: number };

/** Parses `--metrics`: `host:port`, `[::1]:port`, or only a port, which means this machine. Null for anything else. */
export function readMetricsAddress(text: string): MetricsAddress | null {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-f:]+)\]:|([\w.-]*):)?(\d{1,5})$/i.exec(text.trim()) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return null;
  return { host: bracketed ?? (plain || "127.0.0.1"), port };
}

/** Serves `GET /metrics`. Port 0 selects a free port. Rejects with the system's error if the address is in use. */
export async function serveMetrics({ host, port }: MetricsAddress, page: () => string): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    const found = request.url === "/metrics" && (request.method === "GET" || request.method === "HEAD");
    response.writeHead(found ? 200 : 404, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
    response.end(found ? page() : "the metrics are at /metrics\n");
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  // An open connection must not keep the process alive.
  server.unref();
  const address = server.address();
  const taken = address !== null && typeof address === "object" ? address.port : port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}/metrics`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** What a metrics page shows besides the status. Times are the wall clock in ms since the epoch. */
type MetricsAbout = { publicKey: string; version: string; startedAt: number; now: number };

type Labels = Record<string, string>;
type Sample = { labels: Labels; value: number };

const TYPES = ["LLM_INFER", "TASK"] as const;
const OUTCOMES = ["completed", "failed", "cancelled"] as const;
const STATES = ["connecting", "online", "offline", "stopped"] as const;
const RESULTS = ["accepted", "duplicate", "rejected", "dropped"] as const;

/** The status in the Prometheus text format (version 0.0.4). */
export function metricsText(status: WorkerStatus, about: MetricsAbout): string {
  const { links, llm } = status;
  const each = (samples: (link: LinkStatus) => Sample[]): Sample[] =>
    links.flatMap((link) => samples(link).map(({ labels, value }) => ({ labels: { coordinator: link.coordinator, ...labels }, value })));
  const one = (value: number, labels: Labels = {}): Sample[] => [{ labels, value }];
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
  const whole = `compute_router_worker_${name}`;
  const lines = samples.map(({ labels, value }) => `${whole}${labelText(labels)} ${value}`);
  return `${[`# HELP ${whole} ${help}`, `# TYPE ${whole} ${type}`, ...lines].join("\n")}\n`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
