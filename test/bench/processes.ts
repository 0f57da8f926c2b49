// What npm run bench starts and reads: server processes on their core, and from /proc their CPU time and memory and what everything else on the machine used.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { createInterface } from "node:readline";
import { descendants } from "../support/process-tree.ts";
import { SYNC_EVENTS } from "./syncs.ts";

/** Ticks per second of the times in /proc: USER_HZ, which Linux fixes at 100. */
const HZ = 100;
const START_MS = 60_000;
const STOP_MS = 12_000;
const LAST_LINES = 15;
const SAMPLES_PER_SECOND = 997;
/** What Node calls its process. */
const NODE_THREAD = "MainThread";

/** True if the shell would find this program. */
export const has = (program: string): boolean => spawnSync("sh", ["-c", `command -v ${program}`]).status === 0;

/** One server process with its children. */
export type Server = { readonly pid: number; stop(): Promise<void> };

const running = new Set<ChildProcess>();
process.once("exit", () => running.forEach((child) => child.kill("SIGTERM")));

/** Starts a program on one core; resolves when it prints a line that matches `ready`. */
export async function startServer(command: readonly string[], env: Record<string, string>, ready: RegExp, core: number | null, cwd?: string): Promise<Server> {
  const [program = "", ...args] = core === null ? command : ["taskset", "-c", String(core), ...command];
  const child = spawn(program, args, { env: { ...process.env, NODE_ENV: "production", ...env }, stdio: ["ignore", "pipe", "pipe"], ...(cwd && { cwd }) });
  running.add(child);
  const lines: string[] = [];
  let isReady: () => void = () => {};
  const listening = new Promise<void>((resolve) => (isReady = resolve));
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      if (lines.length > LAST_LINES) lines.shift();
      if (ready.test(line)) isReady();
    });
  const ended = once(child, "exit").then(() => "it ended");
  const late = new Promise<string>((resolve) => setTimeout(() => resolve(`not ready after ${START_MS / 1_000} s`), START_MS).unref());
  const problem = await Promise.race([listening.then(() => null), ended, late]);
  const { pid } = child;
  if (problem !== null || pid === undefined) {
    child.kill("SIGKILL");
    throw new Error(`${command.join(" ")}: ${problem}\n${lines.join("\n")}`);
  }
  return {
    pid,
    async stop() {
      child.kill("SIGTERM");
      const force = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await ended;
      clearTimeout(force);
      running.delete(child);
    },
  };
}

/** The processes of some servers, with all that they started. */
export const family = (pids: readonly number[]): number[] => pids.flatMap((pid) => [pid, ...descendants(pid).map((child) => child.pid)]);

/** CPU time in seconds that these processes have used. */
export function cpuOf(pids: readonly number[]): number {
  return Object.values(cpuByProgram(pids)).reduce((sum, seconds) => sum + seconds, 0);
}

/** The same for each program, by its name. */
export function cpuByProgram(pids: readonly number[]): Record<string, number> {
  const seconds: Record<string, number> = {};
  for (const pid of pids) {
    const [, name = "", fields = ""] = /^\d+ \((.*)\) (.*)$/s.exec(read(`/proc/${pid}/stat`)) ?? [];
    const [user = 0, system = 0] = fields.split(" ").slice(11, 13).map(Number);
    const program = name === NODE_THREAD ? "Node.js" : name;
    if (program !== "") seconds[program] = (seconds[program] ?? 0) + (user + system) / HZ;
  }
  return seconds;
}

/** CPU time in seconds that the whole machine has used, and that its host took from it. */
export function cpuOfMachine(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] =
    read("/proc/stat").split("\n")[0]?.trim().split(/\s+/).slice(1).map(Number) ?? [];
  return (user + nice + system + irq + softirq + steal) / HZ;
}

/** Memory of these processes in bytes; what several share is divided among them. */
export function memoryOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + 1_024 * Number(/^Pss:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0), 0);
}

/** True where perf can sample functions. */
export const canSample = (): boolean => has("perf");
/** True where perf sees the syncs of the disk: mostly that needs root. */
export const canSeeSyncs = (): boolean => spawnSync("perf", ["record", "-o", "/dev/null", "-e", SYNC_EVENTS, "true"]).status === 0;

/** Samples which functions of these processes run; the returned function ends that, and resolves to the address, name and file of each sample. */
export function sampleFunctions(pids: readonly number[]): Promise<() => Promise<string>> {
  return watch(pids, ["-F", String(SAMPLES_PER_SECOND)], "ip,sym,dso");
}

/** Notes when threads of these processes sync the disk; the returned function ends that, and resolves to what {@link syncTimes} reads. */
export function watchSyncs(pids: readonly number[]): Promise<() => Promise<string>> {
  return watch(pids, ["-e", SYNC_EVENTS], "tid,time,event");
}

/** Records events of processes by perf; resolves when it has begun. The returned function ends it, and resolves to these fields of each event. */
async function watch(pids: readonly number[], events: readonly string[], fields: string): Promise<() => Promise<string>> {
  const folder = mkdtempSync(join(tmpdir(), "bench-perf-"));
  const file = join(folder, "events");
  // It begins when it is told, and says so: to attach itself takes a while.
  const args = ["record", ...events, "-o", file, "-D", "-1", "--control", "fd:3,4", "-p", pids.join(",")];
  const child = spawn("perf", args, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  running.add(child);
  const ended = once(child, "close");
  const [, , , control, answers] = child.stdio;
  if (!(control instanceof Writable) || !(answers instanceof Readable)) throw new Error("perf has no pipes");
  control.write("enable\n");
  const hasBegun = await Promise.race([once(answers, "data").then(() => true), ended.then(() => false)]);
  if (!hasBegun) throw new Error(`perf ended with ${child.exitCode}`);
  return async () => {
    child.kill("SIGINT");
    await ended;
    running.delete(child);
    const { stdout } = spawnSync("perf", ["script", "-i", file, "-F", fields], { encoding: "utf8", maxBuffer: 2 ** 28 });
    rmSync(folder, { recursive: true });
    return stdout;
  };
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // It ended while we looked.
    return "";
  }
}
