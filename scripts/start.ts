// npm start: both coordinators, a desktop worker on each, and one job of every kind; then it stays up until Ctrl-C. `-- --once` ends after the jobs.
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { ComputeRouter } from "../src/sdk/index.ts";
import { installEmbedded, isEmbeddedInstalled } from "../src/worker/runtimes/embedded-install.ts";
import { banner } from "./banner.ts";
import type { Child } from "./child.ts";
import { assertPortFree, type Coordinator, StartFailure, startCoordinator } from "./coordinator-process.ts";
import { startDemoWorker } from "./demo-worker.ts";
import { FIRST_JOBS, runFirstJob } from "./first-jobs.ts";
import { DEFAULT_PORT, type Instance, INSTANCES, ROOT } from "./instance.ts";
import { stopSignal } from "./stop-signal.ts";

const USAGE = "npm start -- [--once] [--evm-port N] [--svm-port N] [--state DIR]";
/** Results are cut to the terminal's width, but not shorter than this. */
const LEAST_WIDTH = 140;

type Options = { once: boolean; ports: Record<Instance, number>; stateDir: string };

const began = performance.now();
const children: { stop(): Promise<unknown> }[] = [];

function say(who: string, line: string): void {
  console.log(`${`${((performance.now() - began) / 1000).toFixed(1)} s`.padStart(7)}  ${who.padEnd(3)}  ${line}`);
}

function parse(args: string[]): Options | string {
  try {
    const { values } = parseArgs({
      args,
      options: {
        once: { type: "boolean", default: false },
        "evm-port": { type: "string" },
        "svm-port": { type: "string" },
        state: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
    if (values.help) return USAGE;
    const ports = { evm: Number(values["evm-port"] ?? DEFAULT_PORT.evm), svm: Number(values["svm-port"] ?? DEFAULT_PORT.svm) };
    const bad = INSTANCES.find((instance) => !(Number.isInteger(ports[instance]) && ports[instance] >= 1 && ports[instance] <= 65_535));
    if (bad !== undefined) return `--${bad}-port must be 1 to 65535\n${USAGE}`;
    return { once: values.once, ports, stateDir: resolve(ROOT, values.state ?? ".state") };
  } catch (error) {
    return `${error instanceof Error ? error.message : String(error)}\n${USAGE}`;
  }
}

async function install(signal: AbortSignal): Promise<void> {
  if (isEmbeddedInstalled()) return;
  const installed = await installEmbedded((line) => say("", line), { signal });
  if (!installed.ok) throw new StartFailure(installed.message);
}

/** One instance with its worker, ready for jobs. */
async function bringUp(instance: Instance, { ports, stateDir }: Options, runtimeInstalled: Promise<void>): Promise<Coordinator> {
  const coordinator = await startCoordinator({
    instance,
    port: ports[instance],
    stateDir: join(stateDir, instance),
    settings: { TESTNET_MODE: "true" },
    onStep: (step) => say(instance, STEPS[step]),
    onLine: (line) => say(instance, line),
  });
  children.push(coordinator);
  say(instance, `coordinator at ${coordinator.url}`);
  await runtimeInstalled;
  const worker = await startDemoWorker(coordinator, join(stateDir, `worker-${instance}`), (child: Child) => children.push(child));
  say(instance, `worker ${worker.publicKey.slice(0, 8)}… online with ${worker.model}`);
  return coordinator;
}

const STEPS = { migrating: "making the database", starting: "starting the coordinator", restarting: "restarting the coordinator" };

/** Whether every job of every kind on every instance gave a verified result. */
async function runJobs(coordinators: readonly Coordinator[], signal: AbortSignal): Promise<boolean> {
  const width = Math.max(process.stdout.columns ?? 0, LEAST_WIDTH) - 2;
  let good = 0;
  for (const { instance, url } of coordinators) {
    console.log(`\n${instance}`);
    const router = new ComputeRouter({ baseUrl: url, pollInterval: 100 });
    for (const job of FIRST_JOBS) {
      const { ok, lines } = await runFirstJob(router, job, width, signal);
      if (ok) good++;
      for (const line of lines) console.log(`  ${line}`);
    }
  }
  const all = coordinators.length * FIRST_JOBS.length;
  console.log(`\n${good} of ${all} jobs done and verified, ${((performance.now() - began) / 1000).toFixed(1)} s after the start`);
  return good === all;
}

async function run(options: Options, signal: AbortSignal, onUp: () => void): Promise<number> {
  for (const instance of INSTANCES) {
    await assertPortFree(options.ports[instance], `choose another: npm start -- --${instance}-port N`);
  }
  const installed = install(signal);
  const coordinators = await Promise.all(INSTANCES.map((instance) => bringUp(instance, options, installed)));
  const good = await runJobs(coordinators, signal);
  if (options.once) return good ? 0 : 1;
  console.log(banner(coordinators));
  onUp();
  throw new StartFailure(await Promise.race(coordinators.map(async ({ instance, failed }) => `${instance}: ${await failed}`)));
}

async function main(): Promise<number> {
  const options = parse(process.argv.slice(2));
  if (typeof options === "string") {
    console.error(options);
    return options === USAGE ? 0 : 2;
  }
  const aborting = new AbortController();
  let up = false;
  const stopped = stopSignal().then((signal): number => {
    aborting.abort();
    console.log("\nstopping");
    // What was asked for is not there yet.
    return up ? 0 : signal === "SIGINT" ? 130 : 143;
  });
  const running = run(options, aborting.signal, () => (up = true));
  // Told below, or of no interest once stopped.
  running.catch(() => {});
  try {
    return await Promise.race([running, stopped]);
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    console.error(error.message);
    return 1;
  } finally {
    await Promise.all(children.map((child) => child.stop()));
  }
}

process.exit(await main());
