// What a job is in OpenAI's API: its answer, the chunks of a stream, its error [API9]. The last step of such a job.
import { isJsonObject } from "../../protocol/text.ts";
import type { OpenAiApi } from "./openai-request.ts";

/** A job that has ended, as the answer needs it. `json` is the Job as REST shows it. */
export type Ended = { job: Record<string, unknown>; attempt: number };

/** The facts of an answer that are known before its job ends. `created` is in seconds since the epoch. */
export type Head = { api: OpenAiApi; jobId: string; model: string; created: number };

/** An error of OpenAI's API, with its status. */
export type OpenAiError = { status: number; error: { message: string; type: string; param: null; code: string } };

/** How long-standing names of our refusals and failures map to statuses of OpenAI's API; every other cause is 503. */
const STATUS: Readonly<Record<string, number>> = {
  context_length_exceeded: 400,
  content_refused: 400,
  payment_failed: 402,
  execution_timeout: 504,
  deadline_exceeded: 504,
};

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "insufficient_quota",
  404: "invalid_request_error",
  429: "rate_limit_error",
};

/** An error of a status. `code` is the coordinator's own name of it. */
export function openAiError(status: number, code: string, message: string): OpenAiError {
  return { status, error: { message, type: TYPES[status] ?? (status >= 500 ? "server_error" : "invalid_request_error"), param: null, code } };
}

/** The error of a job that failed; null if it was completed. */
export function failureOf({ job }: Ended): OpenAiError | null {
  if (job.status === "completed") return null;
  const { error, message } = isJsonObject(job.result) ? job.result : {};
  const code = typeof error === "string" ? error : "worker_error";
  return openAiError(STATUS[code] ?? 503, code, `the job failed: ${code}${typeof message === "string" ? ` (the worker said: ${message})` : ""}`);
}

/** The text of a completed job. A result of another form is its JSON text, so that nothing is lost. */
export function textOf({ job }: Ended): string {
  const { output } = isJsonObject(job.result) ? job.result : {};
  return typeof output === "string" ? output : JSON.stringify(job.result);
}

/** The body of an answer that is not streamed. */
export function answerOf(head: Head, ended: Ended): Record<string, unknown> {
  const text = textOf(ended);
  const content = head.api === "chat" ? { message: { role: "assistant", content: text, refusal: null } } : { text };
  const choice = { index: 0, ...content, logprobs: null, finish_reason: finishReason(ended) };
  return { ...headOf(head, ended, ""), choices: [choice], usage: usageOf(ended), compute_router: receiptOf(head, ended) };
}

/** One chunk of a stream with a piece of text; the first one names the role. */
export function chunkOf(head: Head, text: string, isFirst: boolean): Record<string, unknown> {
  const content = head.api === "chat" ? { delta: { ...(isFirst && { role: "assistant" }), content: text } } : { text };
  return { ...headOf(head, null, ".chunk"), choices: [{ index: 0, ...content, logprobs: null, finish_reason: null }] };
}

/**
 * The chunks that end a stream: how the text ended, then the usage if it is wanted. The last one has the receipt. If the usage is not wanted, it is beside
 * the receipt, because the worker's signature covers it: otherwise nobody could check the receipt of a saved stream.
 */
export function lastChunks(head: Head, ended: Ended, includeUsage: boolean): Record<string, unknown>[] {
  const content = head.api === "chat" ? { delta: {} } : { text: "" };
  const start = headOf(head, ended, ".chunk");
  const end = { ...start, choices: [{ index: 0, ...content, logprobs: null, finish_reason: finishReason(ended) }] };
  const compute_router = receiptOf(head, ended);
  const usage = usageOf(ended);
  return includeUsage ? [end, { ...start, choices: [], usage, compute_router }] : [{ ...end, compute_router: { ...compute_router, usage } }];
}

function headOf({ api, jobId, model, created }: Head, ended: Ended | null, suffix: string): Record<string, unknown> {
  const { model: answered } = ended !== null && isJsonObject(ended.job.result) ? ended.job.result : {};
  const object = api === "chat" ? `chat.completion${suffix}` : "text_completion";
  return { id: `${api === "chat" ? "chatcmpl" : "cmpl"}-${jobId}`, object, created, model: typeof answered === "string" ? answered : model };
}

function finishReason({ job }: Ended): string {
  const { finish_reason } = isJsonObject(job.result) ? job.result : {};
  return finish_reason === "length" ? "length" : "stop";
}

function usageOf({ job }: Ended): Record<string, number> {
  const { usage } = isJsonObject(job.result) ? job.result : {};
  const count = (name: string) => (isJsonObject(usage) && typeof usage[name] === "number" ? usage[name] : 0);
  const [prompt_tokens, completion_tokens] = [count("prompt_tokens"), count("completion_tokens")];
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

/** What proves who did the work, as `compute-router verify` reads it. */
function receiptOf({ jobId }: Head, { job, attempt }: Ended): Record<string, unknown> {
  return { job_id: jobId, receipt: job.receipt ?? null, attempt };
}
