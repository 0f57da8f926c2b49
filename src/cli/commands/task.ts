import { TaskType } from "../../protocol/job.ts";
import { ownCommand } from "../../worker/node/command-name.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { runJob } from "../result-print.ts";
import { readRunOptions, RUN_ARGS } from "../run-option.ts";
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
    if (!type.success)
      throw new CliError(EXIT.usage, `there is no task "${args.type}"; one of ${TaskType.options.join(", ")}; see: ${ownCommand("task --help")}`);
    const options = readRunOptions(args);
    const input = await standardInput(`${ownCommand(`task ${type.data}`)} < FILE`);
    await runJob(args, { job_type: "TASK", task_type: type.data, input }, options);
  },
});
