// `compute-router job` and `compute-router quote`: show a job with the check of its receipt, and show prices.
import { type Job, verifyReceipt } from "../../sdk/index.ts";
import { shortKey, untrusted } from "../../worker/node/status-line.ts";
import { CliError, command, EXIT } from "../command.ts";
import { print, printJson, printUntrusted } from "../print.ts";
import { asking, MODEL_ARG, POLICY_ARG, readCount, readPolicy, SEEKER_ARGS } from "../seeker.ts";
import { JobType } from "../../protocol/job.ts";
import { inWords } from "../../protocol/text.ts";
import { isUuid } from "../../sdk/shapes.ts";
import { ownCommand } from "../../worker/node/command-name.ts";

/** `compute-router job`. */
export const job = command({
  name: "job",
  description: "Show a job, its result and whether its receipt is valid; `job cancel ID` cancels it",
  args: {
    id: { type: "positional", required: true, description: "The job's id" },
    wait: { type: "string", valueHint: "seconds", description: "Wait up to 25 seconds for the end of the job" },
    url: SEEKER_ARGS.url,
    json: { type: "boolean", description: "Print the job as the coordinator answers; `verify --job -` reads it" },
  },
  run: async (args) => {
    const wait = readCount("wait", args.wait, 0, 25);
    if (!isUuid(args.id)) throw new CliError(EXIT.usage, `ID must be a UUID, got ${inWords(args.id)}; see: ${ownCommand("job --help")}`);
    const anybody = { url: args.url, user: "job" };
    const found = await asking(anybody, (client) => client.get(args.id, wait === undefined ? {} : { wait }));
    if (args.json === true) return printJson(found);
    print(lines(found).map(untrusted).join("\n"));
    const { result } = found;
    if (result !== null) printUntrusted(`\n${typeof result["output"] === "string" ? result["output"] : JSON.stringify(result, null, 2)}\n`);
  },
});

function lines({ id, status, created_at, completed_at, result, receipt }: Job): string[] {
  return [
    `job        ${id}`,
    `status     ${status}`,
    `created    ${created_at}`,
    ...(completed_at === null ? [] : [`completed  ${completed_at}`]),
    ...(receipt === null ? [] : [`receipt    ${verdict(receipt.job_id === id, verifyReceipt(receipt, result))}, worker ${shortKey(receipt.provider_pubkey)}`]),
  ];
}

function verdict(isOfThisJob: boolean, check: ReturnType<typeof verifyReceipt>): string {
  if (!isOfThisJob) return "NOT valid: it belongs to another job";
  return check.ok ? "valid" : `NOT valid: ${check.reason}`;
}

/** `compute-router quote`. */
export const quote = command({
  name: "quote",
  description: "Show what jobs cost",
  args: {
    type: { type: "string", valueHint: "LLM_INFER|TASK", description: "Type of job; default: both" },
    policy: { ...POLICY_ARG, description: "Tier; default FAST and CHEAP" },
    model: { ...MODEL_ARG, description: "Say how many workers offer this model of an LLM_INFER" },
    url: SEEKER_ARGS.url,
    json: SEEKER_ARGS.json,
  },
  run: async (args) => {
    const type = JobType.optional().safeParse(args.type?.toUpperCase());
    if (!type.success) throw new CliError(EXIT.usage, `--type: one of ${JobType.options.join(", ")}`);
    const policy = readPolicy(args.policy);
    const { model } = args;
    if (model !== undefined && type.data === "TASK") throw new CliError(EXIT.usage, "--model: only an LLM_INFER has a model");
    const policies = policy === undefined ? (["FAST", "CHEAP"] as const) : [policy];
    const all = model === undefined ? JobType.options : (["LLM_INFER"] as const);
    const wanted = (type.data === undefined ? all : [type.data]).flatMap((jobType) => policies.map((tier) => ({ jobType, tier })));
    // A quote has no user.
    const anybody = { url: args.url, user: "quote" };
    const quotes = await asking(anybody, (client) =>
      Promise.all(
        wanted.map(async ({ jobType, tier }) => ({ job_type: jobType, ...(await client.quote(jobType, tier, model === undefined ? {} : { model })) })),
      ),
    );
    if (args.json === true) return printJson(quotes);
    for (const { job_type, policy_resolved, price, endpoint, workers } of quotes) {
      const offer = workers === undefined ? [] : [`workers with ${model}: ${workers}`];
      print(untrusted([job_type.padEnd(9), policy_resolved.padEnd(5), price, endpoint, ...offer].join("  ")));
    }
  },
});
