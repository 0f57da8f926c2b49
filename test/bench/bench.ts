// npm run bench: this coordinator and other ways to build it, on the same work, on this machine. Prints a table and writes docs/benchmarks/.
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { type Load, Measured } from "./driver.ts";
import { countFsyncs, cpuOf, cpuOfMachine, family, has, memoryOf } from "./processes.ts";
import { type Cell, type Results, table, write } from "./report.ts";
import { install, type Running, type System, SYSTEMS } from "./systems.ts";

const USAGE = `npm run bench -- [--quick] [--rounds N] [--systems ${SYSTEMS.map(({ name }) => name).join(",")}]`;
const SERVER_CORE = 0;
const DRIVER_CORE = 1;
/** CPU time of everything else, in cores: more than this and a measurement is made again. */
const NOISE = 0.3;
const FSYNC_WORKERS = 64;

type Plan = { rounds: number; workers: readonly number[]; rates: readonly number[]; seconds: number; tries: number };
const WHOLE: Plan = { rounds: 3, workers: [1, 16, 64, 256], rates: [50, 450], seconds: 4, tries: 4 };
const QUICK: Plan = { rounds: 1, workers: [16, 64], rates: [450], seconds: 2, tries: 2 };
/** The workers that are there while jobs come at a fixed rate. */
const RATE_WORKERS = 64;

const pinned = has("taskset") && availableParallelism() > 1;
const began = performance.now();
const say = (line: string): void => console.error(`${((performance.now() - began) / 1_000).toFixed(0).padStart(4)} s  ${line}`);

/** One run of the driver against a system. `fsyncs` counts those of its servers too, which slows them. */
async function measure(running: Running, load: Omit<Load, "port" | "natsPort">, fsyncs = false): Promise<Omit<Cell, "system" | "round">> {
  const { port, natsPort, pids } = running;
  const program = [process.execPath, "--no-warnings", join(import.meta.dirname, "driver.ts")];
  const [command = "", ...args] = pinned ? ["taskset", "-c", String(DRIVER_CORE), ...program] : program;
  const driver = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, BENCH: JSON.stringify({ ...load, port, natsPort }) } });
  let last = "";
  const clocks = (): { server: number; own: number; machine: number } => {
    const server = cpuOf(family(pids));
    return { server, own: server + cpuOf([driver.pid ?? 0]) + process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6, machine: cpuOfMachine() };
  };
  const at: Record<string, ReturnType<typeof clocks>> = {};
  let memory = 0;
  let tracing: ReturnType<typeof countFsyncs> = null;
  for await (const line of createInterface({ input: driver.stdout })) {
    last = line;
    if (line !== "begin" && line !== "end") continue;
    if (line === "begin" && fsyncs) tracing = countFsyncs(family(pids));
    at[line] = clocks();
    memory = memoryOf(family(pids));
    driver.stdin.write("\n");
  }
  const calls = (await tracing?.stop()) ?? null;
  const { begin, end } = at;
  if (begin === undefined || end === undefined) throw new Error("the driver failed, see above");
  const measured = Measured.parse(JSON.parse(last));
  const { jobs, seconds, p50, p99, frames, frameBytes, requests, httpBytes } = measured;
  return {
    ...{ workers: load.workers, rate: load.rate, jobs, jobsPerSecond: jobs / seconds, p50, p99 },
    cpuPerJob: ((end.server - begin.server) * 1e6) / jobs,
    memory,
    perJob: {
      frames: frames / jobs,
      frameBytes: frameBytes / jobs,
      requests: requests / jobs,
      httpBytes: httpBytes / jobs,
      fsyncs: calls === null ? null : calls / jobs,
    },
    foreign: Math.max(0, end.machine - begin.machine - (end.own - begin.own)) / seconds,
  };
}

/** The same until nothing else disturbs it, or the quietest of a few tries. */
async function quietly(what: string, most: number, run: () => ReturnType<typeof measure>): ReturnType<typeof measure> {
  let best = await run();
  for (let tries = 1; tries < most && best.foreign > NOISE; tries++) {
    say(`${what}: other programs used ${best.foreign.toFixed(1)} cores, once more`);
    const again = await run();
    if (again.foreign < best.foreign) best = again;
  }
  return best;
}

/** All measurements of one system in one round, on a state of its own. */
async function round(system: System, number: number, plan: Plan): Promise<Cell[]> {
  const folder = mkdtempSync(join(tmpdir(), `bench-${system.name}-`));
  // PostgreSQL runs as a user of its own.
  chmodSync(folder, 0o755);
  const { waits } = system;
  const cells: Cell[] = [];
  const running = await system.start(folder, pinned ? SERVER_CORE : null);
  try {
    const loads = [...plan.workers.map((workers) => ({ workers, rate: null })), ...plan.rates.map((rate) => ({ workers: RATE_WORKERS, rate }))];
    for (const load of loads) {
      const what = `round ${number}  ${system.name.padEnd(9)}  ${load.workers} workers${load.rate === null ? "" : `, ${load.rate} jobs/s`}`;
      const cell = await quietly(what, plan.tries, () => measure(running, { ...load, waits, seconds: plan.seconds }));
      say(
        `${what}: ${cell.jobsPerSecond.toFixed(0)} jobs/s, p50 ${cell.p50.toFixed(1)} ms, p99 ${cell.p99.toFixed(1)} ms, ${cell.cpuPerJob.toFixed(0)} µs of CPU per job`,
      );
      cells.push({ system: system.name, round: number, ...cell });
    }
    if (system.name.startsWith("ours") && number === 1) {
      const { perJob } = await measure(running, { workers: FSYNC_WORKERS, rate: null, waits, seconds: plan.seconds }, true);
      const traced = cells.find(({ workers, rate }) => workers === FSYNC_WORKERS && rate === null);
      if (traced !== undefined) traced.perJob.fsyncs = perJob.fsyncs;
    }
  } finally {
    await running.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  return cells;
}

async function main(): Promise<number> {
  let values;
  try {
    ({ values } = parseArgs({
      options: { quick: { type: "boolean" }, rounds: { type: "string" }, systems: { type: "string" }, help: { type: "boolean", short: "h" } },
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
  const plan: Plan = { ...(values.quick ? QUICK : WHOLE), rounds };
  install(say);
  const wanted = SYSTEMS.filter(({ name }) => chosen === undefined || chosen.includes(name));
  const skipped = wanted.flatMap(({ label, missing }) => (missing() === null ? [] : [`${label}: ${missing()} cannot be had`]));
  for (const line of skipped) say(`skipped ${line}`);
  if (!pinned) say("nothing is pinned to a core: that needs taskset and two cores");
  if (!has("strace")) say("fsyncs are not counted: that needs strace");

  const cells: Cell[] = [];
  const systems = wanted.filter(({ missing }) => missing() === null);
  // Interleaved: what slows the machine for a while slows all of them.
  for (let number = 1; number <= plan.rounds; number++) for (const system of systems) cells.push(...(await round(system, number, plan)));
  const results: Results = { plan, pinned, skipped, noise: NOISE, labels: Object.fromEntries(systems.map(({ name, label }) => [name, label])), cells };
  console.log(table(results));
  // What was cut short is no figure to publish.
  if (!values.quick && chosen === undefined) say(`written to ${write(results)}`);
  return 0;
}

// Their exit ends the servers too.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));
process.exit(await main());
