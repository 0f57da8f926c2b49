import { Receipt } from "../../protocol/job.ts";
import { isJsonObject } from "../../protocol/text.ts";
import { type ReceiptCheck, verifyReceipt } from "../../receipt/receipt.ts";
import { ownCommand } from "../../worker/node/command-name.ts";
import { untrusted } from "../../worker/node/status-line.ts";
import { CliError, command, EXIT } from "../command.ts";

import { readJsonFile } from "../input.ts";
import { print, printJson } from "../print.ts";

const WHY: Record<Extract<ReceiptCheck, { ok: false }>["reason"], string> = {
  invalid_key: "its provider_pubkey is not an ed25519 key that a worker may have",
  hash_mismatch: "it is for another result than this one",
  bad_signature: "its signature is not the worker's",
};

/** `compute-router verify`. */
export const verify = command({
  name: "verify",
  description: "Check a receipt against the result of its job; needs no network",
  args: {
    receipt: { type: "positional", required: false, valueHint: "RECEIPT.json", description: "The receipt (six fields); may be left out with --job" },
    result: { type: "string", valueHint: "file", description: "The `result` of the job, as JSON" },
    job: {
      type: "string",
      valueHint: "file",
      description: "The whole job, as `run --json`, `task --json` and `job --json` print it; `-` reads standard input",
    },
    json: { type: "boolean", description: "Print JSON" },
  },
  run: async (args) => {
    const { receipt, result } = await subject(args);
    const check = verifyReceipt(receipt, result);
    const { provider_pubkey, job_id, completed_at } = receipt;
    if (args.json === true) printJson({ valid: check.ok, ...(!check.ok && { reason: check.reason }), job_id, provider_pubkey, completed_at });
    if (!check.ok) throw new CliError(EXIT.receipt, `the receipt does NOT hold: ${WHY[check.reason]} (${check.reason})`);
    if (args.json !== true)
      print(`the receipt holds\njob        ${untrusted(job_id)}\nworker     ${untrusted(provider_pubkey)}\ncompleted  ${untrusted(completed_at)}`);
  },
});

type Subject = { receipt: Receipt; result: unknown };

async function subject(args: { receipt?: string | undefined; result?: string | undefined; job?: string | undefined }): Promise<Subject> {
  if ((args.result === undefined) === (args.job === undefined))
    throw new CliError(EXIT.usage, `say what the receipt is for: --result RESULT.json or --job JOB.json; see: ${ownCommand("verify --help")}`);
  if (args.job === undefined) {
    if (args.receipt === undefined) throw new CliError(EXIT.usage, `the receipt is missing: ${ownCommand("verify RECEIPT.json --result RESULT.json")}`);
    return { receipt: readReceipt(await readJsonFile(args.receipt), args.receipt), result: await readJsonFile(args.result ?? "-") };
  }
  const job = await readJsonFile(args.job);
  const name = args.job === "-" ? "standard input" : args.job;
  if (!isJsonObject(job)) throw new CliError(EXIT.usage, `${name} is not a job`);
  if (job["result"] === null || job["result"] === undefined) throw new CliError(EXIT.usage, `the job in ${name} has no result (not yet, or no longer)`);
  const receipt = args.receipt === undefined ? readReceipt(job["receipt"], name) : readReceipt(await readJsonFile(args.receipt), args.receipt);
  // A true receipt of another job would hold for an equal result.
  // The coordinator calls the member `id`, `run --json` calls it `job_id`.
  const id = job["id"] ?? job["job_id"];
  if (id !== receipt.job_id) throw new CliError(EXIT.receipt, `the receipt does NOT hold: it is for job ${receipt.job_id}, this is job ${String(id)}`);
  return { receipt, result: job["result"] };
}

function readReceipt(value: unknown, file: string): Receipt {
  const receipt = Receipt.safeParse(value);
  if (!receipt.success)
    throw new CliError(EXIT.usage, `${file} has no receipt: job_id, provider_pubkey, output_hash, completed_at, payment_ref and signature are needed`);
  return receipt.data;
}
