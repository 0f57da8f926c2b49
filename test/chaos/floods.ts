/**
 * What one stranger costs a coordinator: a real one, with its limits as they are by default, honest workers and seekers beside it, and one flood after the
 * other. `npm run floods -- [--minutes N] [--only "NAME,NAME"] [--addresses N] [--jobs N] [--list]`; exits 1 if a flood grows without bound or keeps honest
 * jobs from their end, unless the platform leaves it open. `--unread` measures instead what the platform keeps for each frame that is not read.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Coordinator, freePort, startCoordinator } from "../../scripts/coordinator-process.ts";
import { family, memoryOf } from "../bench/processes.ts";
import { Attack, type Flood } from "./attack.ts";
import { disksOf, faults, HEAD, lineOf, type Result, type Sample } from "./flood-report.ts";
import { FLOODS } from "./flood-shapes.ts";
import { ADDRESS_HEADER } from "./flood-socket.ts";
import { Honest } from "./honest.ts";
import { measureUnread } from "./unread-frames.ts";

/** Honest jobs alone, so that what the first ones cost does not count as the flood's. */
const WARM_UP_MS = 10_000;
const HONEST_WORKERS = 8;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    only: { type: "string" },
    addresses: { type: "string", default: "1" },
    jobs: { type: "string", default: "5" },
    list: { type: "boolean", default: false },
    unread: { type: "boolean", default: false },
  },
});
const flooded = Number(values.minutes) * 60_000;
/** At least six, and one every two minutes of a long flood. */
const samplesWanted = Math.max(6, Math.ceil(Number(values.minutes) / 2));
const addresses = Number(values.addresses);
const jobsPerSecond = Number(values.jobs);
if (!(flooded > 0 && addresses >= 1 && addresses <= 250 && jobsPerSecond > 0)) throw new Error("--minutes, --addresses (1 to 250) and --jobs must be positive");
const wanted = values.only?.split(",").map((name) => name.trim());
const unknown = wanted?.filter((name) => !FLOODS.some((flood) => flood.name === name)) ?? [];
if (unknown.length > 0) throw new Error(`unknown floods: ${unknown.join(", ")}; --list prints all`);

/** As deployed, but jobs are free, and addresses are named by a header as behind a proxy. */
const SETTINGS = {
  ...{ TESTNET_MODE: "true", RATE_LIMITS: "on", WORKER_AUTH: "required", RECEIPT_POLICY: "strict" },
  ...{ TRUSTED_IP_HEADER: ADDRESS_HEADER, PUBLIC_HOST: "" },
};

if (values.list) for (const { name, what } of FLOODS) console.log(`${name}: ${what}`);
else if (values.unread) await measureUnread();
else await runAll();

async function runAll(): Promise<void> {
  console.log(HEAD);
  for (const flood of FLOODS) {
    if (wanted !== undefined && !wanted.includes(flood.name)) continue;
    const result = await run(flood);
    console.log(lineOf(result, addresses));
    console.error(`${flood.name}: ${JSON.stringify(Object.fromEntries(result.answers))} honest: ${JSON.stringify(Object.fromEntries(result.served.others))}`);
    for (const line of result.errors) console.error(`  ${line}`);
    if (flood.isOpen !== true && faults(result, addresses).length > 0) process.exitCode = 1;
  }
}

async function run(flood: Flood): Promise<Result> {
  const stateDir = mkdtempSync(join(tmpdir(), "floods-"));
  const port = await freePort();
  const errors: string[] = [];
  const coordinator = await startCoordinator({ instance: "evm", port, stateDir, settings: SETTINGS, serves: true, onLine: (line) => errors.push(line) });
  const honest = new Honest(coordinator.url, HONEST_WORKERS);
  const over = new AbortController();
  const attack = new Attack(port, addresses, over.signal);
  try {
    await honest.seek(jobsPerSecond, AbortSignal.timeout(WARM_UP_MS));
    const samples = [sample(coordinator, 0)];
    const attacking = flood.run(attack);
    const seeking = honest.seek(jobsPerSecond, over.signal);
    const began = performance.now();
    for (let n = 1; n <= samplesWanted; n++) {
      await delay(began + (flooded * n) / samplesWanted - performance.now());
      samples.push(sample(coordinator, (performance.now() - began) / 1_000));
    }
    over.abort();
    const served = await seeking;
    attack.end();
    await attacking;
    return { name: flood.name, samples, served, bytes: attack.bytes, answers: attack.answers, errors: [...new Set(errors)].slice(0, 5) };
  } finally {
    over.abort();
    attack.end();
    honest.stop();
    await coordinator.stop();
    rmSync(stateDir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The memory of the coordinator, its front and workerd, and the size of its databases. */
function sample({ pid, stateDir }: Coordinator, second: number): Sample {
  return { second, memory: memoryOf(family([pid])), ...disksOf(stateDir) };
}
