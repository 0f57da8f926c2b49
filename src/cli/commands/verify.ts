// `compute-router verify`: checks a receipt against the result of its job, offline. The result can be a saved stream of OpenAI's API too [API9].
import { createParser } from "eventsource-parser";
import { Receipt } from "../../protocol/job.ts";
import { isJsonObject, parseJson } from "../../protocol/json.ts";
import { untrusted } from "../../protocol/text.ts";
import { verifyText } from "../../receipt/ed25519.ts";
import { outputHash, type ReceiptCheck, receiptText, sameHash, verifyReceipt } from "../../receipt/receipt.ts";
import { ownCommand } from "../../worker/node/program.ts";
import { CliError, command, EXIT, print, printJson } from "../command.ts";
import { nameOf, readJsonFile } from "../input.ts";

const WHY: Record<Extract<ReceiptCheck, { ok: false }>["reason"], string> = {
  invalid_key: "its provider_pubkey is not a valid ed25519 key",
  hash_mismatch: "it belongs to another result",
  bad_signature: "its signature is not the worker's",
};

/** The receipt is of this job, but the worker's result cannot be built again from an answer of OpenAI's API, so nobody can say if it is that of the receipt. */
const NOT_REBUILT = "not_rebuilt";

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
    const checked = await subject(args);
    const fault = faultOf(checked);
    const { job_id = "", provider_pubkey = "", completed_at = "" } = checked.receipt ?? {};
    const facts = checked.receipt === null ? {} : { job_id, provider_pubkey, completed_at };
    const isUnknown = fault?.reason === NOT_REBUILT;
    if (args.json === true) printJson({ valid: isUnknown ? null : fault === null, ...(fault !== null && { reason: fault.reason }), ...facts });
    if (fault !== null) throw new CliError(isUnknown ? EXIT.unchecked : EXIT.receipt, fault.text);
    if (args.json !== true)
      print(`the receipt is valid\njob        ${untrusted(job_id)}\nworker     ${untrusted(provider_pubkey)}\ncompleted  ${untrusted(completed_at)}`);
  },
});

/**
 * What is checked. `result` must be that of the receipt, which is null if the job has none. `job` is the job whose receipt it must be, null if only its
 * result was given. A `rebuilt` result may be another than the worker's.
 */
type Subject = { receipt: Receipt | null; result: unknown; job: Record<string, unknown> | null; rebuilt?: boolean };

/** Why there is no valid receipt; null if there is one. */
function faultOf({ receipt, result, job, rebuilt = false }: Subject): { reason: string; text: string } | null {
  if (receipt === null) return { reason: "no_receipt", text: `${whyUnsigned(job)}: it has no receipt` };
  // A genuine receipt of another job would be valid for an equal result, so the ids are compared. The coordinator names the member `id`, `run --json` `job_id`.
  const id = job?.["id"] ?? job?.["job_id"];
  if (job !== null && id !== receipt.job_id) {
    const text = `the receipt is NOT valid: it belongs to job ${untrusted(receipt.job_id)}, this is job ${untrusted(String(id))} (job_mismatch)`;
    return { reason: "job_mismatch", text };
  }
  const check = verifyReceipt(receipt, result);
  if (check.ok) return null;
  const isDoubtful = rebuilt && check.reason === "hash_mismatch";
  if (isDoubtful && isSigned(receipt)) {
    const exact = `${ownCommand(`job ${untrusted(receipt.job_id)} --json`)} | ${ownCommand("verify --job -")}`;
    const text = `the receipt could not be checked: this answer does not show the worker's result in its exact form, or was changed; check the job itself: ${exact}`;
    return { reason: NOT_REBUILT, text: `${text} (${NOT_REBUILT})` };
  }
  const reason = isDoubtful ? "bad_signature" : check.reason;
  return { reason, text: `the receipt is NOT valid: ${WHY[reason]} (${reason})` };
}

/** True if the key of a receipt has signed it, for whatever result. */
function isSigned(receipt: Receipt): boolean {
  return verifyText(receiptText({ ...receipt, payment_ref: null }), receipt.signature, receipt.provider_pubkey.toLowerCase());
}

/** Why a job has no receipt: it has failed, or its worker has signed nothing. */
function whyUnsigned(job: Subject["job"]): string {
  if (job?.["status"] !== "failed") return "no worker has signed this result";
  return `the job failed (${isJsonObject(job["result"]) ? untrusted(String(job["result"]["error"])) : "unknown"})`;
}

async function subject(args: { receipt?: string | undefined; result?: string | undefined; job?: string | undefined }): Promise<Subject> {
  if ((args.result === undefined) === (args.job === undefined))
    throw new CliError(EXIT.usage, `give the result of the receipt: --result RESULT.json or --job JOB.json; see: ${ownCommand("verify --help")}`);
  if (args.job === undefined) {
    if (args.receipt === undefined) throw new CliError(EXIT.usage, `the receipt is missing: ${ownCommand("verify RECEIPT.json --result RESULT.json")}`);
    return { receipt: readReceipt(await readJsonFile(args.receipt), args.receipt), result: await readJsonFile(args.result ?? "-"), job: null };
  }
  const name = nameOf(args.job);
  const saved = await readJsonFile(args.job, chunksOf);
  const answer = Array.isArray(saved) ? joined(saved, name) : saved;
  // The 201 of a commit with `Prefer: wait` has the job beside its id.
  const job = isJsonObject(answer) && isJsonObject(answer["job"]) ? answer["job"] : answer;
  if (!isJsonObject(job)) throw new CliError(EXIT.usage, `${name} is not a job`);
  const given = args.receipt === undefined ? undefined : readReceipt(await readJsonFile(args.receipt), args.receipt);
  if (isJsonObject(job["compute_router"])) return openAiSubject(job, job["compute_router"], { name, given });
  const { error } = job;
  if (job["result"] === undefined && error !== undefined)
    throw new CliError(EXIT.usage, `${name} is not a job, but an error: ${untrusted(String(isJsonObject(error) ? error["message"] : error))}`);
  if (job["result"] === undefined) throw new CliError(EXIT.usage, `${name} is not a job, nor an answer of /v1/chat/completions or /v1/completions`);
  if (job["result"] === null) throw new CliError(EXIT.usage, `the job in ${name} has no result (not yet, or no longer)`);
  return { receipt: given ?? ownReceipt(job, name), result: job["result"], job };
}

/** The receipt in a job or an answer; null if its worker has signed none. */
function ownReceipt({ receipt }: Record<string, unknown>, name: string): Receipt | null {
  return receipt === null ? null : readReceipt(receipt, name);
}

/**
 * The subject of an answer of OpenAI's API. It has the parts of the result in other places, so the result is built again, in each form that has these parts
 * [JB7, RC2]. A result with more members cannot be built again: it is null.
 */
function openAiSubject(answer: Record<string, unknown>, own: Record<string, unknown>, { name, given }: { name: string; given: Receipt | undefined }): Subject {
  const job = { job_id: own["job_id"] };
  const receipt = given ?? ownReceipt(own, name);
  if (receipt === null) return { receipt, result: null, job };
  const [choice] = Array.isArray(answer["choices"]) ? answer["choices"] : [];
  const { message, text, finish_reason } = isJsonObject(choice) ? choice : {};
  const output = isJsonObject(message) ? message["content"] : text;
  if (typeof output !== "string")
    throw new CliError(EXIT.usage, `${name} has no text; save the job: ${ownCommand(`job ${untrusted(String(job.job_id))} --json`)}`);
  const outputs = [...outputsOf(output, { finish_reason, model: answer["model"], usage: answer["usage"] })];
  const result = outputs.find((one) => sameHash(receipt.output_hash, outputHash(one))) ?? null;
  return { receipt, result, job, rebuilt: true };
}

/** The outputs that a worker may have signed for an answer with this text. The receipt has the hash of the worker's own order of the members. */
function* outputsOf(text: string, { finish_reason, model, usage }: Record<"finish_reason" | "model" | "usage", unknown>): Generator {
  const { prompt_tokens, completion_tokens, total_tokens } = isJsonObject(usage) ? usage : {};
  const usages = [...ordersOf({ completion_tokens, prompt_tokens }), ...ordersOf({ completion_tokens, prompt_tokens, total_tokens })];
  // A worker says its usage, its model and its reason, or does not. The form of our own workers comes first.
  for (const output of [{ output: text }, { text }])
    for (const rest of [{ finish_reason, model }, { finish_reason }, { model }, {}])
      for (const used of [...usages.map((one) => ({ usage: one })), {}]) yield* ordersOf({ ...rest, ...output, ...used });
  yield text;
  // A result that has no text came as its JSON.
  const whole = parseJson(text);
  if (whole !== undefined) yield whole;
}

/** An object with its members in every order. */
function* ordersOf(object: Record<string, unknown>): Generator<Record<string, unknown>> {
  const members = Object.entries(object);
  if (members.length === 0) yield {};
  for (const [name, value] of members)
    for (const rest of ordersOf(Object.fromEntries(members.filter(([other]) => other !== name)))) yield { [name]: value, ...rest };
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
