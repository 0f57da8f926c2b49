// `compute-router quote` and `models`: what jobs cost, and which models connected workers offer.
import { JobType } from "../../protocol/job.ts";
import { untrusted } from "../../worker/node/status-line.ts";
import { CliError, command, EXIT } from "../command.ts";
import { print, printJson } from "../print.ts";
import { withClient, MODEL_ARG, POLICY_ARG, readPolicy, SEEKER_ARGS } from "../seeker.ts";

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
    const quotes = await withClient(anybody, (client) =>
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

/** `compute-router models`. */
export const models = command({
  name: "models",
  description: "List the models that connected workers offer, for `run --model`",
  args: { url: SEEKER_ARGS.url, json: SEEKER_ARGS.json },
  run: async (args) => {
    // The list has no user.
    const list = await withClient({ url: args.url, user: "models" }, (client) => client.models());
    if (args.json === true) return printJson(list);
    const width = Math.max(0, ...list.data.map(({ id }) => id.length));
    for (const { id, workers } of list.data) print(untrusted(`${id.padEnd(width)}  ${inWorkers(workers)}`));
    if (list.data.length > 0) return;
    const online = list.workers_online;
    print(online === 0 ? "no worker takes LLM jobs now" : `${inWorkers(online)} for LLM jobs, without the name of a model`, process.stderr);
  },
});

function inWorkers(count: number): string {
  return count === 1 ? "1 worker" : `${count} workers`;
}
