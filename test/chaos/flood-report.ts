// What npm run floods measures and how it judges it: memory and disk of the coordinator, and what became of the honest jobs.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { MiB } from "../../src/protocol/limits.ts";
import type { Served } from "./honest.ts";

/** One look at the coordinator: seconds since the flood began, and bytes. */
export type Sample = { second: number; memory: number; hub: number; d1: number };

/** What one flood did. */
export type Result = {
  name: string;
  samples: readonly Sample[];
  served: Served;
  bytes: number;
  answers: ReadonlyMap<string, number>;
  errors: readonly string[];
};

/** What a flood of one address may cost. docs/operations.md says so. */
export const BOUNDS = {
  /** The least share of honest jobs that complete. */
  served: 0.95,
  /** The most memory that the coordinator's process gains, in bytes. */
  memory: 256 * MiB,
  /** The most that its databases gain besides the rows of honest jobs: what one client stores in a day, and the files of their journals. */
  disk: 320 * MiB,
  /** The row, receipt and journal of an honest job on both disks. */
  diskPerJob: 8 * 1024,
  /**
   * The most memory that it gains in an hour at the pace of the second half, if the flood lasts at least so many seconds. Honest jobs alone, 5 a second, let it
   * grow for 25 minutes: V8 collects each isolate of the runtime only after it has grown by 16 MiB.
   */
  memoryPerHour: 256 * MiB,
  steadyAfter: 3_000,
} as const;

/** Why a flood did too much; empty if it did not. */
export function faults({ samples, served }: Pick<Result, "samples" | "served">, addresses: number): string[] {
  const [first] = samples;
  const last = samples.at(-1);
  if (first === undefined || last === undefined || served.committed === 0) return ["nothing was measured"];
  const found: string[] = [];
  const share = served.done / served.committed;
  if (share < BOUNDS.served) found.push(`${(100 * share).toFixed(1)} % of the honest jobs completed`);
  const memory = last.memory - first.memory;
  if (memory > BOUNDS.memory) found.push(`memory grew by ${mib(memory)}`);
  const disk = last.hub + last.d1 - first.hub - first.d1 - served.committed * BOUNDS.diskPerJob;
  if (disk > BOUNDS.disk * addresses) found.push(`the databases grew by ${mib(disk)}`);
  const pace = perHour(samples, "memory");
  if (last.second >= BOUNDS.steadyAfter && pace > BOUNDS.memoryPerHour) found.push(`memory grows by ${mib(pace)} an hour`);
  return found;
}

/** How fast something grew in the second half, per hour: the slope of the line with the least squares. */
export function perHour(samples: readonly Sample[], what: "memory" | "hub" | "d1"): number {
  const half = samples.slice(Math.floor(samples.length / 2));
  const n = half.length;
  if (n < 2) return 0;
  const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / n;
  const [x, y] = [mean(half.map(({ second }) => second)), mean(half.map((sample) => sample[what]))];
  const spread = half.reduce((sum, { second }) => sum + (second - x) ** 2, 0);
  return spread === 0 ? 0 : (3_600 * half.reduce((sum, sample) => sum + (sample.second - x) * (sample[what] - y), 0)) / spread;
}

/** The bytes of the files of both databases. */
export function disksOf(stateDir: string): Pick<Sample, "hub" | "d1"> {
  return { hub: sizeOf(join(stateDir, "v3", "do")), d1: sizeOf(join(stateDir, "v3", "d1")) };
}

function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).reduce((sum, name) => {
    // A file may go while we look.
    const stat = statSync(join(folder, name), { throwIfNoEntry: false });
    return sum + (stat?.isFile() === true ? stat.size : 0);
  }, 0);
}

/** The head of the table. */
export const HEAD = `| Flood | MB sent | Memory, MiB | per hour | Hub, MiB | D1, MiB | Honest jobs | p50, p99 in ms | Verdict |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |`;

/** One flood as a line of the table. */
export function lineOf(result: Result, addresses: number): string {
  const { name, samples, served, bytes } = result;
  const [first] = samples;
  const last = samples.at(-1);
  const at = (what: "memory" | "hub" | "d1") => [...new Set([first, last])].map((sample) => mib(sample?.[what] ?? 0, "")).join(" → ");
  const memory = samples.map((sample) => mib(sample.memory, "")).join(" ");
  const jobs = `${((100 * served.done) / Math.max(1, served.committed)).toFixed(1)} % of ${served.committed}`;
  const sorted = served.times.toSorted((a, b) => a - b);
  const time = (share: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN);
  const found = faults(result, addresses);
  const cells = [name, (bytes / 1e6).toFixed(0), memory, mib(perHour(samples, "memory"), ""), at("hub"), at("d1"), jobs, `${time(0.5)}, ${time(0.99)}`];
  return `| ${cells.join(" | ")} | ${found.length === 0 ? "ok" : found.join("; ")} |`;
}

function mib(bytes: number, unit = " MiB"): string {
  return `${(bytes / MiB).toFixed(bytes < 10 * MiB ? 1 : 0)}${unit}`;
}
