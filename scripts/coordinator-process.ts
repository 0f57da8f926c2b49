// One coordinator on `wrangler dev`: start it, wait until it answers, restart a crashed runtime, fire its cron, stop it. Tests and `npm start` use it.
import { rmSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseJson } from "../src/protocol/text.ts";
import { makeFolder } from "../src/worker/node/worker-config.ts";
import { type Child, patiently, startChild } from "./child.ts";
import { createRequire } from "node:module";
import { once } from "node:events";
import { createServer } from "node:net";
import { takeFileLock } from "../src/worker/node/worker-lock.ts";
import { fileURLToPath } from "node:url";
import * as z from "zod";

const READY_TIMEOUT_MS = 90_000;
const POLL_MS = 50;
/** How long a coordinator may answer with errors before the start fails. */
const UNWELL_MS = 3_000;
const HEALTH_TIMEOUT_MS = 2_000;
const LAST_WORDS = 40;
/** How long wrangler gets to restart a crashed runtime. It cannot restart the runtime that holds the port. */
const RECOVERY_MS = 3_000;

/** After these errors wrangler keeps running and waits for an edit. */
const FATAL = /Build failed|ERR_RUNTIME_FAILURE|runtime failed to start|Uncaught |Address already in use/;
/** Lines of wrangler that appear in every session and help nobody: cron triggers do not fire locally. */
const NOISE =
  /^\s*$|Scheduled Workers are not automatically triggered|To manually trigger a scheduled event|cdn-cgi\/local\/scheduled|#test-cron-triggers-locally/;

/** How often this script fires the cron triggers of the wrangler files, because no local emulation does. */
const CRON_MS = 60_000;

/** Options of one coordinator. */
export type CoordinatorOptions = {
  instance: Instance;
  port: number;
  /** Folder of its databases; created if missing. Default `.state/<instance>`. */
  stateDir?: string;
  /** Settings that override those of its wrangler file. */
  settings?: Readonly<Record<string, string>>;
  /** A warning or an error of the coordinator or of wrangler, for a person. */
  onLine?: (line: string) => void;
  /** How often its cron runs, ms; default a minute. */
  cronMs?: number;
  /** Called when a slow step begins. */
  onStep?: (step: "starting" | "restarting") => void;
  /** Starts its process; default `wrangler dev` on the sources. */
  launch?: (options: CoordinatorOptions, stateDir: string, onLine: (line: string) => void) => Child;
};

/** A coordinator that answers. */
export type Coordinator = {
  readonly instance: Instance;
  /** Without a final slash. */
  readonly url: string;
  /** Where workers connect. */
  readonly socketUrl: string;
  readonly stateDir: string;
  /** The process id of its launcher (wrangler), whose children are the runtimes. */
  readonly pid: number;
  /** Resolves when it ended unexpectedly, with its last lines. */
  readonly failed: Promise<string>;
  /** Stops it and all its children. */
  stop(): Promise<void>;
  /** Kills it and all its children. */
  kill(): Promise<void>;
};

/** Why there is no coordinator; the message is for a person. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
}

/** Starts one coordinator on `wrangler dev` and resolves when it answers. @throws {StartFailure} */
export async function startCoordinator(options: CoordinatorOptions): Promise<Coordinator> {
  const { instance, port } = options;
  const stateDir = resolve(ROOT, options.stateDir ?? join(".state", instance));
  await assertPortFree(port, `give ${instance} another port`);
  const lock = await takeFolder(stateDir);
  options.onStep?.("starting");

  const url = `http://127.0.0.1:${port}`;
  const coordinator = new Supervised(options, url, stateDir, () => lock.release());
  const problem = await Promise.race([untilWell(url, coordinator), coordinator.failed]);
  if (problem !== null) {
    await coordinator.stop();
    throw new StartFailure(`${instance} did not start: ${problem}`);
  }
  return coordinator;
}

/** @throws {StartFailure} if a program listens there; `otherwise` is the advice in the message */
export async function assertPortFree(port: number, otherwise: string): Promise<void> {
  const free = await patiently(async () => ((await isPortFree(port)) ? true : null));
  if (free === null) throw new StartFailure(`port ${port} of 127.0.0.1 is taken: stop the program that listens there, or ${otherwise}`);
}

/** One wrangler process, and the next one if it loses the runtime that holds the port. */
class Supervised implements Coordinator {
  readonly instance: Instance;
  readonly url: string;
  readonly socketUrl: string;
  readonly stateDir: string;
  readonly failed: Promise<string>;
  readonly #options: CoordinatorOptions;
  #fail: (problem: string) => void = () => {};
  #child: Child;
  #stopping = false;
  #restarting = false;
  readonly #release: () => void;
  readonly #cron: NodeJS.Timeout;

  constructor(options: CoordinatorOptions, url: string, stateDir: string, release: () => void) {
    this.instance = options.instance;
    this.url = url;
    this.socketUrl = `${url.replace("http", "ws")}/`;
    this.stateDir = stateDir;
    this.#options = options;
    this.#release = release;
    this.failed = new Promise((resolve) => (this.#fail = resolve));
    this.#child = this.#launch();
    this.#cron = setInterval(() => void runCron(url), options.cronMs ?? CRON_MS).unref();
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The last lines of wrangler, for a message, unless they were already printed. */
  get reason(): string {
    return this.#options.onLine === undefined ? `\n${this.lastWords}` : ", see above";
  }

  get lastWords(): string {
    return this.#child.lines
      .filter((line) => !isNoise(line))
      .slice(-LAST_WORDS)
      .join("\n");
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#cron);
    await this.#child.stop();
    this.#release();
  }

  async kill(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#cron);
    await this.#child.kill();
    this.#release();
  }

  #launch(): Child {
    const { onLine, launch = launchWrangler } = this.#options;
    const child = launch(this.#options, this.stateDir, (line) => {
      if (line.includes("runtime crashed unexpectedly")) void this.#recover(child);
      if (!isNoise(line)) onLine?.(line);
    });
    void child.exited.then((exit) => {
      if (!this.#stopping && !this.#restarting) this.#fail(`wrangler ended (${exit})${this.reason}`);
    });
    return child;
  }

  /** Restarts wrangler after its runtime with the port has crashed: the new runtime of the same wrangler answers no requests. */
  async #recover(crashed: Child): Promise<void> {
    await delay(RECOVERY_MS);
    const state = await health(this.url);
    if (state === "well" || this.#stopping || this.#restarting || crashed !== this.#child) return;
    this.#restarting = true;
    this.#options.onStep?.("restarting");
    await crashed.kill();
    if (!this.#stopping) this.#child = this.#launch();
    this.#restarting = false;
  }
}

function launchWrangler({ instance, port, settings = {} }: CoordinatorOptions, stateDir: string, onLine: (line: string) => void): Child {
  const place = ["-c", `wrangler.${instance}.toml`, "--ip", "127.0.0.1", "--port", String(port), "--persist-to", stateDir];
  // Without the flag no_web_socket_compression: see routes/connect.ts.
  const flags = ["--compatibility-flags", "nodejs_compat"];
  const quiet = ["--inspector-port", "0", "--show-interactive-dev-session=false", "--log-level", "warn"];
  const variables = Object.entries(settings).flatMap(([name, value]) => ["--var", `${name}:${value}`]);
  return startWrangler(["dev", ...place, ...flags, ...quiet, ...variables], stateDir, onLine);
}

/** Resolves to null when the coordinator answers, or to a description of the problem. */
async function untilWell(url: string, coordinator: Supervised): Promise<string | null> {
  const started = Date.now();
  let unwellSince: number | null = null;
  while (Date.now() - started < READY_TIMEOUT_MS) {
    const state = await health(url);
    if (state === "well") return null;
    if (state === "silent") unwellSince = null;
    else if (Date.now() - (unwellSince ??= Date.now()) > UNWELL_MS) return state;
    if (FATAL.test(coordinator.lastWords)) {
      // Wait for the rest of the message.
      await delay(500);
      return `wrangler cannot run it${coordinator.reason}`;
    }
    await delay(POLL_MS);
  }
  return `no answer from ${url} after ${READY_TIMEOUT_MS / 1000} s${coordinator.reason}`;
}

/** Fires the cron trigger. The coordinator logs a failure, and the next run catches up. */
async function runCron(url: string): Promise<void> {
  await fetch(`${url}/cdn-cgi/local/scheduled`, { signal: AbortSignal.timeout(CRON_MS) })
    .then((answer) => answer.text())
    .catch(() => {});
}

const ErrorAnswer = z.object({ error: z.string() });

/** `well`, `silent`, or the problem: the coordinator's error, or the status and text of another answer. */
async function health(url: string): Promise<string> {
  try {
    const response = await fetch(`${url}/v1/health`, { signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS) });
    const text = await response.text();
    if (response.ok) return "well";
    const problem = `${url}/v1/health answers ${response.status}`;
    const answer = ErrorAnswer.safeParse(parseJson(text));
    return answer.success ? `${problem}: ${answer.data.error}` : `${problem} ${text.slice(0, 500)}`;
  } catch {
    return "silent";
  }
}

function isNoise(line: string): boolean {
  return NOISE.test(line);
}

/** Creates the state folder and takes its lock. @throws {StartFailure} */
async function takeFolder(stateDir: string): Promise<{ release(): void }> {
  try {
    makeFolder(stateDir);
    const lock = await patiently(() => lockState(stateDir));
    if (lock === null) throw new StartFailure(`${stateDir} is in use by another coordinator: stop it, or choose another state folder (--state DIR)`);
    // A killed session leaves this folder.
    rmSync(join(stateDir, "tmp"), { recursive: true, force: true });
    return lock;
  } catch (error) {
    if (error instanceof StartFailure) throw error;
    throw new StartFailure(`cannot write to ${stateDir}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The program of wrangler. Its `bin` would start one more process between this one and workerd. */
const CLI = join(dirname(createRequire(import.meta.url).resolve("wrangler/package.json")), "wrangler-dist", "cli.js");

/**
 * Runs wrangler on the repository, offline and without telemetry. It writes only to `stateDir` and `.wrangler/tmp`.
 * @param folder another copy of the repository
 */
export function startWrangler(args: readonly string[], stateDir: string, onLine?: (line: string) => void, folder: string = ROOT): Child {
  const temporary = join(stateDir, "tmp");
  makeFolder(temporary);
  return startChild([CLI, ...args], {
    cwd: folder,
    env: {
      // Its build command runs `node`, which must not be older than this Node.
      PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
      // With CI set, wrangler uses the default answer of each question.
      CI: "true",
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_SEND_ERROR_REPORTS: "false",
      WRANGLER_HIDE_BANNER: "true",
      WRANGLER_WRITE_LOGS: "false",
      WRANGLER_REGISTRY_PATH: join(stateDir, "registry"),
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      // Its request traces cost one database write per request.
      X_LOCAL_OBSERVABILITY: "false",
      X_LOCAL_EXPLORER: "false",
      TMPDIR: temporary,
    },
    ...(onLine && { onLine }),
  });
}

const HOST = "127.0.0.1";

/** True if a program could listen on this port of the loopback interface now. */
export async function isPortFree(port: number): Promise<boolean> {
  return (await tryToListen(port)) !== null;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const port = await tryToListen(0);
  if (port === null) throw new Error("no free port");
  return port;
}

async function tryToListen(port: number): Promise<number | null> {
  const server = createServer();
  try {
    server.listen({ port, host: HOST, exclusive: true });
    await once(server, "listening");
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : null;
  } catch {
    return null;
  } finally {
    server.close();
  }
}

/** Takes the lock of a state folder, because two coordinators would corrupt it. Null if another process has it. */
export function lockState(stateDir: string): { release(): void } | null {
  const lock = takeFileLock(stateDir, "coordinator");
  return lock.ok ? lock : null;
}

/** The two instances of the specification. */
export const INSTANCES = ["evm", "svm"] as const;
/** One instance of the coordinator. */
export type Instance = (typeof INSTANCES)[number];

/** The default port of each instance [SPEC]. */
export const DEFAULT_PORT: Record<Instance, number> = { evm: 4010, svm: 4020 };

/** The repository's folder. */
export const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** True if `text` names an instance. */
export function isInstance(text: string | undefined): text is Instance {
  return INSTANCES.some((instance) => instance === text);
}
