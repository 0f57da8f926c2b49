// `compute-router worker status`: what the running workers of a configuration folder report in their status files.
import { fingerprintOf } from "../../receipt/ed25519.ts";
import { ownCommand, shellWord } from "../../worker/node/command-name.ts";
import { runningWorkers, type StatusReport } from "../../worker/node/status-file.ts";
import { shortKey, untrusted } from "../../worker/node/status-line.ts";
import { configFolder } from "../../worker/node/worker-config.ts";
import { offText } from "../../worker/session/index.ts";
import { CliError, command, EXIT } from "../command.ts";
import { print, printJson } from "../print.ts";
import { needsNewerNode } from "../version.ts";
import { KEY_ARGS } from "../worker-plan.ts";

/** An older report means that the worker does not respond. It writes one at least every 10 s. */
const STALE_MS = 30_000;

/** `compute-router worker status`. */
export const workerStatus = command({
  name: "worker status",
  description: "Show what the running workers of this configuration folder do; exit code 0: all are online, 6: some are not, 9: none runs",
  args: { "config-dir": KEY_ARGS["config-dir"], json: { type: "boolean", description: "Print JSON" } },
  run: (args) => {
    const configDir = args["config-dir"];
    const folder = configFolder(configDir === undefined ? {} : { configDir });
    const place = configDir === undefined ? "" : ` --config-dir ${shellWord(untrusted(configDir))}`;
    const reports = runningWorkers(folder);
    if (args.json === true) printJson(reports.map((report) => ({ ...report, fingerprint: fingerprintOf(report.provider_pubkey) })));
    if (reports.length === 0)
      throw new CliError(
        EXIT.notRunning,
        `no worker runs in ${untrusted(folder)}; if it has another folder, use --config-dir DIR; to start one${needsNewerNode()}: ${ownCommand(`worker start${place}`)}`,
      );
    if (args.json !== true) for (const report of reports) print(reportText(report, Date.now()));
    const offline = reports.flatMap(({ coordinators }) => coordinators.filter(({ state }) => state !== "online"));
    if (offline.length > 0) throw new CliError(EXIT.unreachable, `not online at ${offline.map(({ coordinator }) => coordinator).join(", ")}`);
  },
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
    ...(now - Date.parse(report.updated_at) > STALE_MS ? [`not responding: its last report is ${duration(now - Date.parse(report.updated_at))} old`] : []),
  ];
  return [
    untrusted(about.join("  ")),
    `  ${fingerprintOf(provider_pubkey)}`,
    ...report.coordinators.map((coordinator) => `  ${coordinatorText(coordinator, now)}`),
  ].join("\n");
}

function coordinatorText(report: StatusReport["coordinators"][number], now: number): string {
  const { state, coordinator, cause, network, tier, jobs, job, tokens, rejected, last_rejection, clock_off_ms } = report;
  const done = jobs.LLM_INFER.completed + jobs.TASK.completed;
  const failed = jobs.LLM_INFER.failed + jobs.TASK.failed;
  const parts = [
    `${state === "online" ? "●" : "○"} ${state}`,
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

/** Milliseconds in the two largest units. */
function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
