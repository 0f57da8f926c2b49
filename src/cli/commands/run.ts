import { command } from "../command.ts";
import { printResult } from "../result-print.ts";
import { readCount, readRunOptions, RUN_ARGS } from "../run-option.ts";
import { asking } from "../seeker.ts";
import { standardInput } from "../standard-input.ts";

/** `compute-router run`. */
export const run = command({
  name: "run",
  description: "Have a worker's LLM answer a prompt",
  args: {
    prompt: { type: "positional", required: true, description: "The prompt; `-` reads standard input" },
    "max-tokens": { type: "string", valueHint: "n", description: "The most tokens of the answer" },
    ...RUN_ARGS,
  },
  run: async (args) => {
    const options = readRunOptions(args);
    const maxTokens = readCount("max-tokens", args["max-tokens"], 1, 32_768);
    const prompt = args.prompt === "-" ? await standardInput('echo "…" | compute-router run -') : args.prompt;
    const job = { job_type: "LLM_INFER", prompt, ...(maxTokens !== undefined && { max_tokens: maxTokens }) } as const;
    printResult(await asking(args, (client) => client.run(job, options)), args.json === true);
  },
});
