import { Receipt } from "../../protocol/receipt.ts";
import { isJsonObject } from "../../protocol/text.ts";
import { type ReceiptCheck, verifyReceipt } from "../../receipt/verify.ts";
import { CliError } from "../cli-error.ts";
import { command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { readJsonFile } from "../json-file.ts";
import { print } from "../print.ts";

const WHY: Record<Extract<ReceiptCheck, { ok: false }>["reason"], string> = {
  invalid_key: "its provider_pubkey is no ed25519 key that a worker may have",
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
    job: { type: "string", valueHint: "file", description: "The whole job as `GET /v1/jobs/{id}` answers; `-` reads standard input" },
    json: { type: "boolean", description: "Print JSON" },
  },
  run: (args) => {
    const { receipt, result } = subject(args);
    const check = verifyReceipt(receipt, result);
    const { provider_pubkey, job_id, completed_at } = receipt;
    if (args.json === true) print(JSON.stringify({ valid: check.ok, ...(!check.ok && { reason: check.reason }), job_id, provider_pubkey, completed_at }));
    if (!check.ok) throw new CliError(EXIT.receipt, `the receipt does NOT hold: ${WHY[check.reason]} (${check.reason})`);
    if (args.json !== true) print(`the receipt holds\njob        ${job_id}\nworker     ${provider_pubkey}\ncompleted  ${completed_at}`);
  },
});

type Subject = { receipt: Receipt; result: unknown };

function subject(args: { receipt?: string | undefined; result?: string | undefined; job?: string | undefined }): Subject {
  if ((args.result === undefined) === (args.job === undefined))
    throw new CliError(EXIT.usage, "say what the receipt is for: --result RESULT.json or --job JOB.json");
  if (args.job === undefined) {
    if (args.receipt === undefined) throw new CliError(EXIT.usage, "which receipt? compute-router verify RECEIPT.json --result RESULT.json");
    return { receipt: readReceipt(readJsonFile(args.receipt), args.receipt), result: readJsonFile(args.result ?? "-") };
  }
  const job = readJsonFile(args.job);
  if (!isJsonObject(job)) throw new CliError(EXIT.usage, `${args.job} is no job`);
  if (job["result"] === null || job["result"] === undefined) throw new CliError(EXIT.usage, `the job in ${args.job} has no result (yet, or no longer)`);
  const receipt = args.receipt === undefined ? readReceipt(job["receipt"], args.job) : readReceipt(readJsonFile(args.receipt), args.receipt);
  // A true receipt of another job would hold for an equal result.
  if (job["id"] !== receipt.job_id)
    throw new CliError(EXIT.receipt, `the receipt does NOT hold: it is for job ${receipt.job_id}, this is job ${String(job["id"])}`);
  return { receipt, result: job["result"] };
}

function readReceipt(value: unknown, file: string): Receipt {
  const receipt = Receipt.safeParse(value);
  if (!receipt.success)
    throw new CliError(EXIT.usage, `${file} holds no receipt: job_id, provider_pubkey, output_hash, completed_at, payment_ref and signature are needed`);
  return receipt.data;
}
