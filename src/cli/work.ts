// `worker start`: key, locks, metrics, status file and screen around a DesktopWorker, until a signal or the coordinators end it.
import { isoTime, untrusted } from "../protocol/text.ts";
import { fingerprintOf, type KeyPair } from "../receipt/ed25519.ts";
import { hasWebSocket, NO_WEBSOCKET, ownCommand, packageVersion, shellWord } from "../worker/node/program.ts";
import { coordinatorName, DesktopWorker, type WorkerNote } from "../worker/node/desktop-worker.ts";
import { codeOf } from "../worker/node/error-code.ts";
import { readOrMakeKeyFile } from "../worker/node/key-file.ts";
import { metricsText } from "../worker/node/metrics.ts";
import { type MetricsServer, serveMetrics } from "../worker/node/metrics-page.ts";
import { llmFinder } from "../worker/node/runtime-watch.ts";
import { type Locking, lockWorker, workerId } from "../worker/node/worker-lock.ts";
import { firstStatus, nextStatus, runningWorkers, StatusFile, statusReport, type WorkerStatus } from "../worker/node/worker-status.ts";
import { folderOption } from "../worker/node/worker-config.ts";
import { jsonView, lineView, type WorkerView } from "../worker/node/worker-view.ts";
import { CliError, EXIT, printJson, printUntrusted } from "./command.ts";
import { SAME_KEYPRESS_MS } from "./same-keypress.ts";
import type { WorkerPlan } from "./worker-plan.ts";

/** How often the seconds on the screen are updated, and the status file if anything has changed. */
const TICK_MS = 1_000;
/** How often the status file is written at least. An older file shows that the process has stopped responding. */
const REPORT_MS = 10_000;

/** The width of a terminal that does not state it, as with `docker run -t` at first. */
const UNKNOWN_WIDTH = 80;

/** Works until a signal or the coordinators end it, then ends the process. */
export async function work(plan: WorkerPlan, json: boolean): Promise<void> {
  const { coordinators, folder, keyFile, name, wish, standby } = plan;
  if (!hasWebSocket()) throw new CliError(EXIT.error, NO_WEBSOCKET);
  const result = readOrMakeKeyFile(keyFile);
  if (!result.ok) throw new CliError(EXIT.key, result.message);
  const { key } = result;
  const release = lockAll(plan, key);
  const startedAt = Date.now();
  let status = firstStatus(coordinators.map(({ url }) => coordinatorName(url)));
  const metrics = await metricsServer(plan, () =>
    metricsText(status, { publicKey: key.publicKey, version: packageVersion(), startedAt, now: Date.now() }),
  ).catch((error: unknown) => {
    release();
    throw error;
  });
  // Deletes the files of workers that have crashed.
  runningWorkers(folder);
  const file = new StatusFile(folder);
  const report = reporter(file, plan, { publicKey: key.publicKey, startedAt, metrics: metrics?.url ?? null });

  const view = viewFor(json, status, key.publicKey, plan, result.made ? `created a new key for this worker: ${keyFile}` : null);
  if (metrics !== undefined) view.say(`metrics at ${metrics.url}`);
  const desktop = new DesktopWorker({
    coordinators,
    key,
    folder,
    version: packageVersion(),
    standby,
    onNote: (note: WorkerNote) => {
      status = nextStatus(status, note, Date.now());
      view.note(note, status);
    },
    ...(wish !== null && { findRuntime: llmFinder(wish, (line) => view.say(line)) }),
    ...(name !== undefined && { name }),
  });
  const ticking = setInterval(() => {
    view.tick();
    report(status);
  }, TICK_MS);
  const cleanUp = () => {
    clearInterval(ticking);
    metrics?.close();
    file.remove();
    view.close();
    release();
  };
  const removeListeners = onSignals(desktop, cleanUp);
  report(status);
  desktop.start();
  const stops = await desktop.ended;
  removeListeners();
  await desktop.close();
  cleanUp();
  const has = (...reasons: string[]) => stops.some(({ reason }) => reasons.includes(reason));
  // Otherwise a socket that the other side never closes would keep the process alive.
  process.exit(has("replaced") ? EXIT.replaced : has("refused", "other_network") ? EXIT.refused : EXIT.ok);
}

/** Writes the status file if the status has changed, and otherwise every `REPORT_MS`. */
function reporter(
  file: StatusFile,
  { coordinators, name }: WorkerPlan,
  fixed: { publicKey: string; startedAt: number; metrics: string | null },
): (status: WorkerStatus) => void {
  const about = { ...fixed, pid: process.pid, name: name ?? null, urls: coordinators.map(({ url }) => url) };
  let reported: { status: WorkerStatus; at: number } | undefined;
  return (status) => {
    const now = Date.now();
    if (reported?.status === status && now - reported.at < REPORT_MS) return;
    reported = { status, at: now };
    file.write(statusReport(status, { ...about, now }));
  };
}

/** Takes the lock of every coordinator, or none. */
function lockAll({ coordinators, folder }: WorkerPlan, key: KeyPair): () => void {
  const releases: (() => void)[] = [];
  const release = () => {
    for (const one of releases) one();
  };
  for (const { url } of coordinators) {
    const locking = lockIn(folder, workerId(url, key.publicKey));
    if (locking.ok) {
      releases.push(locking.release);
      continue;
    }
    release();
    throw new CliError(EXIT.key, locking.message);
  }
  return release;
}

function lockIn(folder: string, id: string): Locking {
  try {
    return lockWorker(folder, id);
  } catch (error) {
    return { ok: false, message: `cannot write to ${folder} (${codeOf(error)}); use --config-dir DIR` };
  }
}

async function metricsServer({ metrics }: WorkerPlan, page: () => string): Promise<MetricsServer | undefined> {
  if (metrics === undefined) return undefined;
  try {
    return await serveMetrics(metrics, page);
  } catch (error) {
    const why = error instanceof Error ? error.message : "unknown error";
    throw new CliError(EXIT.usage, `--metrics: cannot listen there (${why})`, { cause: error });
  }
}

/** The view of a worker, after its first lines: who it is, and `created` if its key is new. */
function viewFor(json: boolean, status: WorkerStatus, publicKey: string, plan: WorkerPlan, created: string | null): WorkerView {
  const { stdout } = process;
  // The worker continues if the reader of its output is gone.
  stdout.on("error", () => {});
  if (json || !stdout.isTTY) {
    const coordinators = status.links.map(({ coordinator }) => coordinator);
    const starting = { type: "starting", coordinators, provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), pid: process.pid };
    printJson({ time: isoTime(Date.now()), ...starting });
    const view = jsonView({ write: (text) => printUntrusted(text) }, () => isoTime(Date.now()));
    if (created !== null) view.say(created);
    return view;
  }
  const color = (process.env["NO_COLOR"] ?? "") === "";
  if (created !== null) stdout.write(`${untrusted(created)}\n`);
  stdout.write(`this worker is ${fingerprintOf(publicKey)} (its key in words)\n`);
  const frame = () => ({ publicKey, color, columns: stdout.columns || UNKNOWN_WIDTH, now: Date.now() });
  return lineView(stdout, status, frame, doctorCommand(plan));
}

/** `worker doctor` for the same coordinators and the same folder. */
function doctorCommand(plan: WorkerPlan): string {
  const { coordinators, config } = plan;
  const isUsual = config !== null && coordinators.every(({ url }) => config.coordinators.some((place) => place.url === url));
  const urls = isUsual ? [] : coordinators.map(({ url }) => `--url ${shellWord(url)}`);
  return ownCommand(["worker doctor", ...urls].join(" ") + folderOption(plan));
}

/** The first signal drains, the next one that is not of the same key press ends the process at once. Returns a function that removes the listeners. */
function onSignals(desktop: DesktopWorker, beforeExit: () => void): () => void {
  let asked: number | null = null;
  const listener = (signal: NodeJS.Signals) => {
    if (asked === null) {
      asked = performance.now();
      void desktop.drain();
    } else if (performance.now() - asked > SAME_KEYPRESS_MS) {
      beforeExit();
      process.exit(signal === "SIGINT" ? EXIT.interrupted : 143);
    }
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}
