// npm run bench: this coordinator and other ways to build it, on the same work, on this machine. Prints a table and writes docs/benchmarks/.
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CURVES, curves, type Sizes } from "./curves.ts";
import type { Probe } from "./driver.ts";
import { measure, type Measurement, NOISE, pinned, quietly, say, SERVER_CORE } from "./measure.ts";
import { canSample, canSeeSyncs } from "./processes.ts";
import { ALONE, type Cell, FLOOR, type Results } from "./figures.ts";
import { table, write } from "./report.ts";
import { install, type Running, type System, SYSTEMS } from "./systems.ts";

const USAGE = `npm run bench -- [--quick] [--rounds N] [--systems ${SYSTEMS.map(({ name }) => name).join(",")}]
npm run bench -- --curves [--quick] [--rounds N] [--seconds N] [--sizes ${CURVES.map(({ name }) => name).join("|")}[=SMALLEST,…,LARGEST] ...]`;
/** The system that all are compared with. */
const OURS = "ours";
/** The parts of a job that are measured alone. */
const PROBES: Readonly<Record<string, readonly Probe[]>> = { [ALONE]: ["poll"], [FLOOR]: ["edge", "poll", "write", "receipt"] };

/**
 * What to measure. `warmSeconds`: how long each system is at full load before its first figure. V8 compiles its code meanwhile: that of the peer with BullMQ
 * takes more than 10,000 jobs, and does 1.3 times as many then as at first.
 */
type Plan = {
  warmSeconds: number;
  rounds: number;
  workers: readonly number[];
  rates: readonly number[];
  seconds: number;
  turns: number;
  rateTurns: number;
  tries: number;
};
const WHOLE: Plan = { warmSeconds: 6, rounds: 3, workers: [1, 16, 64, 256], rates: [50, 450], seconds: 3, turns: 2, rateTurns: 2, tries: 2 };
const QUICK: Plan = { warmSeconds: 0, rounds: 1, workers: [16, 64], rates: [450], seconds: 2, turns: 1, rateTurns: 1, tries: 2 };
/** The workers that are there while jobs come at a fixed rate, and where systems are compared and syncs and parts of a job are measured. */
const RATE_WORKERS = 64;
/** How long each turn takes where there are several, in seconds. */
const TURN_SECONDS = 2;

/** What a system gets at one time. `turn` counts from 1. */
type Turn = { workers: number; rate: number | null; turn: number; seconds: number };

/** A system that is up, on a state of its own. */
type Started = { system: System; folder: string; running: Running };

async function started(system: System): Promise<Started> {
  const folder = mkdtempSync(join(tmpdir(), `bench-${system.name}-`));
  // PostgreSQL runs as a user of its own.
  chmodSync(folder, 0o755);
  return { system, folder, running: await system.start(folder, pinned ? SERVER_CORE : null) };
}

/**
 * All measurements of one round. All systems are up, and take turns at each load: the speed of a machine changes within a minute, and then figures can be
 * compared only if seconds lie between them. Of two systems the one that is started later is a few percent faster, so each round begins with another one. Where systems are compared, they take several turns: short ones with as many jobs as they can do, longer ones at
 * the highest rate, because a p99 needs many jobs.
 */
async function round(systems: readonly System[], number: number, plan: Plan): Promise<Cell[]> {
  const cells: Cell[] = [];
  const all: Started[] = [];
  try {
    for (const system of systems) all.push(await started(system));
    const { seconds, turns, rateTurns } = plan;
    const highest = Math.max(...plan.rates);
    const loads: Turn[] = [
      ...plan.workers.flatMap((workers) =>
        workers === RATE_WORKERS && turns > 1
          ? Array.from({ length: turns }, (_, index) => ({ workers, rate: null, turn: index + 1, seconds: TURN_SECONDS }))
          : [{ workers, rate: null, turn: 1, seconds }],
      ),
      ...plan.rates.flatMap((rate) =>
        Array.from({ length: rate === highest ? rateTurns : 1 }, (_, index) => ({ workers: RATE_WORKERS, rate, turn: index + 1, seconds })),
      ),
    ];
    for (const one of all) await warm(one, plan);
    for (const load of loads) for (const one of all) cells.push(...(await measured(one, number, plan, load)));
    for (const one of all) await measureParts(one, number, plan, cells);
  } finally {
    for (const { running, folder } of all) {
      await running.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return cells;
}

/** Lets a system run at full load, so that V8 compiles its code before the first figure. */
async function warm({ system: { name, waits }, running }: Started, { warmSeconds: seconds }: Plan): Promise<void> {
  if (seconds > 0) await figure(name, `${name}  warm-up`, () => measure(running, { workers: RATE_WORKERS, rate: null, waits, seconds, scene: null }));
}

/** A figure of a system; null if a peer fails. A fault of ours must be seen; one of a peer costs this figure, and not the hours before it. */
async function figure(name: string, what: string, run: () => Promise<Measurement>): Promise<Measurement | null> {
  try {
    return await run();
  } catch (error) {
    if (name.startsWith(OURS)) throw error;
    say(`${what}: no figure, ${error instanceof Error ? error.message : String(error)}`);
    return null;
  }
}

/** One measurement of a system; none if a peer fails. */
async function measured({ system, running }: Started, number: number, plan: Plan, { turn, ...load }: Turn): Promise<Cell[]> {
  const { name, waits } = system;
  const what = `round ${number}  ${name.padEnd(9)}  ${load.workers} workers${load.rate === null ? "" : `, ${load.rate} jobs/s`}`;
  const cell = await figure(name, what, () => quietly(what, plan.tries, () => measure(running, { ...load, waits, scene: null })));
  if (cell === null) return [];
  say(
    `${what}: ${cell.jobsPerSecond.toFixed(0)} jobs/s, p50 ${cell.p50.toFixed(1)} ms, p99 ${cell.p99.toFixed(1)} ms, ${cell.cpuPerJob.toFixed(0)} µs of CPU per job`,
  );
  return [{ system: name, round: number, turn, ...cell }];
}

/**
 * Measures parts of a job alone, and in the first round its syncs of the disk and the functions that it runs, with as many jobs as the system can do and at the
 * highest rate. What it finds becomes part of the system's figure with as many workers and jobs.
 */
async function measureParts({ system: { name, waits }, running }: Started, number: number, plan: Plan, cells: readonly Cell[]): Promise<void> {
  const cellAt = (load: number | null) => cells.find(({ system, workers, rate }) => system === name && workers === RATE_WORKERS && rate === load);
  const most = cellAt(null);
  if (most === undefined) return;
  for (const probe of PROBES[name] ?? []) {
    const what = `round ${number}  ${name.padEnd(9)}  probe "${probe}"`;
    const load = { workers: 1, rate: null, waits: false, probe, seconds: plan.seconds, scene: null };
    const cell = await quietly(what, plan.tries, () => measure(running, load));
    say(`${what}: ${cell.cpuPerJob.toFixed(0)} µs of CPU each`);
    most.probes[probe] = cell.cpuPerJob;
  }
  if (number > 1) return;
  for (const rate of [null, Math.max(...plan.rates)]) {
    const cell = cellAt(rate);
    if (cell === undefined) continue;
    const load = { workers: RATE_WORKERS, rate, waits, seconds: plan.seconds, scene: null };
    if (canSeeSyncs()) cell.syncs = (await figure(name, `${name}  syncs`, () => measure(running, load, { syncs: true })))?.syncs ?? null;
    if (canSample() && (name.startsWith(OURS) || name.startsWith(FLOOR))) cell.kinds = (await measure(running, load, { samples: true })).kinds;
  }
}

/** The sizes of the curves that were asked for; null if one cannot be read. */
function sizesOf(texts: readonly string[]): Sizes | null {
  const sizes: Sizes = {};
  for (const text of texts) {
    const [, name = "", list] = /^(\w+)(?:=(\d+(?:,\d+)+))?$/.exec(text) ?? [];
    if (!CURVES.some((curve) => curve.name === name)) return null;
    sizes[name] = list?.split(",").map(Number) ?? null;
  }
  return sizes;
}

async function main(): Promise<number> {
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        ...{ quick: { type: "boolean" }, rounds: { type: "string" }, systems: { type: "string" }, help: { type: "boolean", short: "h" } },
        ...{ curves: { type: "boolean" }, sizes: { type: "string", multiple: true }, seconds: { type: "string" } },
      },
    }));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 2;
  }
  const chosen = values.systems?.split(",");
  const unknown = chosen?.find((name) => !SYSTEMS.some((system) => system.name === name));
  const rounds = Number(values.rounds ?? (values.quick ? QUICK : WHOLE).rounds);
  if (values.help || unknown !== undefined || !Number.isInteger(rounds) || rounds < 1) {
    console.error(unknown === undefined ? USAGE : `unknown system ${unknown}\n${USAGE}`);
    return values.help ? 0 : 2;
  }
  if (process.platform !== "linux") {
    console.error("npm run bench measures with /proc, so it needs Linux");
    return 1;
  }
  if (values.curves === true) {
    const sizes = sizesOf(values.sizes ?? []);
    const seconds = Number(values.seconds ?? (values.quick ? 1 : WHOLE.seconds));
    if (sizes !== null && seconds > 0) return curves({ rounds, seconds, sizes, isQuick: values.quick === true, tries: values.quick ? 1 : WHOLE.tries });
    console.error(USAGE);
    return 2;
  }
  const plan: Plan = { ...(values.quick ? QUICK : WHOLE), rounds };
  install(say);
  const wanted = SYSTEMS.filter(({ name }) => chosen === undefined || chosen.includes(name));
  const skipped = wanted.flatMap(({ label, missing }) => (missing() === null ? [] : [`${label}: ${missing()} cannot be had`]));
  for (const line of skipped) say(`skipped ${line}`);
  if (!pinned) say("nothing is pinned to a core: that needs taskset and two cores");
  if (!canSample()) say("functions are not sampled: that needs perf, of Debian's linux-perf");
  if (!canSeeSyncs()) say("syncs of the disk are not watched: that needs perf, and root");

  const cells: Cell[] = [];
  const systems = wanted.filter(({ missing }) => missing() === null);
  for (let number = 1; number <= plan.rounds; number++) {
    const first = Math.floor(((number - 1) * systems.length) / plan.rounds);
    cells.push(...(await round([...systems.slice(first), ...systems.slice(0, first)], number, plan)));
  }
  const common = { plan, pinned, skipped, noise: NOISE };
  const results: Results = { ...common, labels: Object.fromEntries(systems.map(({ name, label }) => [name, label])), cells };
  console.log(table(results));
  // What was cut short is no figure to publish.
  if (!values.quick && chosen === undefined) say(`written to ${write(results)}`);
  return 0;
}

// Their exit ends the servers too.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));
process.exit(await main());
