// The figures of npm run bench: what is measured, medians over the rounds, ratios within a turn, and how they are printed.
import type { Probe } from "./driver.ts";
import type { Kind } from "./kinds.ts";
import type { SyncCost } from "./syncs.ts";

/**
 * One measurement: in one of the turns of its round. `rate` is null where the server was given as much as it took; `foreign` is what else used the machine, in
 * cores.
 */
export type Cell = {
  system: string;
  round: number;
  turn: number;
  workers: number;
  rate: number | null;
  jobs: number;
  jobsPerSecond: number;
  /** ms */
  p50: number;
  p99: number;
  /** From the commit to the `job_assign` on the worker's socket, the median, ms; null where workers have no WebSocket. */
  dispatch: number | null;
  /** µs of all servers of the system. */
  cpuPerJob: number;
  /** The same of each program. */
  programs: Record<string, number>;
  /** The same for parts of a job by themselves, those that were measured. */
  probes: Partial<Record<Probe, number>>;
  /** The share of each kind of functions in {@link cpuPerJob}; null where they were not sampled. */
  kinds: Record<Kind, number> | null;
  /** Of the disk, by all servers of the system; null where they were not watched. */
  syncs: SyncCost | null;
  /** Bytes, of all servers of the system. */
  memory: number;
  perJob: { frames: number; frameBytes: number; requests: number; httpBytes: number };
  foreign: number;
};

/** One measurement of a curve: what a job cost while something had this size. */
export type CurvePoint = {
  curve: string;
  size: number;
  round: number;
  /** µs of the server. */
  cpuPerJob: number;
  /** SQL statements of the hub per job. */
  statements: number;
  /** The same of D1. */
  d1Statements: number;
  jobsPerSecond: number;
  /** ms */
  p50: number;
  foreign: number;
};

/** All of a run. */
export type Results = {
  plan: { warmSeconds: number; rounds: number; workers: readonly number[]; rates: readonly number[]; seconds: number };
  pinned: boolean;
  skipped: readonly string[];
  noise: number;
  labels: Record<string, string>;
  cells: readonly Cell[];
};

/** This coordinator. */
export const BASE = "ours";
/** The same without the front of `npm run serve`: workerd alone. */
export const ALONE = "ours-alone";
/** What the platform needs for the same events. */
export const FLOOR = "bare";
/** The peer BullMQ, with each write on the disk before it is answered. */
export const SYNCED = "bullmq-synced";

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] ?? Number.NaN) : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}

/** The median over the rounds of one figure of a system. */
export function typical({ cells }: Results, system: string, workers: number, rate: number | null, figure: (cell: Cell) => number): number {
  return median(cells.filter((cell) => cell.system === system && cell.workers === workers && cell.rate === rate).map(figure));
}

/**
 * The CPU time of a job of ours or of bare workerd, divided by that of a poll that makes an RPC to the hub; NaN without such figures. With the front a poll
 * makes none.
 */
export function jobInPolls({ cells }: Results, system: string, workers: number): number {
  const polls = system.startsWith(FLOOR) ? FLOOR : ALONE;
  const jobs = cells.filter((cell) => cell.system === system && cell.workers === workers && cell.rate === null).map(({ cpuPerJob }) => cpuPerJob);
  return median(jobs) / median(cells.flatMap((cell) => (cell.system === polls ? (cell.probes.poll ?? []) : [])));
}

/** What two systems are compared at: the load, and the figure. */
type Compared = { workers: number; rate?: number | null; figure: (cell: Cell) => number };

/** True if a system did the jobs as they came. Otherwise a queue grew, and its latencies only say for how long. */
export function keptUp({ rate, jobsPerSecond }: Cell): boolean {
  return rate === null || jobsPerSecond >= 0.95 * rate;
}

/** The median over all turns of one figure of `top`, divided by that of `system` in the same turn. Turns in which `system` fell behind do not count. */
export function ratio({ cells }: Results, top: string, system: string, { workers, rate = null, figure }: Compared): number {
  const loaded = cells.filter((cell) => cell.workers === workers && cell.rate === rate);
  return median(
    loaded.flatMap((mine) => {
      const theirs = loaded.find((cell) => cell.system === system && cell.round === mine.round && cell.turn === mine.turn);
      return mine.system !== top || theirs === undefined || !keptUp(theirs) ? [] : [figure(mine) / figure(theirs)];
    }),
  );
}

export const whole = (value: number): string => (Number.isNaN(value) ? "–" : Math.round(value).toLocaleString("en-US"));
export const tenths = (value: number): string => (Number.isNaN(value) ? "–" : value.toFixed(1));
export const hundredths = (value: number): string => (Number.isNaN(value) ? "–" : value.toFixed(2));

export function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}
