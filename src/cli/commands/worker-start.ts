import { command } from "../command.ts";
import { WORKER_START_ARGS } from "../worker-args.ts";
import { workerPlan } from "../worker-plan.ts";

/** `compute-router worker start`. */
export const workerStart = command({
  name: "worker start",
  description: "Work until stopped (Ctrl-C finishes the present job first, twice leaves at once)",
  args: WORKER_START_ARGS,
  many: ["url"],
  run: async (args, all) => {
    const plan = workerPlan(args, all("url"));
    // Loaded only to work: the built-in tasks bring a dictionary.
    const { work } = await import("../work.ts");
    await work(plan, args.json === true);
  },
});
