import { JobType } from "../../protocol/job.ts";
import { untrusted } from "../../worker/node/printable.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { print, printJson } from "../print.ts";
import { POLICY_ARG, readPolicy } from "../run-option.ts";
import { asking, SEEKER_ARGS } from "../seeker.ts";

/** `compute-router quote`. */
export const quote = command({
  name: "quote",
  description: "What jobs cost",
  args: {
    type: { type: "string", valueHint: "LLM_INFER|TASK", description: "Kind of job; default both" },
    policy: { ...POLICY_ARG, description: "Tier; default FAST and CHEAP" },
    url: SEEKER_ARGS.url,
    json: SEEKER_ARGS.json,
  },
  run: async (args) => {
    const type = JobType.optional().safeParse(args.type?.toUpperCase());
    if (!type.success) throw new CliError(EXIT.usage, `--type: one of ${JobType.options.join(", ")}`);
    const policy = readPolicy(args.policy);
    const policies = policy === undefined ? (["FAST", "CHEAP"] as const) : [policy];
    const wanted = (type.data === undefined ? JobType.options : [type.data]).flatMap((jobType) => policies.map((tier) => ({ jobType, tier })));
    // A quote has no user.
    const anybody = { url: args.url, user: "quote" };
    const quotes = await asking(anybody, (client) =>
      Promise.all(wanted.map(async ({ jobType, tier }) => ({ job_type: jobType, ...(await client.quote(jobType, tier)) }))),
    );
    if (args.json === true) return printJson(quotes);
    for (const { job_type, policy_resolved, price, endpoint } of quotes)
      print(untrusted([job_type.padEnd(9), policy_resolved.padEnd(5), price, endpoint].join("  ")));
  },
});
