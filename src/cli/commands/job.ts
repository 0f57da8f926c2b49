import { type Job, verifyReceipt } from "../../sdk/index.ts";
import { untrusted } from "../../worker/node/printable.ts";
import { shortKey } from "../../worker/node/status-line.ts";
import { command } from "../command.ts";
import { print, printJson, printUntrusted } from "../print.ts";
import { readCount } from "../run-option.ts";
import { asking, SEEKER_ARGS } from "../seeker.ts";

/** `compute-router job`. */
export const job = command({
  name: "job",
  description: "Show a job, its result and whether its receipt holds",
  args: {
    id: { type: "positional", required: true, description: "The job's id" },
    wait: { type: "string", valueHint: "seconds", description: "Wait up to 25 seconds for its end" },
    url: SEEKER_ARGS.url,
    json: { type: "boolean", description: "Print the job as the coordinator answers; `compute-router verify --job -` reads it" },
  },
  run: async (args) => {
    const wait = readCount("wait", args.wait, 0, 25);
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
  if (!isOfThisJob) return "does NOT hold: it is of another job";
  return check.ok ? "holds" : `does NOT hold: ${check.reason}`;
}
