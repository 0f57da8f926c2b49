// npm run bench -- --curves: what a job costs while something grows: stored jobs, sockets, waiting jobs, models, pairings, workers without the stake.
// All sizes of a curve are up at once and are measured in turn, so that what slows the machine for a while slows all of them.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { ROOT } from "../../scripts/coordinator-process.ts";
import type { Load } from "./driver.ts";
import { measure, NOISE, pinned, quietly, say, SERVER_CORE } from "./measure.ts";
import { type CurvePoint, curveTable } from "./report.ts";
import { type Running, startCounted } from "./systems.ts";

/** The sizes to measure, by the name of their curve. */
export type Sizes = Record<string, readonly number[]>;

type Scene = NonNullable<Load["scene"]>;
type Curve = {
  name: string;
  /** What grows. */
  label: string;
  sizes: readonly number[];
  /** For a quick look whether all of it works. */
  quick: readonly number[];
  settings?: Record<string, string>;
  /** Jobs to store in D1 before the first measurement. */
  stored?: (size: number) => number;
  workers?: (size: number) => number;
  scene?: (size: number) => Partial<Scene>;
};

const IN_PROGRESS = 16;
const MANY = "1000000000";
const PLAIN: Scene = { inProgress: IN_PROGRESS, queued: 0, models: 0, paired: 0, verified: 0 };

/** All curves. */
export const CURVES: readonly Curve[] = [
  { name: "stored", label: "jobs stored in D1", sizes: [10_000, 100_000, 1_000_000], quick: [100, 1_000], stored: (size) => size },
  { name: "sockets", label: "workers' sockets", sizes: [10, 1_000, 5_000], quick: [10, 100], workers: (size) => size, scene: () => ({ inProgress: 10 }) },
  {
    ...{ name: "waiting", label: "waiting jobs", sizes: [0, 10_000, 100_000], quick: [0, 1_000] },
    settings: { QUEUED_JOBS: MANY, QUEUED_BYTES: MANY, QUEUED_JOBS_PER_USER: MANY },
    scene: (size) => ({ queued: size }),
  },
  { name: "models", label: "models of the workers", sizes: [1, 100, 1_000], quick: [1, 100], scene: (size) => ({ models: size }) },
  { name: "private", label: "users with paired workers, PRIVATE jobs", sizes: [1, 100, 10_000], quick: [1, 100], scene: (size) => ({ paired: size }) },
  {
    ...{ name: "tiers", label: "workers without the stake for FAST, beside 16 that have it", sizes: [0, 100, 2_000], quick: [0, 100] },
    settings: { STAKE_SOURCE: "table" },
    workers: (size) => IN_PROGRESS + size,
    scene: () => ({ verified: IN_PROGRESS }),
  },
];

type Options = { rounds: number; seconds: number; tries: number; isQuick: boolean; sizes: Sizes };

const Counts = z.object({ statements: z.int(), wakes: z.int() });

async function ask(running: Running, path: string, body: object): Promise<unknown> {
  const response = await fetch(`http://127.0.0.1:${running.port}/bench/${path}`, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`/bench/${path} was answered ${response.status} ${await response.text()}`);
  return response.json();
}

/** One size in one round. */
async function point(curve: Curve, size: number, round: number, running: Running, { seconds, tries }: Options): Promise<CurvePoint> {
  const load = {
    ...{ workers: curve.workers?.(size) ?? IN_PROGRESS, rate: null, waits: false, seconds },
    scene: { ...PLAIN, ...curve.scene?.(size) },
  };
  const what = `${curve.name} ${size.toLocaleString("en-US")}, round ${round}`;
  let statements = Number.NaN;
  const cell = await quietly(what, tries, async () => {
    const counts = async (): Promise<number> => Counts.parse(await ask(running, "counts", {})).statements;
    const at = { begin: 0, end: 0 };
    const measured = await measure(running, load, { mark: async (word) => void (at[word] = await counts()) });
    statements = (at.end - at.begin) / measured.jobs;
    return measured;
  });
  const { cpuPerJob, jobsPerSecond, p50, foreign } = cell;
  say(`${what}: ${cpuPerJob.toFixed(0)} µs of CPU and ${statements.toFixed(2)} statements per job, ${jobsPerSecond.toFixed(0)} jobs/s`);
  return { curve: curve.name, size, round, cpuPerJob, statements, jobsPerSecond, p50, foreign };
}

async function measureCurve(curve: Curve, options: Options): Promise<CurvePoint[]> {
  const sizes = options.sizes[curve.name] ?? (options.isQuick ? curve.quick : curve.sizes);
  const folder = mkdtempSync(join(tmpdir(), "bench-curve-"));
  const up: { size: number; running: Running }[] = [];
  const points: CurvePoint[] = [];
  try {
    for (const size of sizes) {
      const running = await startCounted(join(folder, String(size)), pinned ? SERVER_CORE : null, curve.settings ?? {});
      up.push({ size, running });
      // The first request that reads D1 makes its tables.
      await fetch(`http://127.0.0.1:${running.port}/v1/jobs/${crypto.randomUUID()}`);
      const stored = curve.stored?.(size) ?? 0;
      if (stored > 0) say(`${curve.name}: storing ${stored.toLocaleString("en-US")} jobs`);
      if (stored > 0) await ask(running, "store", { jobs: stored });
    }
    for (let round = 1; round <= options.rounds; round++) for (const { size, running } of up) points.push(await point(curve, size, round, running, options));
  } finally {
    for (const { running } of up) await running.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  return points;
}

/** Measures the curves and prints them; whole ones are written to docs/benchmarks too. Returns the exit code. */
export async function curves(options: Options): Promise<number> {
  const chosen = Object.keys(options.sizes);
  const points: CurvePoint[] = [];
  const wanted = CURVES.filter(({ name }) => chosen.length === 0 || chosen.includes(name));
  for (const curve of wanted) points.push(...(await measureCurve(curve, options)));
  const text = curveTable(
    points,
    wanted.map(({ name, label }) => ({ name, label })),
  );
  console.log(text);
  const noisy = points.filter(({ foreign }) => foreign > NOISE).length;
  if (noisy > 0) console.log(`\nIn ${noisy} of ${points.length} measurements other programs used more than ${NOISE} cores: read those figures with care.`);
  if (options.isQuick || chosen.length > 0) {
    console.log(`\n${JSON.stringify(points)}`);
    return 0;
  }
  const target = join(ROOT, "docs", "benchmarks");
  mkdirSync(target, { recursive: true });
  writeFileSync(
    join(target, "curves.json"),
    `${JSON.stringify({ date: new Date().toISOString().slice(0, 10), pinned, rounds: options.rounds, points }, null, 2)}\n`,
  );
  writeFileSync(
    join(target, "curves.md"),
    `# What a job costs while something grows\n\nWritten by \`npm run bench -- --curves\`: medians of ${options.rounds} rounds, in which all sizes were measured in turn.\n\n${text}\n`,
  );
  say(`written to ${target}`);
  return 0;
}
