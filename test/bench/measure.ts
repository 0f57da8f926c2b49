// One measurement of npm run bench: runs the driver on its core, and reads meanwhile what the servers and the rest of the machine use.
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Load, Measured } from "./driver.ts";
import { shares } from "./kinds.ts";
import { cpuByProgram, cpuOf, cpuOfMachine, family, has, memoryOf, sampleFunctions, watchSyncs } from "./processes.ts";
import type { Cell } from "./figures.ts";
import { syncCost, syncTimes } from "./syncs.ts";
import type { Running } from "./systems.ts";

const DRIVER_CORE = 1;
/** The core of all servers of a system. */
export const SERVER_CORE = 0;
/** CPU time of everything else, in cores: more than this and a measurement is made again. */
export const NOISE = 0.3;
/** True if servers and driver have a core each. */
export const pinned = has("taskset") && availableParallelism() > 1;

const began = performance.now();
/** Prints a line about the progress. */
export const say = (line: string): void => console.error(`${((performance.now() - began) / 1_000).toFixed(0).padStart(4)} s  ${line}`);

/** What one run of the driver gives. */
export type Measurement = Omit<Cell, "system" | "round" | "turn">;

/** What else to do in a run: watch the syncs of the servers, sample their functions, and call `mark` at its begin and end. */
type Besides = { syncs?: boolean; samples?: boolean; mark?: (word: "begin" | "end") => Promise<void> };

/** One run of the driver against a system. */
export async function measure(
  running: Running,
  load: Omit<Load, "port" | "natsPort">,
  { syncs = false, samples = false, mark }: Besides = {},
): Promise<Measurement> {
  const { port, natsPort, pids } = running;
  const program = [process.execPath, "--no-warnings", join(import.meta.dirname, "driver.ts")];
  const [command = "", ...args] = pinned ? ["taskset", "-c", String(DRIVER_CORE), ...program] : program;
  const driver = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, BENCH: JSON.stringify({ ...load, port, natsPort }) } });
  let last = "";
  const clocks = (): { programs: Record<string, number>; server: number; own: number; machine: number } => {
    const programs = cpuByProgram(family(pids));
    const server = Object.values(programs).reduce((sum, one) => sum + one, 0);
    return {
      programs,
      server,
      own: server + cpuOf([driver.pid ?? 0]) + process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6,
      machine: cpuOfMachine(),
    };
  };
  const at: Record<string, ReturnType<typeof clocks>> = {};
  let memory = 0;
  let endSyncs: (() => Promise<string>) | null = null;
  let endSamples: (() => Promise<string>) | null = null;
  let synced: string | null = null;
  let sampled: string | null = null;
  for await (const line of createInterface({ input: driver.stdout })) {
    last = line;
    if (line !== "begin" && line !== "end") continue;
    if (line === "begin") {
      await mark?.(line);
      if (syncs) endSyncs = await watchSyncs(family(pids));
      if (samples) endSamples = await sampleFunctions(family(pids));
    }
    at[line] = clocks();
    if (line === "end") {
      synced = (await endSyncs?.()) ?? null;
      sampled = (await endSamples?.()) ?? null;
      await mark?.(line);
    }
    memory = memoryOf(family(pids));
    driver.stdin.write("\n");
  }
  const { begin, end } = at;
  if (begin === undefined || end === undefined) throw new Error("the driver failed, see above");
  const measured = Measured.parse(JSON.parse(last));
  const { jobs, seconds, p50, p99, dispatch, frames, frameBytes, requests, httpBytes } = measured;
  return {
    ...{ workers: load.workers, rate: load.rate, jobs, jobsPerSecond: jobs / seconds, p50, p99, dispatch },
    cpuPerJob: ((end.server - begin.server) * 1e6) / jobs,
    programs: Object.fromEntries(Object.entries(end.programs).map(([name, seconds]) => [name, ((seconds - (begin.programs[name] ?? 0)) * 1e6) / jobs])),
    memory,
    probes: {},
    kinds: sampled === null ? null : shares(sampled),
    syncs: synced === null ? null : syncCost(syncTimes(synced), jobs, seconds),
    perJob: { frames: frames / jobs, frameBytes: frameBytes / jobs, requests: requests / jobs, httpBytes: httpBytes / jobs },
    foreign: Math.max(0, end.machine - begin.machine - (end.own - begin.own)) / seconds,
  };
}

/** The same until nothing else disturbs it, or the quietest of a few tries. */
export async function quietly(what: string, most: number, run: () => Promise<Measurement>): Promise<Measurement> {
  let best = await run();
  for (let tries = 1; tries < most && best.foreign > NOISE; tries++) {
    say(`${what}: other programs used ${best.foreign.toFixed(1)} cores, once more`);
    const again = await run();
    if (again.foreign < best.foreign) best = again;
  }
  return best;
}
