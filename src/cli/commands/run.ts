import { ownCommand } from "../../worker/node/command-name.ts";
import { CliError, command, EXIT } from "../command.ts";
import { printFacts, printStream, runJob, waitFor } from "../waiting.ts";
import { withClient, MODEL_ARG, readCount, readRunOptions, RUN_ARGS } from "../seeker.ts";
import { standardInput } from "../input.ts";
import { TaskType } from "../../protocol/job.ts";

/** `compute-router run`. */
export const run = command({
  name: "run",
  description: "Send a prompt to a worker's LLM",
  args: {
    prompt: { type: "positional", required: true, description: "The prompt; `-` reads standard input" },
    model: MODEL_ARG,
    "max-tokens": { type: "string", valueHint: "n", description: "Maximum number of tokens of the answer" },
    stream: {
      type: "boolean",
      description: "Print the text while it is generated; the default in a terminal",
      negativeDescription: "Print the text when it is complete",
    },
    ...RUN_ARGS,
  },
  run: async (args) => {
    const options = readRunOptions(args);
    const maxTokens = readCount("max-tokens", args["max-tokens"], 1, 32_768);
    const prompt = args.prompt === "-" ? await standardInput(`echo "…" | ${ownCommand("run -")}`) : args.prompt;
    const { model } = args;
    const job = { job_type: "LLM_INFER", prompt, ...(model !== undefined && { model }), ...(maxTokens !== undefined && { max_tokens: maxTokens }) } as const;
    const isLive = args.json !== true && (args.stream ?? process.stdout.isTTY);
    if (!isLive) return runJob(args, job, options);
    const result = await withClient(args, (client) =>
      waitFor(args, client, (wait) => printStream(client.stream(job, { ...options, signal: wait.signal }), process, wait)),
    );
    if (result !== undefined) printFacts(result);
  },
});

/** `compute-router task`. */
export const task = command({
  name: "task",
  description: "Let a worker summarize, classify or extract JSON from the text on standard input",
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
