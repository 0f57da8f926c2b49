import { TaskType } from "../../protocol/job.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { printResult } from "../result-print.ts";
import { readRunOptions, RUN_ARGS } from "../run-option.ts";
import { asking } from "../seeker.ts";
import { standardInput } from "../standard-input.ts";

/** `compute-router task`. */
export const task = command({
  name: "task",
  description: "Have a worker summarize, classify or extract JSON from the text on standard input",
  args: {
    type: { type: "positional", required: true, description: "summarize, classify or extract_json" },
    ...RUN_ARGS,
  },
  run: async (args) => {
    const type = TaskType.safeParse(args.type);
    if (!type.success) throw new CliError(EXIT.usage, `there is no task "${args.type}", but ${TaskType.options.join(", ")}`);
    const options = readRunOptions(args);
    const input = await standardInput(`compute-router task ${type.data} < FILE`);
    printResult(await asking(args, (client) => client.run({ job_type: "TASK", task_type: type.data, input }, options)), args.json === true);
  },
});
