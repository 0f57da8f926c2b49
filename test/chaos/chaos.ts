/**
 * Nothing that was acknowledged is ever lost: real seekers and workers on a real coordinator that is killed, stalled, redeployed and robbed of
 * its disk and D1. `npm run test:chaos -- [--seconds N] [--kills N] [--seed N] [--workers N] [--seekers N] [--bug NAME] [--verbose] [--keep]`; exits 1 on a
 * violation.
 * `--rest` is how many seconds everything may take to end once the faults stop: a job's whole life, its grace time and the last drain [JB4, JB9].
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { freePort } from "../../scripts/coordinator-process.ts";
import { Random } from "../simulation/random.ts";
import { copySources } from "../support/source-copy.ts";
import { DatabaseSwitch } from "./database-switch.ts";
import { whyNoDiskFaults } from "./disk-fault.ts";
import { describe, inflict, type Outages, plan } from "./faults.ts";
import { History } from "./history.ts";
import { plant as plantBug } from "./planted-bugs.ts";
import { Seeker } from "./seeker.ts";
import { Subject } from "./subject.ts";
import { judge, type Verdict } from "./verdict.ts";
import { ChaosWorker, Gate, type Scene } from "./worker.ts";

const SETTINGS = { TESTNET_MODE: "true", WORKER_AUTH: "required", RECEIPT_POLICY: "strict" };
const REUNION_MS = 40_000;
const SHOWN_VIOLATIONS = 20;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    kills: { type: "string", default: "9" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    workers: { type: "string", default: "22" },
    seekers: { type: "string", default: "16" },
    rest: { type: "string", default: "200" },
    bug: { type: "string" },
    verbose: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
  },
});
const [seconds, kills, seed, workerCount, seekerCount] = [values.seconds, values.kills, values.seed, values.workers, values.seekers].map(Number);
const began = performance.now();
const say = (line: string): void => console.log(`${((performance.now() - began) / 1_000).toFixed(1).padStart(6)} s  ${line}`);

const random = new Random(seed ?? 0);
const copy = copySources("chaos", ["test/chaos", "test/edge/tsconfig.json"]);
if (values.bug !== undefined) plantBug(copy.folder, values.bug);
const stateDir = mkdtempSync(join(tmpdir(), "chaos-state-"));
const database = new DatabaseSwitch(random);
const history = new History();
const outages: Outages = new Map();
const log: string[] = [];
let calm = false;
let isOpen = true;

const subject = await Subject.launch(copy.folder, {
  port: await freePort(),
  stateDir,
  settings: { ...SETTINGS, FAULT_PORT: String(await database.listen()) },
  onLine: (line) => {
    log.push(line);
    if (values.verbose) console.error(line);
  },
});
const scene: Scene = { url: `${subject.url.replace("http", "ws")}/`, history, calm: () => calm, gate: new Gate() };
const workers = Array.from({ length: workerCount ?? 0 }, (_, index) => new ChaosWorker(scene, index, new Random(random.between(0, 1e9))));
try {
  process.exitCode = report(await run()) ? 0 : 1;
} finally {
  await Promise.all(workers.map((worker) => worker.stop()));
  await subject.stop();
  database.close();
  if (values.keep || process.exitCode === 1) console.log(`state kept: ${stateDir}`);
  else rmSync(stateDir, { recursive: true, force: true, maxRetries: 5 });
  copy.remove();
}

async function run(): Promise<Verdict> {
  await reunion();
  say(`seed ${seed}: ${workers.length} workers, ${seekerCount} seekers`);
  const market = { url: subject.url, history, workerKeys: workers.map(({ publicKey }) => publicKey), isOpen: () => isOpen };
  const seekers = Array.from({ length: seekerCount ?? 0 }, (_, index) => new Seeker(market, index, new Random(random.between(0, 1e9))).run());
  const noDisk = whyNoDiskFaults();
  if (noDisk !== null) say(`no disk faults: ${noDisk}`);
  const faults = plan(random, kills ?? 0, noDisk === null);
  const ends = performance.now() + (seconds ?? 0) * 1_000;
  for (const [n, fault] of faults.entries()) {
    // What is left of the time, over what is left to do; while a coordinator starts none passes.
    await delay(Math.max(200, ((ends - performance.now()) / (faults.length - n)) * random.next()));
    say(describe(fault));
    await inflict(fault, subject, database, outages);
  }
  await delay(Math.max(500, ends - performance.now()));
  isOpen = false;
  calm = true;
  say("faults stop");
  // Who never says what it has cannot give it back before its time is over.
  for (const worker of workers) if (worker.kind.plain) worker.restart();
  await Promise.all(seekers);
  await reunion();
  const verdict = await judge(subject, history, Number(values.rest) * 1_000);
  verdict.violations.push(...(await idleFaults()));
  return verdict;
}

/** Waits until every worker is registered. */
async function reunion(): Promise<void> {
  const deadline = performance.now() + REUNION_MS;
  while ((await subject.online()) !== workers.length) {
    if (performance.now() > deadline) {
      history.violations.push(`${await subject.online()} of ${workers.length} workers came back within ${REUNION_MS / 1_000} s`);
      return;
    }
    await delay(50);
  }
}

/** At rest nobody is busy: as many jobs as there are workers, and each gets one while the others still hold theirs. */
async function idleFaults(): Promise<string[]> {
  scene.gate.shut();
  const body = JSON.stringify({ job_type: "TASK", user_id: "rest", payload: { task_type: "summarize", input: "at rest" } });
  const headers = { "content-type": "application/json", prefer: "wait=25" };
  const commit = () => fetch(`${subject.url}/v1/jobs/commit/cheap`, { method: "POST", body, headers }).then((answer) => answer.text());
  const jobs = workers.map(commit);
  const deadline = performance.now() + 10_000;
  while (scene.gate.inside.size < workers.length && performance.now() < deadline) await delay(20);
  const { size } = scene.gate.inside;
  scene.gate.open();
  const unfinished = (await Promise.all(jobs)).filter((text) => !text.includes('"status":"completed"'));
  return [
    ...(size < workers.length ? [`at rest only ${size} of ${workers.length} workers took a job`] : []),
    ...unfinished.map((text) => `at rest a job was answered ${text.slice(0, 200)}`),
  ];
}

/** Prints the figures; true when nothing was violated. */
function report({ violations, completed, failures, ranAfter503, restMs }: Verdict): boolean {
  const lost = violations.filter((violation) => /lost|not ended|not in D1|not stored/.test(violation)).length;
  const doubled = violations.filter((violation) => /two workers|requests made|ids$|twice|another result|and then as/.test(violation)).length;
  const serve = [...outages].map(([kind, times]) => {
    const sorted = times.toSorted((a, b) => a - b);
    return `${kind}: ${times.length}, serving again after ${ms(sorted[Math.floor(sorted.length / 2)])} (median), ${ms(sorted.at(-1))} (most)`;
  });
  const answers = Map.groupBy(history.answers, ({ status, error }) => error ?? status);
  say(
    `commits: 201 ${history.accepted.size}, ${[...history.otherAnswers].map(([status, count]) => `${status} ${count}`).join(", ")}; ran after a 503: ${ranAfter503}`,
  );
  say(`jobs: ${completed} completed, failed ${JSON.stringify(Object.fromEntries(failures))}; at rest after ${ms(restMs)}`);
  say(
    `results: ${[...answers].map(([answer, list]) => `${answer} ${list.length}`).join(", ")}; pairings: ${history.claims.length}; idempotency keys: ${history.byKey.size}`,
  );
  for (const line of serve) say(line);
  say(`D1 calls failed ${database.faults.fails}, answers lost ${database.faults.loses}, slow ${database.faults.slow}; events logged ${logged()}`);
  say(`lost ${lost}, duplicated ${doubled}, violations ${violations.length}`);
  for (const violation of violations.slice(0, SHOWN_VIOLATIONS)) console.log(`  ${violation}`);
  return violations.length === 0;
}

/** How often the coordinator logged each event. */
function logged(): string {
  const counts: Record<string, number> = {};
  for (const line of log) {
    const event = /"event":"([a-z_0-9]+)"/.exec(line)?.[1];
    if (event !== undefined) counts[event] = (counts[event] ?? 0) + 1;
  }
  return JSON.stringify(counts);
}

function ms(value: number | undefined): string {
  return value === undefined ? "?" : `${Math.round(value)} ms`;
}
