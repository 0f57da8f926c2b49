// `compute-router quote`, `models`, `run`, `task`, `job`, `job cancel` and `jobs`: what jobs cost and which models answer, run a job, show or cancel one, list
// those of a user.
import { JobType, TaskType } from "../../protocol/job.ts";
import { inWords, untrusted } from "../../protocol/text.ts";
import { type Job, type Receipt, verifyReceipt } from "../../sdk/index.ts";
import { isUuid } from "../../sdk/shapes.ts";
import { ownCommand, shellWord } from "../../worker/node/program.ts";
import { shortKey } from "../../receipt/ed25519.ts";
import { CliError, command, EXIT, print, printJson, printUntrusted } from "../command.ts";
import { standardInput } from "../input.ts";
import { ask, MODEL_ARG, POLICY_ARG, readCount, readPolicy, readRunOptions, RUN_ARGS, sameUser, SEEKER_ARGS, withClient } from "../seeker.ts";
import { cancellationText, printFacts, printStream, runJob, type Wait, waitFor } from "../waiting.ts";

/** `compute-router quote`. */
export const quote = command({
  name: "quote",
  description: "Show the quoted prices of jobs; the 402 of a commit has the real one",
  args: {
    type: { type: "string", valueHint: "LLM_INFER|TASK", description: "Type of job; default: both" },
    policy: { ...POLICY_ARG, description: "Tier; default FAST and CHEAP" },
    model: { ...MODEL_ARG, description: "Say how many workers offer this model of an LLM_INFER" },
    url: SEEKER_ARGS.url,
    json: SEEKER_ARGS.json,
  },
  run: async (args) => {
    const type = JobType.optional().safeParse(args.type?.toUpperCase());
    if (!type.success) throw new CliError(EXIT.usage, `--type must be one of ${JobType.options.join(", ")}`);
    const policy = readPolicy(args.policy);
    const { model } = args;
    if (model !== undefined && type.data === "TASK") throw new CliError(EXIT.usage, "--model: only an LLM_INFER has a model");
    const policies = policy === undefined ? (["FAST", "CHEAP"] as const) : [policy];
    const all = model === undefined ? JobType.options : (["LLM_INFER"] as const);
    const wanted = (type.data === undefined ? all : [type.data]).flatMap((jobType) => policies.map((tier) => ({ jobType, tier })));
    // A quote has no user.
    const anybody = { url: args.url, user: "quote" };
    const quotes = await ask(anybody, (client) =>
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
    const list = await ask({ url: args.url, user: "models" }, (client) => client.models());
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

/** `compute-router run`. */
export const run = command({
  name: "run",
  description: "Send a prompt to a worker's LLM",
  args: {
    prompt: { type: "positional", required: true, description: "The prompt; `-` reads standard input" },
    model: MODEL_ARG,
    "max-tokens": { type: "string", valueHint: "n", description: "Maximum number of tokens of the answer; default 512" },
    stream: {
      type: "boolean",
      description: "Print the text while it is generated; the default in a terminal",
      negativeDescription: "Print the text when it is complete",
    },
    ...RUN_ARGS,
  },
  advice: (words) => `the prompt must be in quotes: ${ownCommand(`run ${shellWord(words.join(" "))}`)}`,
  run: async (args) => {
    const options = readRunOptions(args);
    const { idempotencyKey } = options;
    const maxTokens = readCount("max-tokens", args["max-tokens"], 1, 32_768);
    if (args.prompt === "") throw new CliError(EXIT.usage, "PROMPT must not be empty");
    const prompt = args.prompt === "-" ? await standardInput(`echo "…" | ${ownCommand("run -")}`) : args.prompt;
    const { model } = args;
    const job = { job_type: "LLM_INFER", prompt, ...(model !== undefined && { model }), ...(maxTokens !== undefined && { max_tokens: maxTokens }) } as const;
    const isLive = args.json !== true && (args.stream ?? process.stdout.isTTY);
    if (!isLive) return runJob(args, job, options);
    await withClient(args, async (client) => {
      const events = ({ signal, isLimited }: Wait) => client.stream(job, { ...options, signal, onRateLimit: isLimited });
      const result = await waitFor({ ...args, idempotencyKey }, client, (wait) => printStream(events(wait), process, wait));
      if (result !== undefined) printFacts(result, client);
    });
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
  advice: ([type]) => `the text comes on standard input: echo "…" | ${ownCommand(`task ${TaskType.options.find((known) => known === type) ?? "TYPE"}`)}`,
  run: async (args) => {
    const type = TaskType.safeParse(args.type);
    if (!type.success)
      throw new CliError(EXIT.usage, `there is no task "${args.type}"; one of ${TaskType.options.join(", ")}; see: ${ownCommand("task --help")}`);
    const options = readRunOptions(args);
    const input = await standardInput(`${ownCommand(`task ${type.data}`)} < FILE`);
    await runJob(args, { job_type: "TASK", task_type: type.data, input }, options);
  },
});

/** `compute-router job`. */
export const job = command({
  name: "job",
  description: "Show a job, its result and whether its receipt is valid; `job cancel ID` cancels it",
  args: {
    id: { type: "positional", required: true, description: "The job's id" },
    wait: { type: "string", valueHint: "seconds", description: "Seconds to wait for the end of the job, 0 to 25; without this option it does not wait" },
    url: SEEKER_ARGS.url,
    json: { type: "boolean", description: "Print the job as the coordinator answers; `verify --job -` reads it" },
  },
  run: async (args) => {
    const wait = readCount("wait", args.wait, 0, 25);
    if (!isUuid(args.id)) throw new CliError(EXIT.usage, `ID must be a UUID, got ${inWords(args.id)}; see: ${ownCommand("job --help")}`);
    const anybody = { url: args.url, user: "job" };
    const found = await ask(anybody, (client) => client.get(args.id, wait === undefined ? {} : { wait }));
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
    ...(receipt === null ? [] : [`receipt    ${verdict(id, receipt, result)}, worker ${shortKey(receipt.provider_pubkey)}`]),
    ...(receipt === null && status === "completed" ? ["receipt    none: NOT verified"] : []),
  ];
}

function verdict(id: string, receipt: Receipt, result: Job["result"]): string {
  if (receipt.job_id !== id) return "NOT valid: it belongs to another job";
  // The receipt of a job outlives its result.
  if (result === null) return "not checked, because the result is no longer stored";
  const check = verifyReceipt(receipt, result);
  return check.ok ? "valid" : `NOT valid: ${check.reason}`;
}

/** `compute-router job cancel`. */
export const cancel = command({
  name: "job cancel",
  hidden: true,
  description: "Cancel a job that was committed from this machine. A job that a worker has started is still charged",
  args: {
    id: { type: "positional", required: true, description: "The job's id" },
    "cancel-token": { type: "string", valueHint: "token", description: "The X-Cancel-Token of the commit, for a job of another machine" },
    url: SEEKER_ARGS.url,
    "config-dir": SEEKER_ARGS["config-dir"],
    json: SEEKER_ARGS.json,
  },
  run: async (args) => {
    if (!isUuid(args.id)) throw new CliError(EXIT.usage, `ID must be a UUID, got ${inWords(args.id)}; see: ${ownCommand("job cancel --help")}`);
    const token = args["cancel-token"];
    // A cancel has no user.
    const anybody = { url: args.url, user: "cancel", "config-dir": args["config-dir"] };
    const cancellation = await ask(anybody, (client) => client.cancel(args.id, token === undefined ? {} : { cancelToken: token }));
    const { job, cancelled, charged, credit } = cancellation;
    if (args.json === true) return printJson({ cancelled, charged, credit, job });
    print(cancellationText(cancellation));
  },
});

/** `compute-router jobs`. */
export const jobs = command({
  name: "jobs",
  description: "List your jobs, newest first: all of them for a user with a token, otherwise those of this machine",
  args: {
    limit: { type: "string", valueHint: "n", description: "Maximum number of jobs, 1 to 100; default 20" },
    before: { type: "string", valueHint: "place", description: "Only jobs before this time, or before the position that the previous list printed" },
    ...SEEKER_ARGS,
  },
  run: async (args) => {
    const limit = readCount("limit", args.limit, 1, 100);
    const { before } = args;
    const page = await ask(args, (client) => client.jobs({ ...(limit !== undefined && { limit }), ...(before !== undefined && { before }) }));
    if (args.json === true) return printJson(page);
    for (const { id, job_type, status, created_at } of page.jobs) print(untrusted([id, job_type.padEnd(9), status.padEnd(9), created_at].join("  ")));
    if (page.jobs.length === 0) print(page.source === "router" ? "no jobs" : "no jobs of this machine", process.stderr);
    const more = page.next === null ? "" : ` --before ${page.next}`;
    const count = limit === undefined ? "" : ` --limit ${limit}`;
    if (page.next !== null) print(untrusted(`to see older jobs: ${sameUser(`jobs${count}${more}`, args)}`), process.stderr);
  },
});
