// npm run simulate -- --hubs 1,4,16: throughput, balance and latency of so many hubs, and whether everything holds that must. For docs/scaling.md.
import { type ClusterPlan, type ClusterStats, runCluster } from "./cluster.ts";

type Scene = { name: string; plan: (hubs: number) => Omit<ClusterPlan, "seed" | "hubs"> };

const CALM = { crashes: 0, breaks: 0, lost: 0 };
const EXECUTE = 300;

/** Each scene is the same for one hub and for many, times the number of hubs. */
const SCENES: readonly Scene[] = [
  { name: "more than fits", plan: (hubs) => ({ workers: 150 * hubs, rate: 200 * hubs, seconds: 10, skew: 0, faults: CALM, execute: EXECUTE }) },
  { name: "60 % of that", plan: (hubs) => ({ workers: 60 * hubs, rate: 75 * hubs, seconds: 10, skew: 0, faults: CALM, execute: EXECUTE }) },
  { name: "uneven workers", plan: (hubs) => ({ workers: 40 * hubs, rate: 60 * hubs, seconds: 10, skew: 0.2, faults: CALM, execute: EXECUTE }) },
  {
    name: "faults",
    plan: (hubs) => ({
      ...{ workers: 12 * hubs, rate: 20 * hubs, seconds: 20, skew: 0.5, execute: EXECUTE },
      faults: { crashes: 0.1 * hubs, breaks: 0.5 * hubs, lost: 0.02 },
    }),
  },
];

const quantile = (values: readonly number[], q: number): number => values.toSorted((a, b) => a - b)[Math.floor(q * values.length)] ?? Number.NaN;

/** Least and most of what each hub has, as parts of the mean. */
function spread(values: readonly number[]): string {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return `${(Math.min(...values) / mean).toFixed(2)}–${(Math.max(...values) / mean).toFixed(2)}`;
}

function row(name: string, plan: ClusterPlan, stats: ClusterStats, violation: string, single: number | null): string[] {
  const throughput = stats.inTime / plan.seconds;
  return [
    ...[name, String(plan.hubs), throughput.toFixed(0), single === null ? "" : (throughput / single).toFixed(1)],
    ...[spread(Array.from({ length: plan.hubs }, (_, hub) => stats.endedAt[hub] ?? 0)), stats.busy.length === 0 ? "" : Math.max(...stats.busy).toFixed(2)],
    ...[quantile(stats.latencies, 0.5).toFixed(0), quantile(stats.latencies, 0.99).toFixed(0)],
    ...[`${((100 * stats.moved) / Math.max(1, stats.accepted)).toFixed(1)} %`, violation],
  ];
}

/** Tries these numbers of hubs and prints a table. False if an invariant was violated. */
export function tryHubs(numbers: readonly number[], seed: number): boolean {
  const head = ["scene", "hubs", "jobs/s", "÷ first", "jobs per hub ÷ mean", "busiest hub", "commit → assign p50 ms", "p99 ms", "moved", "holds"];
  const rows: string[][] = [];
  let isValid = true;
  for (const { name, plan } of SCENES) {
    let single: number | null = null;
    for (const hubs of numbers) {
      const whole: ClusterPlan = { seed, hubs, ...plan(hubs) };
      const { stats, violation } = runCluster(whole);
      rows.push(row(name, whole, stats, violation?.message ?? "yes", single));
      single ??= stats.inTime / whole.seconds;
      isValid &&= violation === null;
    }
  }
  for (const line of [head, head.map(() => "---"), ...rows]) console.log(`| ${line.join(" | ")} |`);
  return isValid;
}
