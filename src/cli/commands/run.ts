import { ownCommand } from "../../worker/node/command-name.ts";
import { command } from "../command.ts";
import { printFacts, runJob } from "../result-print.ts";
import { readCount, readRunOptions, RUN_ARGS } from "../run-option.ts";
import { asking } from "../seeker.ts";
import { printStream } from "../stream-print.ts";
import { standardInput } from "../standard-input.ts";
import { waitFor } from "../waiting.ts";

/** `compute-router run`. */
export const run = command({
  name: "run",
  description: "Have a worker's LLM answer a prompt",
  args: {
    prompt: { type: "positional", required: true, description: "The prompt; `-` reads standard input" },
    "max-tokens": { type: "string", valueHint: "n", description: "The most tokens of the answer" },
    stream: {
      type: "boolean",
      description: "Print the text as it is written; the default in a terminal",
      negativeDescription: "Print the text when it is whole",
    },
    ...RUN_ARGS,
  },
  run: async (args) => {
    const options = readRunOptions(args);
    const maxTokens = readCount("max-tokens", args["max-tokens"], 1, 32_768);
    const prompt = args.prompt === "-" ? await standardInput(`echo "…" | ${ownCommand("run -")}`) : args.prompt;
    const job = { job_type: "LLM_INFER", prompt, ...(maxTokens !== undefined && { max_tokens: maxTokens }) } as const;
    const isLive = args.json !== true && (args.stream ?? process.stdout.isTTY);
    if (!isLive) return runJob(args, job, options);
    const result = await asking(args, (client) =>
      waitFor(args.url, (wait) => printStream(client.stream(job, { ...options, signal: wait.signal }), process, wait)),
    );
    if (result !== undefined) printFacts(result);
  },
});
