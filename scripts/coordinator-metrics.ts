// What the metrics page of a coordinator shows (`npm run serve -- … --metrics`): the figures of its hub.
import * as z from "zod";
import type { HubFigures } from "../src/coordinator/hub/figures.ts";
import { metricText, type Sample } from "../src/worker/node/metrics-page.ts";

const Count = z.number();
/** The figures of a hub, as JSON. */
export const Figures: z.ZodType<HubFigures> = z.object({
  since: Count,
  workers: z.object({ idle: Count, busy: Count }),
  jobs: z.object({ waiting: Count, settling: Count, leased: Count, orphaned: Count }),
  ended: z.array(z.object({ type: z.string(), outcome: z.string(), jobs: Count, ms: Count })),
  payments: z.object({ held: Count, settling: Count, unknown: Count, settled: Count, credit: Count, covered: Count, unresolved: Count }),
  behind: Count,
  stored: z.object({ hub: Count, d1: Count, most: Count }),
});

/** What the page shows besides the figures. */
type About = { instance: string; version: string };

/** The figures in the Prometheus text format (version 0.0.4). */
export function coordinatorMetrics({ since, workers, jobs, ended, payments, behind, stored }: HubFigures, about: About): string {
  const one = (value: number, labels: Sample["labels"] = {}): Sample[] => [{ labels, value }];
  const by = (label: string, counts: Readonly<Record<string, number>>): Sample[] =>
    Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));
  const ends = (value: (end: (typeof ended)[number]) => number): Sample[] =>
    ended.map((end) => ({ labels: { type: end.type, outcome: end.outcome }, value: value(end) }));
  const { most, ...stores } = stored;
  return [
    metric("info", "gauge", "Always 1; the labels identify this coordinator", one(1, { instance: about.instance, version: about.version })),
    metric("start_time_seconds", "gauge", "When the hub began, in seconds since the epoch", one(since / 1_000)),
    metric("workers_online", "gauge", "Registered workers with an open socket", by("state", workers)),
    metric("jobs", "gauge", "Jobs that have not ended, by phase", by("phase", jobs)),
    metric(
      "jobs_ended_total",
      "counter",
      "Jobs that have ended, by type and outcome: completed, or the error",
      ends(({ jobs }) => jobs),
    ),
    metric(
      "jobs_ended_seconds_total",
      "counter",
      "Time from the commit to the end of these jobs",
      ends(({ ms }) => ms / 1_000),
    ),
    metric("payments", "gauge", "Payments that are not done, by phase", by("phase", payments)),
    metric("jobs_behind", "gauge", "Jobs that have ended and whose row is not in D1 yet", one(behind)),
    metric("stored_bytes", "gauge", "Size of each database", by("store", stores)),
    metric("stored_bytes_limit", "gauge", "Above this size of a database commits get 503 storage_full", one(most)),
  ].join("");
}

function metric(name: string, type: "counter" | "gauge", help: string, samples: readonly Sample[]): string {
  return metricText(`compute_router_coordinator_${name}`, type, help, samples);
}
