// One coordinator in workerd, without `wrangler dev`: starts Miniflare, puts the front before it, fires its cron, watches the clock, drains and stops.
// coordinator-process.ts runs this file as a child process, with its options in an environment variable.
import { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";
import { watch } from "node:fs";
import { platform } from "node:os";
import { dirname, join } from "node:path";
import { Miniflare, type MiniflareOptions } from "miniflare";
import * as z from "zod";
import { readSettings } from "../src/coordinator/config.ts";
import type { HubFigures } from "../src/coordinator/hub/figures.ts";
import { CHANNEL_KEY_HEADER } from "../src/coordinator/http/channel-messages.ts";
import { codeOf } from "../src/worker/node/error-code.ts";
import { type MetricsAddress, serveMetrics } from "../src/worker/node/metrics-page.ts";
import { packageVersion } from "../src/worker/node/program.ts";
import { buildPages } from "./build-pages.ts";
import { coordinatorMetrics, Figures } from "./coordinator-metrics.ts";
import { freePort, type Instance, INSTANCES, ROOT, WORKERD_OPTIONS, type WorkerdOptions } from "./coordinator-process.ts";
import { type Front, listenInFront } from "./front.ts";
import { clientOptionsOf } from "./front-clients.ts";
import type { WorkerdAddress } from "./front-passage.ts";
import { unclearTestnetMode, unknownSetting } from "./ignored-settings.ts";
import { connectionsFor, neededFiles, openFiles } from "./open-files.ts";
import { endOrphan, holdFolder, noteRuntime } from "./state-folder.ts";
import { fileVariables, variables, wranglerFile } from "./variables.ts";
import { WallClock } from "./wall-clock.ts";
import { configuration, DOOR, DOOR_KEY_HEADER, type Listen, v8Flags } from "./workerd-config.ts";

/** What the parent asks for. */
const Options: z.ZodType<WorkerdOptions> = z.strictObject({
  instance: z.enum(INSTANCES),
  host: z.string(),
  port: z.int(),
  stateDir: z.string(),
  settings: z.record(z.string(), z.string()),
  cronMs: z.int(),
  watches: z.boolean(),
  serves: z.boolean(),
  guardsFrames: z.boolean(),
  bundle: z.string().nullable(),
  metrics: z.strictObject({ host: z.string(), port: z.int() }).nullable(),
});

/** Edits within this time are one edit. */
const EDIT_MS = 100;
/** How long requests may take to end when an instance for real use stops. */
const DRAIN_MS = 5_000;
/** How long requests that wait for a job may wait when it stops while a job runs: then they get the job as it is. */
const WAITS_MS = 4_000;
/** How long the hub may take to answer this process. */
const ASK_MS = 2_000;
const DOOR_KEY = randomBytes(16).toString("hex");

/** Where workerd listens behind a front, and how the front reaches it there. */
async function behindFront(): Promise<{ listen: Listen; to: WorkerdAddress }> {
  if (platform() !== "linux") {
    const address = { host: "127.0.0.1", port: await freePort() };
    return { listen: address, to: address };
  }
  // An abstract socket (unix(7)): the system does less for it than for TCP, and no other program can take its place, as with a free port. It is no file that
  // remains.
  const name = `compute-router-${randomBytes(16).toString("hex")}`;
  // Miniflare writes host and port with a colon between them, and here all of it is the name.
  return { listen: { host: `unix-abstract:${name}`, port: 0 }, to: { path: `\0${name}:0` } };
}

async function main(): Promise<void> {
  const asked = Options.parse(JSON.parse(process.env[WORKERD_OPTIONS] ?? ""));
  // workerd gets the environment of this process.
  delete process.env[WORKERD_OPTIONS];
  const files = openFiles();
  const needed = neededFiles(asked.serves);
  const most = connectionsFor(files);
  // With fewer files connections alone could end workerd.
  const isScarce = files < needed;
  if (isScarce)
    console.error(`only ${files} open files are allowed, so at most ${most} connections are accepted; for more, allow ${needed} files (ulimit -Hn)`);
  for (const warning of ignoredVariables(asked)) console.error(warning);
  const { host, port } = asked;
  // What a front needs; null without one.
  const forFront =
    asked.guardsFrames || isScarce ? { limits: clientOptionsOf(variables(asked)), behind: await behindFront(), door: await behindFront() } : null;
  // Nobody can guess its name, so nobody else can name a client.
  const peerHeader = forFront?.limits.trustedIpHeader === null ? `x-peer-${randomBytes(16).toString("hex")}` : null;
  const options = peerHeader === null ? asked : { ...asked, settings: { ...asked.settings, TRUSTED_IP_HEADER: peerHeader } };
  const listen = forFront?.behind.listen ?? { host, port };
  const doorListen = forFront?.door.listen ?? null;
  process.env.MINIFLARE_WORKERD_V8_FLAGS ??= v8Flags();
  buildPages();
  // What this process and workerd write from here on is state, in a folder that others may read. The pages in the clone are not: the user of a service reads
  // them.
  if (asked.serves) process.umask(0o077);
  holdFolder(asked.stateDir, (line) => console.error(line));
  await endOrphan(asked.stateDir);
  const config = await configured(options, listen, doorListen);
  const clock = new WallClock();
  const runtime = new Runtime((pid) => {
    noteRuntime(asked.stateDir, pid);
    clock.begin();
  });
  const miniflare = new Miniflare(config);
  if (options.metrics !== null) await listenForMetrics(options.metrics, options.instance, miniflare);
  let stopping = false;
  let front: Front | null = null;
  // Miniflare starts workerd again. If it cannot, nothing listens any more.
  runtime.onExit = () =>
    setImmediate(() => {
      // A stop in the middle of it is no failed start.
      if (!stopping) miniflare.ready.catch((error: unknown) => void (stopping || giveUp(error)));
    });
  const end = (): void => {
    // Only now: until then a worker may send the result of its job.
    front?.endSockets();
    void miniflare.dispose().finally(() => process.exit(0));
  };
  const leave = async (): Promise<void> => {
    const isBusy = await askHub(miniflare, `leave?ms=${WAITS_MS}`).catch(() => true);
    runtime.drain(end);
    // A worker that runs a job may send its result, and a settlement may end; workers without a job would only be waited for.
    if (isBusy === false) front?.endSockets();
  };
  // A supervisor can signal all processes, and then the parent does so too: the requests in progress still get their time.
  const stop = (): void => {
    if (stopping) return;
    stopping = true;
    front?.close();
    front?.leave();
    if (options.serves) void leave();
    else end();
  };
  // Miniflare has handlers that kill workerd at once.
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.removeAllListeners(signal).on(signal, stop);
  // The parent has ended meanwhile: nobody waits for those requests.
  process.stdin.once("end", () => stopping && end());
  await miniflare.ready;
  if (forFront !== null) {
    const { limits, behind, door } = forFront;
    // A paid commit must notice that its client has left [API9], and must outlive the hub.
    const channel = {
      to: door.to,
      headers: { [DOOR_KEY_HEADER]: DOOR_KEY, [CHANNEL_KEY_HEADER]: DOOR_KEY },
      commits: readSettings(variables(asked)).testnetMode,
    };
    front = await listenInFront({ host, port, to: behind.to, most, peerHeader, channel, ...limits });
  }
  const cron = async (): Promise<void> => {
    const worker = await miniflare.getWorker();
    await worker.scheduled();
  };
  const fire = (): void => {
    // A stop in the middle of it is no fault, and the next start runs it.
    if (!stopping) cron().catch((error: unknown) => void (stopping || console.error(`the cron did not run: ${String(error)}`)));
  };
  // At once too: it creates D1. Otherwise a command of the operator could do that first, as another user.
  fire();
  setInterval(fire, options.cronMs);
  if (options.watches) watchSources(options, async () => miniflare.setOptions(await configured(options, listen, doorListen)));
  const renew = (ms: number): void => {
    if (stopping || !runtime.end(options.serves)) return;
    console.error(`the system clock went back by ${Math.round(ms / 1_000)} s: workerd is ended and started again, because its timers would wait for so long`);
  };
  // Miniflare takes the end of one that is just starting for a failed start. One that cannot start is reported above.
  clock.watch((ms) => void miniflare.ready.then(() => renew(ms)).catch(() => {}));
}

/** Asks the hub through {@link DOOR}. @throws if that takes too long, as it does while workerd is stopped */
async function askHub(miniflare: Miniflare, what: string): Promise<unknown> {
  const headers = { "MF-Route-Override": DOOR, [DOOR_KEY_HEADER]: DOOR_KEY };
  const response = await miniflare.dispatchFetch(`http://door/${what}`, { headers, signal: AbortSignal.timeout(ASK_MS) });
  if (!response.ok) throw new Error(`the hub answers ${response.status}`);
  return await response.json();
}

/** Serves the metrics page. @throws if nobody can listen there */
async function listenForMetrics(address: MetricsAddress, instance: Instance, miniflare: Miniflare): Promise<void> {
  const about = { instance, version: packageVersion() };
  // Pages that are asked for at the same time share an answer.
  let asked: Promise<HubFigures> | null = null;
  const figures = (): Promise<HubFigures> =>
    (asked ??= askHub(miniflare, "figures")
      .then((answer) => Figures.parse(answer))
      .finally(() => (asked = null)));
  try {
    const { url } = await serveMetrics(address, async () => coordinatorMetrics(await figures(), about));
    console.error(`metrics at ${url}`);
  } catch (error) {
    const [code, place] = [codeOf(error), `port ${address.port} of ${address.host}`];
    const problem = code === "EADDRINUSE" ? `${place} is taken: stop the program that listens there, or` : `cannot listen on ${place} (${code}):`;
    throw new Error(`metrics page: ${problem} choose another port with --metrics PORT`, { cause: error });
  }
}

function configured(options: WorkerdOptions, listen: Listen, door: Listen | null): Promise<MiniflareOptions> {
  return configuration(options, listen, (text) => console.error(text), { key: DOOR_KEY, listen: door });
}

/** The warnings for what is set and has no effect. */
function ignoredVariables(asked: WorkerdOptions): string[] {
  const unknown = Object.entries(fileVariables(asked.instance)).flatMap(([file, vars]) =>
    Object.keys(vars).flatMap((name) => unknownSetting(`${file}: ${name}`, name) ?? []),
  );
  const mode = unclearTestnetMode(variables(asked)["TESTNET_MODE"] ?? "");
  return mode === null ? unknown : [...unknown, mode];
}

/** The process of workerd. Miniflare starts it, and another one after a crash, but shows it to nobody. */
class Runtime {
  /** Called when workerd has ended, before Miniflare knows. */
  onExit: () => void = () => {};
  #last: ChildProcess | undefined;
  #ending: ChildProcess | undefined;

  /** `onStart` gets the process id of each. */
  constructor(onStart: (pid: number) => void) {
    subscribe("child_process", (message) => {
      if (typeof message !== "object" || message === null || !("process" in message) || !(message.process instanceof ChildProcess)) return;
      const started = message.process;
      this.#last = started;
      started.once("spawn", () => started.pid !== undefined && onStart(started.pid));
      started.once("exit", () => this.onExit());
    });
  }

  /** Stops listening, and calls `then` once: when all requests have ended, or after 5 s, because the sockets of workers never end. */
  drain(then: () => void): void {
    const deadline = setTimeout(() => this.onExit(), DRAIN_MS);
    this.onExit = () => {
      clearTimeout(deadline);
      this.onExit = () => {};
      then();
    };
    if (this.#last?.kill("SIGTERM") !== true) this.onExit();
  }

  /** Ends the workerd of now, as a stop does, and Miniflare starts another one. False if it is being ended or has ended. */
  end(drains: boolean): boolean {
    const last = this.#last;
    if (last === undefined || last === this.#ending) return false;
    this.#ending = last;
    setTimeout(() => last.kill("SIGKILL"), drains ? DRAIN_MS : 0);
    return last.kill("SIGTERM");
  }
}

function giveUp(error: unknown): void {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
}

/** Runs the sources again after each edit, as a deployment does: every Durable Object starts again and every socket is closed. */
function watchSources(options: WorkerdOptions, runAgain: () => Promise<void>): void {
  let edit: NodeJS.Timeout | undefined;
  const reload = async (): Promise<void> => {
    buildPages();
    await runAgain();
  };
  const onEdit = (): void => {
    clearTimeout(edit);
    edit = setTimeout(() => void reload().catch((error: unknown) => console.error(error instanceof Error ? error.message : String(error))), EDIT_MS);
  };
  for (const folder of new Set([join(ROOT, "src"), join(ROOT, dirname(wranglerFile(options.instance).main))])) watch(folder, { recursive: true }, onEdit);
}

try {
  await main();
} catch (error) {
  giveUp(error);
}
