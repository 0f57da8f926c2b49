// npm run bench -- --curves: what a job costs while something grows: stored jobs, sockets, waiting jobs, models, pairings, workers without the stake.
// All sizes of a curve are up at once and are measured in turn, so that what slows the machine for a while slows all of them.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { ROOT } from "../../scripts/coordinator-process.ts";
import type { Load } from "./driver.ts";
import { measure, NOISE, pinned, quietly, say, SERVER_CORE } from "./measure.ts";
import type { CurvePoint } from "./figures.ts";
import { curveTable } from "./report.ts";
import { type Running, startBare, startCounted } from "./systems.ts";

/** The sizes to measure, by the name of their curve; null for those that the curve has itself. */
export type Sizes = Record<string, readonly number[] | null>;

type Scene = NonNullable<Load["scene"]>;
type Curve = {
  name: string;
  /** What grows. */
  label: string;
  sizes: readonly number[];
  /** For a quick look whether all of it works. */
  quick: readonly number[];
  settings?: Record<string, string>;
  /** Without the coordinator, to see what the platform alone takes. */
  isBare?: boolean;
  /** Jobs to store in D1 before the first measurement. */
  stored?: (size: number) => number;
  workers?: (size: number) => number;
  scene?: (size: number) => Partial<Scene>;
};

const IN_PROGRESS = 16;
const MANY = "1000000000";
const PLAIN: Scene = { inProgress: IN_PROGRESS, queued: 0, models: 0, paired: 0, verified: 0 };
/** With 100 each job waits as with 100,000, and with none no job does. */
const WAITING = [0, 100, 10_000, 100_000];

/** All curves. */
export const CURVES: readonly Curve[] = [
  { name: "stored", label: "jobs stored in D1", sizes: [10_000, 100_000, 1_000_000], quick: [100, 1_000], stored: (size) => size },
  { name: "sockets", label: "workers' sockets", sizes: [10, 1_000, 5_000], quick: [10, 100], workers: (size) => size, scene: () => ({ inProgress: 10 }) },
  {
    ...{ name: "bare", label: "the same sockets, bare workerd with the same events", sizes: [10, 1_000, 5_000], quick: [10, 100], isBare: true },
    ...{ workers: (size) => size, scene: () => ({ inProgress: 10 }) },
  },
  {
    ...{ name: "waiting", label: "waiting jobs", sizes: WAITING, quick: [0, 1_000] },
    settings: { QUEUED_JOBS: MANY, QUEUED_BYTES: MANY, QUEUED_JOBS_PER_USER: MANY },
    scene: (size) => ({ queued: size }),
  },
  {
    ...{ name: "bareWaiting", label: "as many waiting jobs, bare workerd with the same events", sizes: WAITING, quick: [0, 1_000], isBare: true },
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

const Counts = z.object({ statements: z.int(), d1Statements: z.int() });

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
  let [statements, d1Statements] = [Number.NaN, Number.NaN];
  const cell = await quietly(what, tries, async () => {
    const at: Partial<Record<"begin" | "end", z.infer<typeof Counts>>> = {};
    const measured = await measure(running, load, { mark: async (word) => void (at[word] = Counts.parse(await ask(running, "counts", {}))) });
    const perJob = (count: "statements" | "d1Statements"): number => ((at.end?.[count] ?? Number.NaN) - (at.begin?.[count] ?? Number.NaN)) / measured.jobs;
    [statements, d1Statements] = [perJob("statements"), perJob("d1Statements")];
    return measured;
  });
  const { cpuPerJob, jobsPerSecond, p50, foreign } = cell;
  say(`${what}: ${cpuPerJob.toFixed(0)} µs of CPU and ${statements.toFixed(2)} statements per job, ${jobsPerSecond.toFixed(0)} jobs/s`);
  return { curve: curve.name, size, round, cpuPerJob, statements, d1Statements, jobsPerSecond, p50, foreign };
}

async function measureCurve(curve: Curve, options: Options): Promise<CurvePoint[]> {
  const sizes = options.sizes[curve.name] ?? (options.isQuick ? curve.quick : curve.sizes);
  const folder = mkdtempSync(join(tmpdir(), "bench-curve-"));
  const up: { size: number; running: Running }[] = [];
  const points: CurvePoint[] = [];
  try {
    for (const size of sizes) {
      const start = curve.isBare ? startBare : startCounted;
      const running = await start(join(folder, String(size)), pinned ? SERVER_CORE : null, curve.settings ?? {});
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

const TARGET = join(ROOT, "docs", "benchmarks");
const PUBLISHED = join(TARGET, "curves.json");
/** What is published: the measurements of all curves, and the day of each. */
type Published = { dates: Record<string, string>; points: CurvePoint[] };

const HEAD = `Written by \`npm run bench -- --curves\`: medians of the rounds in [curves.json](curves.json), in which all sizes of a curve were measured in turn. Compare figures
of one curve only, because the speed of a machine changes.`;
const REMARKS = `With waiting jobs each job waits, also those that are measured. So it is written once more, when a worker gets it; that does not grow with their number. If more wait than
the hub keeps in memory (4 MiB), a job may be read once or twice more. Each job goes to another worker than the last ones, so with more sockets its memory and its socket are colder: the rows of
bare workerd say how much of that is the platform's.`;

/** Writes measured curves to docs/benchmarks, in place of the earlier ones of the same name. */
function publish(points: readonly CurvePoint[], measured: readonly Curve[]): void {
  mkdirSync(TARGET, { recursive: true });
  const earlier: Published = existsSync(PUBLISHED) ? (JSON.parse(readFileSync(PUBLISHED, "utf8")) as Published) : { dates: {}, points: [] };
  const today = new Date().toISOString().slice(0, 10);
  const dates = { ...earlier.dates, ...Object.fromEntries(measured.map(({ name }) => [name, today])) };
  const all = CURVES.flatMap(({ name }) => (measured.some((curve) => curve.name === name) ? points : earlier.points).filter(({ curve }) => curve === name));
  writeFileSync(PUBLISHED, `${JSON.stringify({ dates, points: all } satisfies Published, null, 2)}\n`);
  const days = CURVES.map(({ name }) => `${name} ${dates[name] ?? "never"}`).join(", ");
  writeFileSync(
    join(TARGET, "curves.md"),
    `# What a job costs while something grows\n\n${HEAD}\n\n${curveTable(all, CURVES)}\n\n${REMARKS}\n\nMeasured on: ${days}.\n`,
  );
  say(`written to ${TARGET}`);
}

/** Measures the curves and prints them; those with their own sizes are written to docs/benchmarks too. Returns the exit code. */
export async function curves(options: Options): Promise<number> {
  const chosen = Object.keys(options.sizes);
  const points: CurvePoint[] = [];
  const wanted = CURVES.filter(({ name }) => chosen.length === 0 || chosen.includes(name));
  for (const curve of wanted) points.push(...(await measureCurve(curve, options)));
  console.log(curveTable(points, wanted));
  const noisy = points.filter(({ foreign }) => foreign > NOISE).length;
  if (noisy > 0) console.log(`\nIn ${noisy} of ${points.length} measurements other programs used more than ${NOISE} cores: read those figures with care.`);
  const isWhole = !options.isQuick && Object.values(options.sizes).every((sizes) => sizes === null);
  if (isWhole) publish(points, wanted);
  else console.log(`\n${JSON.stringify(points)}`);
  return 0;
}
