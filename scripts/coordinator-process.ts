// One coordinator as a child process that runs it in workerd: start it, wait until it answers, stop it. Tests, `npm run dev`, `npm run serve` and
// `npm start` use it.
import { once } from "node:events";
import { existsSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { parseJson } from "../src/protocol/json.ts";
import { makeFolder } from "../src/worker/node/atomic-files.ts";
import type { MetricsAddress } from "../src/worker/node/metrics-page.ts";
import { takeFileLock } from "../src/worker/node/worker-lock.ts";
import { type Child, patiently, startChild } from "./child.ts";
import { openFiles, tooFewFiles } from "./open-files.ts";
import { LEAVING_MS, temporaryFolderOf, waitingFor } from "./state-folder.ts";

const READY_TIMEOUT_MS = 90_000;
const POLL_MS = 50;
/** How long a coordinator may answer with errors before the start fails. */
const UNWELL_MS = 3_000;
const HEALTH_TIMEOUT_MS = 2_000;
const LAST_WORDS = 40;
/** How often the cron runs: the wrangler files say every 5 minutes, which is long for a person who looks. */
export const CRON_MS = 60_000;

/** Options of one coordinator. */
export type CoordinatorOptions = {
  instance: Instance;
  /** The IP address that it listens on; default is 127.0.0.1. */
  host?: string;
  port: number;
  /** Folder of its databases; created if missing. Default `.state/<instance>`. */
  stateDir?: string;
  /** Settings that override those of its wrangler file. */
  settings?: Readonly<Record<string, string>>;
  /** A warning or an error of the coordinator or of its runtime, for a person. */
  onLine?: (line: string) => void;
  /** How often its cron runs, ms; default a minute. */
  cronMs?: number;
  /** Runs the sources again after each edit. */
  watches?: boolean;
  /** For real use: a small bundle, and requests may end before it stops. */
  serves?: boolean;
  /** Puts the front before workerd also where connections need no cap; default is where it `serves`. */
  guardsFrames?: boolean;
  /** A bundle of the coordinator to run; default is one of the sources as they are now. */
  bundle?: string | null;
  /** Where its metrics page listens; default is nowhere. */
  metrics?: MetricsAddress | null;
  /** Called when its port and its folder are free, and the slow part begins. */
  onStarting?: () => void;
};

/** What the child process is told, in one environment variable: unlike arguments, only its own user can read it, and settings may be secret. */
export type WorkerdOptions = {
  instance: Instance;
  /** The address that it listens on. */
  host: string;
  port: number;
  /** Folder of its databases. `wrangler --persist-to` uses the same layout. */
  stateDir: string;
  /** Settings that override those of its wrangler file. */
  settings: Readonly<Record<string, string>>;
  /** How often its cron runs, ms. */
  cronMs: number;
  /** Runs the sources again after each edit. */
  watches: boolean;
  /** For real use: a small bundle, and requests may end before it stops. */
  serves: boolean;
  /** Puts the front before workerd also where connections need no cap. */
  guardsFrames: boolean;
  /** The bundle to run; null for one of the sources as they are now. */
  bundle: string | null;
  /** Where its metrics page listens; null for nowhere. */
  metrics: MetricsAddress | null;
};

/** A coordinator that answers. */
export type Coordinator = {
  readonly instance: Instance;
  /** Without a final slash. */
  readonly url: string;
  /** Where workers connect. */
  readonly socketUrl: string;
  readonly stateDir: string;
  /** The process id of the child, whose own child is workerd. */
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

/** Starts one coordinator in workerd and resolves when it answers. @throws {StartFailure} */
export async function startCoordinator(options: CoordinatorOptions): Promise<Coordinator> {
  const { instance, host = HOST, port } = options;
  const problemOfFiles = tooFewFiles(openFiles());
  if (problemOfFiles !== null) throw new StartFailure(`${instance} did not start: ${problemOfFiles}`);
  const stateDir = resolve(ROOT, options.stateDir ?? join(".state", instance));
  await assertPortFree(port, `give ${instance} another port`, host);
  const lock = await takeFolder(stateDir, instance, options.onLine);
  options.onStarting?.();

  const coordinator = new Supervised(options, urlOf(host, port), stateDir, () => lock.release());
  const problem = await untilWell(urlOf(askedAddress(host), port), coordinator);
  if (problem !== null) {
    await coordinator.stop();
    throw new StartFailure(`${instance} did not start: ${problem}`);
  }
  return coordinator;
}

/** Where this machine asks what listens on `host`: what listens on all addresses is asked on one that no network has. A machine without IPv6 has no `::1`. */
function askedAddress(host: string): string {
  if (host !== "0.0.0.0" && host !== "::") return host;
  const addresses = Object.values(networkInterfaces()).flatMap((those = []) => those.map(({ address }) => address));
  return host === "::" && addresses.includes("::1") ? "::1" : "127.0.0.1";
}

/** The URL of a coordinator, without a final slash. */
export function urlOf(host: string, port: number): string {
  return `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** @throws {StartFailure} if nobody can listen there; `otherwise` is the advice in the message */
export async function assertPortFree(port: number, otherwise: string, host: string = HOST): Promise<void> {
  let reason = "";
  const free = await patiently(async () => {
    const listened = await tryToListen(port, host);
    if (!listened.ok) ({ reason } = listened);
    return listened.ok ? true : null;
  });
  if (free !== null) return;
  if (reason === "EADDRINUSE") throw new StartFailure(`port ${port} of ${host} is taken: stop the program that listens there, or ${otherwise}`);
  throw new StartFailure(`cannot listen on port ${port} of ${host} (${reason})`);
}

/** The program that runs the coordinator, as a child process. */
class Supervised implements Coordinator {
  readonly instance: Instance;
  readonly url: string;
  readonly socketUrl: string;
  readonly stateDir: string;
  readonly failed: Promise<string>;
  readonly #isPrinted: boolean;
  readonly #child: Child;
  readonly #release: () => void;
  #stopping = false;

  constructor(
    {
      instance,
      host = HOST,
      port,
      settings = {},
      onLine,
      cronMs = CRON_MS,
      watches = false,
      serves = false,
      guardsFrames = serves,
      bundle = null,
      metrics = null,
    }: CoordinatorOptions,
    url: string,
    stateDir: string,
    release: () => void,
  ) {
    this.instance = instance;
    this.url = url;
    this.socketUrl = `${url.replace("http", "ws")}/`;
    this.stateDir = stateDir;
    this.#isPrinted = onLine !== undefined;
    this.#release = release;
    const options: WorkerdOptions = { instance, host, port, stateDir, settings, cronMs, watches, serves, guardsFrames, bundle, metrics };
    this.#child = startChild([WORKERD], { cwd: ROOT, env: { [WORKERD_OPTIONS]: JSON.stringify(options) }, ...(onLine && { onLine }) });
    this.failed = this.#child.exited.then((exit) => (this.#stopping ? new Promise<never>(() => {}) : `it ended (${exit})${this.reason}`));
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The last lines, for a message, unless they were already printed. */
  get reason(): string {
    return this.#isPrinted ? ", see above" : `\n${this.#child.lines.slice(-LAST_WORDS).join("\n")}`;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#child.stop();
    this.#release();
  }

  async kill(): Promise<void> {
    this.#stopping = true;
    await this.#child.kill();
    this.#release();
  }
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
    const end = await Promise.race([delay(POLL_MS, null), coordinator.failed]);
    if (end !== null) return end;
  }
  return `no answer from ${url} after ${READY_TIMEOUT_MS / 1000} s${coordinator.reason}`;
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

/** Creates the state folder of an instance and takes its lock. @throws {StartFailure} */
async function takeFolder(stateDir: string, instance: Instance, say: (line: string) => void = () => {}): Promise<{ release(): void }> {
  const hasHub = (owner: Instance): boolean => existsSync(join(stateDir, "v3", "do", `compute-router-${owner}-WorkerHub`));
  const other = INSTANCES.find((owner) => owner !== instance && hasHub(owner));
  // The database of a folder has one name, so two instances would share their jobs and payments.
  if (other !== undefined && !hasHub(instance)) throw new StartFailure(`${stateDir} is the state of ${other}: choose another state folder (--state DIR)`);
  try {
    makeFolder(stateDir);
    const lock = lockState(stateDir) ?? (say(waitingFor(stateDir)), await patiently(() => lockState(stateDir), LEAVING_MS));
    if (lock === null) throw new StartFailure(`${stateDir} is in use by another coordinator: stop it, or choose another state folder (--state DIR)`);
    // A killed session leaves this folder.
    rmSync(temporaryFolderOf(stateDir), { recursive: true, force: true });
    return lock;
  } catch (error) {
    if (error instanceof StartFailure) throw error;
    throw new StartFailure(`cannot write to ${stateDir}: ${error instanceof Error ? error.message : String(error)}; choose another state folder (--state DIR)`);
  }
}

const WORKERD = fileURLToPath(new URL("workerd.ts", import.meta.url));
/** The environment variable with the {@link WorkerdOptions}, as JSON. */
export const WORKERD_OPTIONS = "COORDINATOR_OPTIONS";

/** The program of wrangler. Its `bin` would start one more process between this one and workerd. */
const CLI = join(dirname(createRequire(import.meta.url).resolve("wrangler/package.json")), "wrangler-dist", "cli.js");

/**
 * Runs wrangler on the repository, offline and without telemetry. It writes only to `stateDir` and `.wrangler/tmp`.
 * @param folder another copy of the repository
 */
export function startWrangler(args: readonly string[], stateDir: string, onLine?: (line: string) => void, folder: string = ROOT): Child {
  return startChild([CLI, ...args], { cwd: folder, env: wranglerEnvironment(stateDir), ...(onLine && { onLine }) });
}

/** What makes a wrangler quiet, offline and so quick. Makes its folder for temporary files in `stateDir`. */
export function wranglerEnvironment(stateDir: string): NodeJS.ProcessEnv {
  const temporary = temporaryFolderOf(stateDir);
  makeFolder(temporary);
  return {
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
  };
}

const HOST = "127.0.0.1";

/** True if a program could listen on this port of the loopback interface now. */
export async function isPortFree(port: number): Promise<boolean> {
  return (await tryToListen(port)).ok;
}

/** Below the ports that systems give to outgoing connections: none of these takes one of them before it is used. */
const [LEAST_PORT, PORTS] = [20_000, 12_000];

/** A port of {@link HOST} on which nothing listens. */
export async function freePort(): Promise<number> {
  let reason = "";
  for (let tries = 0; tries < 20; tries++) {
    const listened = await tryToListen(LEAST_PORT + Math.floor(Math.random() * PORTS));
    if (listened.ok) return listened.port;
    ({ reason } = listened);
  }
  throw new Error(`no free port: ${reason}`);
}

/** Listens for a moment. The reason is the code of the system's error. */
async function tryToListen(port: number, host: string = HOST): Promise<{ ok: true; port: number } | { ok: false; reason: string }> {
  const server = createServer();
  try {
    server.listen({ port, host, exclusive: true });
    await once(server, "listening");
    const address = server.address();
    return typeof address === "object" && address !== null ? { ok: true, port: address.port } : { ok: false, reason: "no port" };
  } catch (error) {
    return { ok: false, reason: error instanceof Error && "code" in error ? String(error.code) : String(error) };
  } finally {
    server.close();
  }
}

/** Takes the lock of a state folder, because two coordinators would corrupt it. Null if another process has it. */
function lockState(stateDir: string): { release(): void } | null {
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
