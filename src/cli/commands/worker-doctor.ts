import { type Check, checkLines } from "../check.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { examine } from "../doctor.ts";
import { print, printJson } from "../print.ts";
import { WORKER_ARGS } from "../worker-args.ts";
import { workerPlan } from "../worker-plan.ts";

/** `compute-router worker doctor`. */
export const workerDoctor = command({
  name: "worker doctor",
  description: "Check everything that this worker needs, and say how to correct what is wrong; changes nothing",
  args: { ...WORKER_ARGS, json: { type: "boolean", description: "One JSON object a line" } },
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
    if (first !== undefined) throw new CliError(first.exit, failed.length === 1 ? "one thing is wrong" : `${failed.length} things are wrong`);
  },
});
