// `compute-router verify`: checks a receipt against the result of its job, offline. The result can be a saved stream of OpenAI's API too [API9].
import { createParser } from "eventsource-parser";
import { Receipt } from "../../protocol/job.ts";
import { isJsonObject, parseJson } from "../../protocol/json.ts";
import { untrusted } from "../../protocol/text.ts";
import { type ReceiptCheck, verifyReceipt } from "../../receipt/receipt.ts";
import { ownCommand } from "../../worker/node/program.ts";
import { CliError, command, EXIT, print, printJson } from "../command.ts";
import { nameOf, readJsonFile } from "../input.ts";

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
      description:
        "The whole job, as `run --json`, `task --json` and `job --json` print it, the answer of a commit with `Prefer: wait`, or an answer of /v1/chat/completions or /v1/completions, streamed or not; `-` reads standard input",
    },
    json: { type: "boolean", description: "Print JSON" },
  },
  run: async (args) => {
    const { receipt, results } = await subject(args);
    const checks = results.map((result) => verifyReceipt(receipt, result));
    const check = checks.find(({ ok }) => ok) ?? checks[0] ?? { ok: false, reason: "hash_mismatch" };
    const { provider_pubkey, job_id, completed_at } = receipt;
    if (args.json === true) printJson({ valid: check.ok, ...(!check.ok && { reason: check.reason }), job_id, provider_pubkey, completed_at });
    if (!check.ok) throw new CliError(EXIT.receipt, `the receipt is NOT valid: ${WHY[check.reason]} (${check.reason})`);
    if (args.json !== true)
      print(`the receipt is valid\njob        ${untrusted(job_id)}\nworker     ${untrusted(provider_pubkey)}\ncompleted  ${untrusted(completed_at)}`);
  },
});

/** A receipt, and the results of which one must be that of the receipt. */
type Subject = { receipt: Receipt; results: readonly unknown[] };

async function subject(args: { receipt?: string | undefined; result?: string | undefined; job?: string | undefined }): Promise<Subject> {
  if ((args.result === undefined) === (args.job === undefined))
    throw new CliError(EXIT.usage, `give the result of the receipt: --result RESULT.json or --job JOB.json; see: ${ownCommand("verify --help")}`);
  if (args.job === undefined) {
    if (args.receipt === undefined) throw new CliError(EXIT.usage, `the receipt is missing: ${ownCommand("verify RECEIPT.json --result RESULT.json")}`);
    return { receipt: readReceipt(await readJsonFile(args.receipt), args.receipt), results: [await readJsonFile(args.result ?? "-")] };
  }
  const name = nameOf(args.job);
  const saved = await readJsonFile(args.job, chunksOf);
  const answer = Array.isArray(saved) ? joined(saved, name) : saved;
  // The 201 of a commit with `Prefer: wait` has the job beside its id.
  const job = isJsonObject(answer) && isJsonObject(answer["job"]) ? answer["job"] : answer;
  if (!isJsonObject(job)) throw new CliError(EXIT.usage, `${name} is not a job`);
  if (isJsonObject(job["compute_router"])) return openAiSubject(job, job["compute_router"], name);
  const { error } = job;
  if (job["result"] === undefined && error !== undefined)
    throw new CliError(EXIT.usage, `${name} is not a job, but an error: ${untrusted(String(isJsonObject(error) ? error["message"] : error))}`);
  if (job["result"] === undefined) throw new CliError(EXIT.usage, `${name} is not a job, nor an answer of /v1/chat/completions or /v1/completions`);
  if (job["result"] === null) throw new CliError(EXIT.usage, `the job in ${name} has no result (not yet, or no longer)`);
  if (args.receipt === undefined && job["receipt"] === null) throw unsigned(job);
  const receipt = args.receipt === undefined ? readReceipt(job["receipt"], name) : readReceipt(await readJsonFile(args.receipt), args.receipt);
  // The coordinator names the member `id`, and `run --json` names it `job_id`.
  return { receipt: ofJob(receipt, job["id"] ?? job["job_id"]), results: [job["result"]] };
}

/** The error for a job that has no receipt: it has failed, or its worker has signed nothing. */
function unsigned({ status, result }: Record<string, unknown>): CliError {
  const cause = isJsonObject(result) ? untrusted(String(result["error"])) : "unknown";
  return new CliError(EXIT.receipt, `${status === "failed" ? `the job failed (${cause})` : "no worker has signed this result"}: it has no receipt`);
}

/** A genuine receipt of another job would be valid for an equal result, so the ids are compared. */
function ofJob(receipt: Receipt, id: unknown): Receipt {
  if (id !== receipt.job_id) throw new CliError(EXIT.receipt, `the receipt is NOT valid: it belongs to job ${receipt.job_id}, this is job ${String(id)}`);
  return receipt;
}

/**
 * The subject of an answer of OpenAI's API. It has the parts of the result in other places, so the result is built again, in each form that has these parts
 * [JB7]: a worker says its usage and its model, or does not. A result with more members cannot be built again.
 */
function openAiSubject(answer: Record<string, unknown>, { job_id, receipt }: Record<string, unknown>, name: string): Subject {
  if (receipt === null) throw unsigned(answer);
  const [choice] = Array.isArray(answer["choices"]) ? answer["choices"] : [];
  const { message, text, finish_reason } = isJsonObject(choice) ? choice : {};
  const output = isJsonObject(message) ? message["content"] : text;
  if (typeof output !== "string") throw new CliError(EXIT.usage, `${name} has no text; save the job: ${ownCommand(`job ${untrusted(String(job_id))} --json`)}`);
  const { prompt_tokens, completion_tokens } = isJsonObject(answer["usage"]) ? answer["usage"] : {};
  const withModel = { finish_reason, model: answer["model"], output };
  const forms = [{ ...withModel, usage: { completion_tokens, prompt_tokens } }, withModel, { finish_reason, output }, { output }];
  // A result that has no text came as its JSON.
  const whole = parseJson(output);
  return { receipt: ofJob(readReceipt(receipt, name), job_id), results: [...forms, ...(whole === undefined ? [] : [whole])] };
}

function readReceipt(value: unknown, file: string): Receipt {
  const receipt = Receipt.safeParse(value);
  if (!receipt.success)
    throw new CliError(EXIT.usage, `${file} has no receipt: job_id, provider_pubkey, output_hash, completed_at, payment_ref and signature are needed`);
  return receipt.data;
}

/** The chunks in the text of server-sent events; undefined if it has none. `curl -N` saves a stream like this. */
function chunksOf(text: string): unknown[] | undefined {
  const chunks: unknown[] = [];
  const parser = createParser({
    onEvent: ({ data }) => {
      const chunk = parseJson(data);
      if (isJsonObject(chunk)) chunks.push(chunk);
    },
  });
  // An editor may have removed the empty line that ends the last event.
  parser.feed(`${text}\n\n`);
  return chunks.length === 0 ? undefined : chunks;
}

/**
 * The chunks joined to a whole answer. `name` is what they were read from.
 * @throws {CliError} if the stream did not end well
 */
function joined(chunks: readonly unknown[], name: string): Record<string, unknown> {
  let text = "";
  let finish_reason: unknown;
  let id: unknown;
  let answer: Record<string, unknown> = {};
  for (const chunk of chunks.filter(isJsonObject)) {
    const { error } = chunk;
    if (isJsonObject(error))
      throw new CliError(EXIT.usage, `the stream in ${name} ended with an error (${untrusted(String(error["code"]))}), so it has no receipt${otherwise(id)}`);
    ({ id } = chunk);
    answer = { ...answer, ...chunk };
    const [choice] = Array.isArray(chunk["choices"]) ? chunk["choices"] : [];
    if (!isJsonObject(choice)) continue;
    const piece = isJsonObject(choice["delta"]) ? choice["delta"]["content"] : choice["text"];
    if (typeof piece === "string") text += piece;
    finish_reason = choice["finish_reason"] ?? finish_reason;
  }
  const { compute_router } = answer;
  if (!isJsonObject(compute_router)) throw new CliError(EXIT.usage, `the stream in ${name} has no receipt: its last chunk is missing${otherwise(id)}`);
  // Without `include_usage` the usage of the result comes with the receipt.
  return { ...answer, choices: [{ text, finish_reason }], usage: answer["usage"] ?? compute_router["usage"] };
}

/** What to save instead, for the id of an answer. */
function otherwise(id: unknown): string {
  const [, job] = /^(?:chatcmpl|cmpl)-([0-9a-f-]{36})$/.exec(String(id)) ?? [];
  return job === undefined ? "" : `; save the job: ${ownCommand(`job ${job} --json`)}`;
}
