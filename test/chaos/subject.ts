// The coordinator under test of npm run test:chaos: its processes and its state folder.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { Coordinator, CoordinatorOptions } from "../../scripts/coordinator-process.ts";
import { runtimesOf } from "../support/process-tree.ts";

const INSTANCE = "evm";
const HEALTH_MS = 1_000;
const POLL_MS = 10;
const DEAD_MS = 60_000;

type Launcher = (options: CoordinatorOptions) => Promise<Coordinator>;

/** The coordinator under test: real processes from a copy of the sources, on a state folder that outlives them. */
export class Subject {
  readonly url: string;
  readonly #options: CoordinatorOptions;
  readonly #folder: string;
  readonly #start: Launcher;
  #coordinator: Coordinator;
  #deploys = 0;

  private constructor(folder: string, options: CoordinatorOptions, start: Launcher, coordinator: Coordinator) {
    this.#folder = folder;
    this.#options = options;
    this.#start = start;
    this.#coordinator = coordinator;
    this.url = coordinator.url;
  }

  /** Starts one from the sources in `folder`, by the launcher that is in there; its entry is the one with the faulty D1. */
  static async launch(folder: string, options: Omit<CoordinatorOptions, "instance">): Promise<Subject> {
    const config = join(folder, `wrangler.${INSTANCE}.toml`);
    const text = readFileSync(config, "utf8");
    writeFileSync(config, text.replace('main = "src/coordinator/main.ts"', 'main = "test/chaos/workerd/faulty-main.ts"'));
    const launcher = pathToFileURL(join(folder, "scripts", "coordinator-process.ts")).href;
    const { startCoordinator } = (await import(launcher)) as { startCoordinator: Launcher };
    // A deploy is an edit of the entry.
    const all = { instance: INSTANCE, watches: true, ...options } as const;
    return new Subject(folder, all, startCoordinator, await startCoordinator(all));
  }

  /** The runtime that runs our code. */
  runtimes(): number[] {
    return runtimesOf(this.#coordinator.pid).map(({ pid }) => pid);
  }

  /** SIGKILL for the runtime alone; its parent starts another one. */
  killRuntime(): boolean {
    const pids = this.runtimes();
    for (const pid of pids) process.kill(pid, "SIGKILL");
    return pids.length > 0;
  }

  /** SIGKILL for the coordinator and everything under it, and another start on the same state. */
  async killAll(): Promise<void> {
    await this.#coordinator.kill();
    this.#coordinator = await this.#start(this.#options);
  }

  /** SIGTERM, as an operator would, and another start on the same state. */
  async restart(): Promise<void> {
    await this.#coordinator.stop();
    this.#coordinator = await this.#start(this.#options);
  }

  /** New code, as a deploy brings it: every object is reset and every socket is closed. */
  deploy(): void {
    const entry = join(this.#folder, "test", "chaos", "workerd", "faulty-main.ts");
    writeFileSync(entry, readFileSync(entry, "utf8").replace(/DEPLOY = \d+/, `DEPLOY = ${++this.#deploys}`));
  }

  /** Nothing of it runs for so long. */
  async stall(ms: number): Promise<void> {
    const pids = this.runtimes();
    for (const pid of pids) process.kill(pid, "SIGSTOP");
    await delay(ms);
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGCONT");
      } catch {
        // It was killed meanwhile.
      }
    }
  }

  /** Registered workers, or null while it does not answer. */
  async online(): Promise<number | null> {
    try {
      const response = await fetch(`${this.url}/v1/health`, { signal: AbortSignal.timeout(HEALTH_MS) });
      const health = (await response.json()) as { workers_online?: unknown };
      return response.status === 200 ? Number(health.workers_online) : null;
    } catch {
      return null;
    }
  }

  /** Milliseconds until it answers with 200. */
  async untilServing(): Promise<number> {
    const began = performance.now();
    while ((await this.online()) === null) {
      if (performance.now() - began > DEAD_MS) throw new Error(`not serving after ${DEAD_MS / 1_000} s`);
      await delay(POLL_MS);
    }
    return performance.now() - began;
  }

  /** The SQLite files of D1 and of the hub. */
  databases(): { d1: string; hub: string } {
    const folder = join(this.#coordinator.stateDir, "v3");
    return { d1: only(join(folder, "d1", "miniflare-D1DatabaseObject")), hub: only(join(folder, "do", `compute-router-${INSTANCE}-WorkerHub`)) };
  }

  stop(): Promise<void> {
    return this.#coordinator.stop();
  }
}

function only(folder: string): string {
  const files = readdirSync(folder).filter((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite");
  const [file] = files;
  if (file === undefined || files.length > 1) throw new Error(`one database expected in ${folder}, found ${files.join()}`);
  return join(folder, file);
}
