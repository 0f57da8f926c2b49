import { mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Child, Exit } from "./child.ts";
import { type Instance, ROOT } from "./instance.ts";
import { migrate } from "./migrate.ts";
import { isPortFree } from "./port.ts";
import { startWrangler } from "./wrangler.ts";

const READY_TIMEOUT_MS = 90_000;
const POLL_MS = 50;
/** A coordinator that answers, but with errors, gets this long to become well. */
const UNWELL_MS = 3_000;
/** wrangler brings a crashed runtime back by itself, but not the one that holds the port; it gets this long. */
const RECOVERY_MS = 3_000;

/** What one coordinator runs with. */
export type CoordinatorOptions = {
  instance: Instance;
  port: number;
  /** Folder of its databases; made when missing. Default `.state/<instance>`. */
  stateDir?: string;
  /** Settings over those of its wrangler file. */
  settings?: Readonly<Record<string, string>>;
  /** A warning or an error of the coordinator or of wrangler, for a person. */
  onLine?: (line: string) => void;
  /** Something slow begins. */
  onStep?: (step: "migrating" | "starting" | "restarting") => void;
};

/** A coordinator that answers. */
export type Coordinator = {
  readonly instance: Instance;
  /** Without a final slash. */
  readonly url: string;
  /** Where workers connect. */
  readonly socketUrl: string;
  readonly stateDir: string;
  /** The process id of its wrangler, whose children are the runtimes. */
  readonly pid: number;
  /** Resolves when it ended without being told to, with what it said last. */
  readonly failed: Promise<StartFailure>;
  /** Ends it and all its children. */
  stop(): Promise<void>;
  /** Ends it and all its children without a warning. */
  kill(): Promise<void>;
};

/** Why there is no coordinator; the message is for a person. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
}

/** Migrates and starts one coordinator on `wrangler dev`; resolves when it answers. @throws {StartFailure} */
export async function startCoordinator(options: CoordinatorOptions): Promise<Coordinator> {
  const { instance, port } = options;
  const stateDir = resolve(ROOT, options.stateDir ?? join(".state", instance));
  if (!(await isPortFree(port))) {
    throw new StartFailure(`port ${port} of 127.0.0.1 is taken: end what listens there, or give ${instance} another port`);
  }
  makeFolder(stateDir);
  const failure = await migrate(instance, stateDir, () => options.onStep?.("migrating"));
  if (failure !== null) throw new StartFailure(failure);
  options.onStep?.("starting");

  const url = `http://127.0.0.1:${port}`;
  const launch = (onCrash: () => void): Child => startWrangler(devArguments(options, stateDir), stateDir, (line) => {
    if (line.includes("runtime crashed unexpectedly")) onCrash();
    if (!NOISE.test(line)) options.onLine?.(line);
  });

  let stopping = false;
  let child = launch(recover);
  let ended: (failure: StartFailure) => void;
  const failed = new Promise<StartFailure>((done) => (ended = done));

  function watch(): void {
    const watched = child;
    void watched.exited.then((exit) => {
      if (!stopping && watched === child) ended(new StartFailure(`wrangler ended (${exit})\n${lastWords(watched)}`));
    });
  }
  // Without this a crash of the runtime that holds the port would leave a wrangler that answers nothing.
  function recover(): void {
    const crashed = child;
    void (async () => {
      await delay(RECOVERY_MS);
      if (stopping || crashed !== child || (await health(url)).well) return;
      options.onStep?.("restarting");
      const old = child;
      child = launch(recover);
      await old.kill();
      watch();
    })();
  }

  watch();
  const problem = await Promise.race([untilWell(url, () => child), failed.then((end) => end.message)]);
  if (problem !== null) {
    stopping = true;
    await child.stop();
    throw new StartFailure(`${instance} did not start: ${problem}`);
  }
  const end = async (how: (running: Child) => Promise<Exit>): Promise<void> => {
    stopping = true;
    await how(child);
  };
  return {
    instance,
    url,
    socketUrl: `ws://127.0.0.1:${port}/`,
    stateDir,
    get pid() {
      return child.pid;
    },
    failed,
    stop: () => end((running) => running.stop()),
    kill: () => end((running) => running.kill()),
  };
}
