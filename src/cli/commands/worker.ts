// `compute-router worker start|pair|doctor|status` and the group of all `worker` commands.
import { defineCommand } from "citty";
import { fingerprintOf, shortKey } from "../../receipt/ed25519.ts";
import { needsNewerNode, ownCommand, shellWord } from "../../worker/node/program.ts";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { workerId } from "../../worker/node/worker-lock.ts";
import { NO_REPORT, runningWorkers, type StatusReport, unreportedWorkers } from "../../worker/node/worker-status.ts";
import { untrusted } from "../../protocol/text.ts";
import { configFolder } from "../../worker/node/worker-config.ts";
import { offText } from "../../worker/session/index.ts";
import { CliError, command, duration, EXIT, print, printJson, refuseWithoutValue } from "../command.ts";
import { type Check, checkLines, examine } from "../doctor.ts";
import { KEY_ARGS, WORKER_ARGS, WORKER_PLACE_ARGS, WORKER_START_ARGS, type WorkerPlan, workerPlan } from "../worker-plan.ts";
import { claimPairing, pairedText } from "./pair.ts";
import { workerInit, workerKey } from "./worker-setup.ts";

/** `compute-router worker start`. */
const workerStart = command({
  name: "worker start",
  description: "Work until stopped (after Ctrl-C it finishes the current job; a second Ctrl-C stops it at once)",
  args: WORKER_START_ARGS,
  many: ["url"],
  run: async (args, all) => {
    const plan = workerPlan(args, all("url"));
    // Loaded only here, because the built-in tasks include a dictionary.
    const { work } = await import("../work.ts");
    await work(plan, args.json === true);
  },
});

/** `compute-router worker pair`. */
const workerPair = command({
  name: "worker pair",
  description: "Let this worker run the PRIVATE jobs of the user who created the code; without --url, at the coordinators of the running worker",
  args: {
    code: { type: "positional", required: true, description: "Six characters, from the user's `pair create`" },
    ...WORKER_PLACE_ARGS,
    json: { type: "boolean", description: "Print JSON" },
  },
  many: ["url"],
  run: async (args, all) => {
    const plan = workerPlan(args, all("url"));
    const result = readKeyFile(plan.keyFile);
    if (!result.ok) throw new CliError(EXIT.key, result.message);
    const { publicKey } = result.key;
    const urls = all("url").length > 0 ? [] : runningUrls(plan, publicKey);
    const { coordinator, pairedAt } = await claimPairing(urls.length > 0 ? urls : plan.coordinators.map(({ url }) => url), result.key, args.code);
    if (args.json === true) return printJson({ coordinator, provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), paired_at: pairedAt });
    print(pairedText(`paired at ${coordinator}`, publicKey));
  },
});

/** The coordinators that the worker with this key works for now. Its options may name others than the configuration. @throws CliError if nothing names them */
function runningUrls({ folder, coordinators }: WorkerPlan, publicKey: string): string[] {
  const mine = runningWorkers(folder).filter(({ provider_pubkey }) => provider_pubkey === publicKey);
  if (mine.length > 0) return [...new Set(mine.flatMap((report) => report.coordinators.flatMap(({ url }) => url ?? [])))];
  const unreported = unreportedWorkers(folder);
  const known = coordinators.map(({ url }) => url).filter((url) => unreported.some(({ ids }) => ids.includes(workerId(url, publicKey))));
  if (unreported[0] === undefined || known.length > 0) return known;
  throw new CliError(EXIT.usage, `process ${unreported[0].pid} ${NO_REPORT}, so its coordinator is not known; use --url with its address`);
}

/** `compute-router worker doctor`. */
const workerDoctor = command({
  name: "worker doctor",
  description: "Check everything that this worker needs, and say how to fix problems; it changes nothing",
  args: { ...WORKER_ARGS, json: { type: "boolean", description: "One JSON object per line" } },
  many: ["url"],
  run: async (args, all) => {
    const plan = workerPlan(args, all("url"));
    const color = process.stdout.isTTY && (process.env["NO_COLOR"] ?? "") === "";
    const width = Math.max("configuration".length, ...plan.coordinators.map(({ url }) => new URL(url).host.length));
    const failed: Extract<Check, { state: "fail" }>[] = [];
    for await (const check of examine(plan)) {
      if (check.state === "fail") failed.push(check);
      if (args.json !== true) print(checkLines(check, { color, width }));
      else {
        const { name, state, message } = check;
        printJson({ name, state, message, ...(check.state !== "ok" && check.fix !== undefined && { fix: check.fix }) });
      }
    }
    const [first] = failed;
    if (first !== undefined) throw new CliError(first.exit, failed.length === 1 ? "one check failed" : `${failed.length} checks failed`);
  },
});

/** An older report means that the worker does not respond. It writes one at least every 10 s. */
const STALE_MS = 30_000;

/** True if the worker of a report does not respond. What the report says of its coordinators is then out of date. */
function isStale({ updated_at }: StatusReport, now: number): boolean {
  return now - Date.parse(updated_at) > STALE_MS;
}

/** `compute-router worker status`. */
const workerStatus = command({
  name: "worker status",
  description: "Show what the running workers of this configuration folder do; exit code 0: all are online, 6: some are not, 9: none runs",
  args: { "config-dir": KEY_ARGS["config-dir"], json: { type: "boolean", description: "Print JSON" } },
  run: (args) => {
    const configDir = args["config-dir"];
    const folder = configFolder({ configDir });
    const place = configDir === undefined ? "" : ` --config-dir ${shellWord(untrusted(configDir))}`;
    const reports = runningWorkers(folder);
    const unreported = unreportedWorkers(folder).map(({ pid }) => ({ version: 1, pid, coordinators: [], problem: NO_REPORT }));
    const now = Date.now();
    if (args.json === true)
      printJson([...reports.map((report) => ({ ...report, fingerprint: fingerprintOf(report.provider_pubkey), stale: isStale(report, now) })), ...unreported]);
    if (reports.length + unreported.length === 0)
      throw new CliError(
        EXIT.notRunning,
        `no worker runs in ${untrusted(folder)}; if it has another folder, use --config-dir DIR; to start one${needsNewerNode()}: ${ownCommand(`worker start${place}`)}`,
      );
    if (args.json !== true) for (const report of reports) print(reportText(report, now));
    if (args.json !== true) for (const { pid, problem } of unreported) print(`process ${pid}  ${problem}; is the disk of ${untrusted(folder)} full?`);
    const offline = reports.flatMap((report) => report.coordinators.filter(({ state }) => state !== "online" || isStale(report, now)));
    if (offline.length > 0) throw new CliError(EXIT.unreachable, `not online at ${offline.map(({ coordinator }) => coordinator).join(", ")}`);
  },
});

const subCommands = { init: workerInit, start: workerStart, pair: workerPair, doctor: workerDoctor, status: workerStatus, key: workerKey };

/** True for an option that `worker` does not know. */
function isUnknownOption(arg: string): boolean {
  const [, name] = /^--(?:no-)?([^=]+)/.exec(arg) ?? [];
  if (name === undefined) return false;
  return !Object.hasOwn(
    WORKER_START_ARGS,
    name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  );
}

/** `compute-router worker [init|start|pair|doctor|status|key]`; without a sub-command it starts. */
export const worker = defineCommand({
  meta: { name: "compute-router worker", description: "Work for one coordinator or several; without a command: start" },
  // citty needs these options to find the sub-command, because some take a value.
  args: WORKER_START_ARGS,
  default: "start",
  setup: ({ rawArgs }) => {
    refuseWithoutValue(rawArgs, WORKER_START_ARGS, "worker");
    // citty ignores options before the sub-command, so the worker would start with other settings than the user wrote.
    const at = rawArgs.findIndex((arg) => Object.hasOwn(subCommands, arg));
    const before = rawArgs[at - 1] ?? "";
    const isValue = before.startsWith("--") && !before.includes("=") && !["--tasks-only", "--standby", "--json"].includes(before);
    if (at > 0 && !isValue) throw new CliError(EXIT.usage, `write options after the command: ${ownCommand(`worker ${rawArgs[at]}`)} …`);
    // citty would take the value of an unknown option for a command and report that instead.
    const first = rawArgs[0] ?? "";
    const unknown = first.startsWith("-") ? rawArgs.slice(0, at > 0 ? at : undefined).find(isUnknownOption) : undefined;
    if (unknown !== undefined) throw new CliError(EXIT.usage, `unknown option ${unknown.split("=")[0]}; see: ${ownCommand("worker --help")}`);
  },
  subCommands,
});

function reportText(report: StatusReport, now: number): string {
  const { pid, started_at, provider_pubkey, llm, name, metrics, draining } = report;
  const about = [
    `process ${pid}`,
    `up ${duration(now - Date.parse(started_at))}`,
    `key ${shortKey(provider_pubkey)}`,
    ...(name === null ? [] : [`name ${name}`]),
    llm === null ? "tasks only" : `${llm.model} by ${llm.runtime}`,
    ...(metrics === null ? [] : [metrics]),
    ...(draining ? ["finishing"] : []),
    ...(isStale(report, now) ? [`not responding: its last report is ${duration(now - Date.parse(report.updated_at))} old`] : []),
  ];
  return [
    untrusted(about.join("  ")),
    `  ${fingerprintOf(provider_pubkey)}`,
    ...report.coordinators.map((coordinator) => `  ${coordinatorText(coordinator, isStale(report, now), now)}`),
  ].join("\n");
}

function coordinatorText(report: StatusReport["coordinators"][number], stale: boolean, now: number): string {
  const { state, coordinator, cause, network, tier, jobs, job, tokens, rejected, last_rejection, clock_off_ms } = report;
  const done = jobs.LLM_INFER.completed + jobs.TASK.completed;
  const failed = jobs.LLM_INFER.failed + jobs.TASK.failed;
  const parts = [
    stale ? "○ not responding" : `${state === "online" ? "●" : "○"} ${state}`,
    coordinator,
    ...(network === null ? [] : [network]),
    ...(tier === null ? [] : [tier]),
    `jobs ${done} done, ${failed} failed${rejected > 0 ? `, ${rejected} rejected${last_rejection === null ? "" : ` (${last_rejection})`}` : ""}`,
    ...(clock_off_ms === null ? [] : [`WARNING: the clock is ${offText(clock_off_ms)} the coordinator's`]),
    ...(tokens > 0 ? [`${tokens} tokens`] : []),
    ...(job === null ? [] : [`working on ${job.job_type} for ${duration(now - Date.parse(job.started_at))}`]),
    ...(cause === null ? [] : [`(${cause})`]),
  ];
  return untrusted(parts.join("  "));
}
