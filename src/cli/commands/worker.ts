import { defineCommand } from "citty";
import { ownCommand } from "../../worker/node/command-name.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { WORKER_START_ARGS } from "../worker-args.ts";
import { workerKey } from "./worker-key.ts";
import { workerStart } from "./worker-start.ts";

const subCommands = {
  init: async () => (await import("./worker-init.ts")).workerInit,
  start: workerStart,
  pair: async () => (await import("./worker-pair.ts")).workerPair,
  doctor: async () => (await import("./worker-doctor.ts")).workerDoctor,
  status: async () => (await import("./worker-status.ts")).workerStatus,
  key: workerKey,
};

/** `compute-router worker [init|start|pair|doctor|status|key]`; without a word it starts. */
export const worker = defineCommand({
  meta: { name: "compute-router worker", description: "Work for one coordinator or several; without a command: start" },
  // citty has to know which options take a value to find the sub-command.
  args: WORKER_START_ARGS,
  default: "start",
  setup: ({ rawArgs }) => {
    // citty would drop what comes before the sub-command, and the worker would start elsewhere than it was told to.
    const at = rawArgs.findIndex((arg) => Object.hasOwn(subCommands, arg));
    const before = rawArgs[at - 1] ?? "";
    const isValue = before.startsWith("--") && !before.includes("=") && !["--tasks-only", "--standby", "--json"].includes(before);
    if (at > 0 && !isValue) throw new CliError(EXIT.usage, `say options after the command: ${ownCommand(`worker ${rawArgs[at]}`)} …`);
  },
  subCommands,
});
