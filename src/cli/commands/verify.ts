// `compute-router verify`: checks a receipt against the result of its job, offline.
import { Receipt } from "../../protocol/job.ts";
import { isJsonObject } from "../../protocol/text.ts";
import { type ReceiptCheck, verifyReceipt } from "../../receipt/receipt.ts";
import { ownCommand } from "../../worker/node/command-name.ts";
import { untrusted } from "../../worker/node/status-line.ts";
import { CliError, command, EXIT } from "../command.ts";
import { readJsonFile } from "../input.ts";
import { print, printJson } from "../print.ts";

const WHY: Record<Extract<ReceiptCheck, { ok: false }>["reason"], string> = {
  invalid_key: "its provider_pubkey is not a valid ed25519 key",
  hash_mismatch: "it belongs to another result",
  bad_signature: "its signature is not the worker's",
};

/** `compute-router verify`. */
export const verify = command({
  name: "verify",
  description: "Check a receipt against the result of its job; needs no network",
  args: {
    receipt: { type: "positional", required: false, description: "File with the receipt (six fields), as JSON; optional with --job" },
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
    if (!check.ok) throw new CliError(EXIT.receipt, `the receipt is NOT valid: ${WHY[check.reason]} (${check.reason})`);
    if (args.json !== true)
      print(`the receipt is valid\njob        ${untrusted(job_id)}\nworker     ${untrusted(provider_pubkey)}\ncompleted  ${untrusted(completed_at)}`);
  },
});

type Subject = { receipt: Receipt; result: unknown };

async function subject(args: { receipt?: string | undefined; result?: string | undefined; job?: string | undefined }): Promise<Subject> {
  if ((args.result === undefined) === (args.job === undefined))
    throw new CliError(EXIT.usage, `give the result of the receipt: --result RESULT.json or --job JOB.json; see: ${ownCommand("verify --help")}`);
  if (args.job === undefined) {
    if (args.receipt === undefined) throw new CliError(EXIT.usage, `the receipt is missing: ${ownCommand("verify RECEIPT.json --result RESULT.json")}`);
    return { receipt: readReceipt(await readJsonFile(args.receipt), args.receipt), result: await readJsonFile(args.result ?? "-") };
  }
  const job = await readJsonFile(args.job);
  const name = args.job === "-" ? "standard input" : args.job;
  if (!isJsonObject(job)) throw new CliError(EXIT.usage, `${name} is not a job`);
  if (job["result"] === null || job["result"] === undefined) throw new CliError(EXIT.usage, `the job in ${name} has no result (not yet, or no longer)`);
  const receipt = args.receipt === undefined ? readReceipt(job["receipt"], name) : readReceipt(await readJsonFile(args.receipt), args.receipt);
  // A genuine receipt of another job would be valid for an equal result, so the ids are compared.
  // The coordinator names the member `id`, and `run --json` names it `job_id`.
  const id = job["id"] ?? job["job_id"];
  if (id !== receipt.job_id) throw new CliError(EXIT.receipt, `the receipt is NOT valid: it belongs to job ${receipt.job_id}, this is job ${String(id)}`);
  return { receipt, result: job["result"] };
}

function readReceipt(value: unknown, file: string): Receipt {
  const receipt = Receipt.safeParse(value);
  if (!receipt.success)
    throw new CliError(EXIT.usage, `${file} has no receipt: job_id, provider_pubkey, output_hash, completed_at, payment_ref and signature are needed`);
  return receipt.data;
}
