// `compute-router job`, `job cancel` and `jobs`: show a job with the check of its receipt, cancel one, list those of a user.
import { inWords } from "../../protocol/text.ts";
import { type Job, verifyReceipt } from "../../sdk/index.ts";
import { isUuid } from "../../sdk/shapes.ts";
import { ownCommand } from "../../worker/node/command-name.ts";
import { shortKey, untrusted } from "../../worker/node/status-line.ts";
import { CliError, command, EXIT } from "../command.ts";
import { print, printJson, printUntrusted } from "../print.ts";
import { withClient, readCount, sameUser, SEEKER_ARGS } from "../seeker.ts";
import { cancellationText } from "../waiting.ts";

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
    const found = await withClient(anybody, (client) => client.get(args.id, wait === undefined ? {} : { wait }));
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

/** `compute-router job cancel`. */
export const cancel = command({
  name: "job cancel",
  description: "Cancel a job that was committed from this machine. A job that a worker has started is charged all the same",
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
    const cancellation = await withClient(anybody, (client) => client.cancel(args.id, token === undefined ? {} : { cancelToken: token }));
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
    before: { type: "string", valueHint: "place", description: "Only jobs before this: a time, or what the last list has printed" },
    ...SEEKER_ARGS,
  },
  run: async (args) => {
    const limit = readCount("limit", args.limit, 1, 100);
    const { before } = args;
    const page = await withClient(args, (client) => client.jobs({ ...(limit !== undefined && { limit }), ...(before !== undefined && { before }) }));
    if (args.json === true) return printJson(page);
    for (const { id, job_type, status, created_at } of page.jobs) print(untrusted([id, job_type.padEnd(9), status.padEnd(9), created_at].join("  ")));
    if (page.jobs.length === 0) print(page.source === "router" ? "no jobs" : "no jobs of this machine", process.stderr);
    const more = page.next === null ? "" : ` --before ${page.next}`;
    const count = limit === undefined ? "" : ` --limit ${limit}`;
    if (page.next !== null) print(untrusted(`older ones: ${sameUser(`jobs${count}${more}`, args)}`), process.stderr);
  },
});
