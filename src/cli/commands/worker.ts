// `compute-router worker start|pair|doctor` and the group of all `worker` commands.
import { defineCommand } from "citty";
import { fingerprintOf } from "../../receipt/ed25519.ts";
import { ownCommand } from "../../worker/node/command-name.ts";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { runningWorkers } from "../../worker/node/status-file.ts";
import { CliError, command, EXIT } from "../command.ts";
import { type Check, checkLines, examine } from "../doctor.ts";
import { print, printJson } from "../print.ts";
import { WORKER_ARGS, WORKER_PLACE_ARGS, WORKER_START_ARGS, workerPlan, type WorkerPlan } from "../worker-plan.ts";
import { claimPairing, pairedText } from "./pair.ts";
import { workerKey } from "./worker-key.ts";

/** `compute-router worker start`. */
export const workerStart = command({
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
export const workerPair = command({
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
    const reading = readKeyFile(plan.keyFile);
    if (!reading.ok) throw new CliError(EXIT.key, reading.message);
    const { publicKey } = reading.key;
    const urls = all("url").length > 0 ? [] : runningUrls(plan, publicKey);
    const { coordinator, pairedAt } = await claimPairing(urls.length > 0 ? urls : plan.coordinators.map(({ url }) => url), reading.key, args.code);
    if (args.json === true) return printJson({ coordinator, provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), paired_at: pairedAt });
    print(pairedText(`paired at ${coordinator}`, publicKey));
  },
});

/** The coordinators that the worker with this key works for now. Its options may name others than the configuration. */
function runningUrls({ folder }: WorkerPlan, publicKey: string): string[] {
  const mine = runningWorkers(folder).filter(({ provider_pubkey }) => provider_pubkey === publicKey);
  return [...new Set(mine.flatMap(({ coordinators }) => coordinators.flatMap(({ url }) => url ?? [])))];
}

/** `compute-router worker doctor`. */
export const workerDoctor = command({
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

const subCommands = {
  init: async () => (await import("./worker-init.ts")).workerInit,
  start: workerStart,
  pair: async () => (await import("./worker.ts")).workerPair,
  doctor: async () => (await import("./worker.ts")).workerDoctor,
  status: async () => (await import("./worker-status.ts")).workerStatus,
  key: workerKey,
};

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
