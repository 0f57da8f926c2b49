// What a job is in OpenAI's API: the request that becomes its commit, its answer, the chunks of a stream, its error [API9]. The first and last step of such a
// job.
import type * as z from "zod";
import { ChatCompletionRequest, type ChatMessage, CompletionRequest, UNSUPPORTED_MEMBERS } from "../../protocol/chat.ts";
import { describeIssues } from "../../protocol/issues.ts";
import { REQUIRED_FIELDS } from "../../protocol/job.ts";
import { isJsonObject } from "../../protocol/json.ts";
import { KiB, LIMITS } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/result.ts";

/** Which endpoint of OpenAI's API a request came to. */
export type OpenAiApi = "chat" | "completions";

/** A request of OpenAI's API, read. `payload` is that of the LLM_INFER; `user` is null if the request names none. */
type OpenAiRequest = { payload: Record<string, unknown>; user: string | null; model: string; stream: boolean; includeUsage: boolean };

/** The members that are read here and do not go to the worker, and those of our own commit, whose names it must not see [WS8]. */
const READ = [...UNSUPPORTED_MEMBERS, "privacy_class", "user_id", "user", "stream", "stream_options", "max_completion_tokens", "store", "messages", "prompt"];

/** Reads a request. An error is a sentence that names the wrong member. */
export function readOpenAi(api: OpenAiApi, body: unknown): Result<OpenAiRequest, string> {
  if (!isJsonObject(body)) return { ok: false, reason: "the body must be a JSON object" };
  // If this member were ignored, any worker could get a prompt that was meant only for paired workers.
  if (body.privacy_class != null && body.privacy_class !== "PUBLIC")
    return { ok: false, reason: "privacy_class must be PUBLIC here: commit a PRIVATE job to /v1/jobs/commit/fast" };
  const parsed = api === "chat" ? readChatRequest(body) : readCompletionRequest(body);
  if (!parsed.ok) return { ok: false, reason: describeIssues(parsed.reason, body) };
  const { request, text } = parsed.value;
  const { user, model, stream, stream_options, max_tokens, max_completion_tokens } = request;
  const others = Object.entries(body).filter(([name, value]) => !READ.includes(name) && value !== null);
  const limit = max_completion_tokens ?? max_tokens;
  const payload = { ...Object.fromEntries(others), job_type: "LLM_INFER", ...text, ...(typeof limit === "number" && { max_tokens: limit }) };
  const includeUsage = stream_options?.include_usage === true;
  return { ok: true, value: { payload, user: user ?? null, model: model ?? "auto", stream: stream === true, includeUsage } };
}

/** Rewrites an error about a commit with the names of the members that the OpenAI request `body` has. */
export function inWordsOfOpenAi(error: string, body: unknown): string {
  const limit = isJsonObject(body) && body.max_completion_tokens != null ? "max_completion_tokens" : "max_tokens";
  return error
    .replace(`. ${REQUIRED_FIELDS}`, "")
    .replaceAll(/(?<=^|; )payload\./g, "")
    .replace(/(?<=^|; )max_tokens/, limit)
    .replace(/(?<=^|; )user_id/, "user");
}

/** A checked request, and its text in the form of an LLM_INFER payload. The member that the other endpoint has for its text is ignored. */
type Checked = Result<{ request: ChatCompletionRequest | CompletionRequest; text: { messages: ChatMessage[] } | { prompt: string } }, z.ZodError>;

function readChatRequest(body: unknown): Checked {
  const { data: request, error } = ChatCompletionRequest.safeParse(body);
  return request === undefined ? { ok: false, reason: error } : { ok: true, value: { request, text: { messages: request.messages.map(messageOf) } } };
}

function readCompletionRequest(body: unknown): Checked {
  const { data: request, error } = CompletionRequest.safeParse(body);
  return request === undefined ? { ok: false, reason: error } : { ok: true, value: { request, text: { prompt: [request.prompt].flat().join("") } } };
}

/** A message in the form of an LLM_INFER payload: texts of several parts are joined, and a developer is the system [JB12]. */
function messageOf({ role, content }: ChatCompletionRequest["messages"][number]): ChatMessage {
  const text = typeof content === "string" ? content : content.map((part) => part.text).join("");
  return { role: role === "developer" ? "system" : role, content: text };
}

/** A job that has ended, as the answer needs it. `job` is the Job as REST shows it; `attempt` is left out if no event told it. */
export type Ended = { job: Record<string, unknown>; attempt?: number };

/** The facts of an answer that are known before its job ends. `created` is in seconds since the epoch. */
export type Head = { api: OpenAiApi; jobId: string; model: string; created: number };

/** An error of OpenAI's API, with its status. */
export type OpenAiError<Status extends number> = { status: Status; error: { message: string; type: string; param: string | null; code: string } };

/**
 * The HTTP status of each cause of a failed job; every other is 503. So is `payment_failed`: a 402 asks for a payment, and the money of this one may have moved
 * [PY8].
 */
const STATUS: Readonly<Record<string, 400 | 504>> = {
  context_length_exceeded: 400,
  content_refused: 400,
  execution_timeout: 504,
  deadline_exceeded: 504,
};

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  404: "invalid_request_error",
  429: "rate_limit_error",
};

/** An error of a status. `code` is the coordinator's own name of it; `param` is the member that it is about. */
export function openAiError<Status extends number>(status: Status, code: string, message: string, param: string | null = null): OpenAiError<Status> {
  return { status, error: { message, type: TYPES[status] ?? (status >= 500 ? "server_error" : "invalid_request_error"), param, code } };
}

/** The member that a refusal is about, the first one if there are several; null if it is about none. Each sentence about a member begins with its name. */
export function paramOf(refusal: string): string | null {
  if (refusal === "no_such_model") return "model";
  const [, name = "body"] = /^([a-z]\w*(?:\.\w+|\[\d+\])*) (?:must |make |is missing: )/.exec(refusal) ?? [];
  return name === "body" || name === "payload" ? null : name;
}

/** What a person must know about an error beyond its code. */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  payload_too_large: `the texts of a request may have ${LIMITS.textBytes / KiB} KiB in all, and its body ${LIMITS.bodyBytes / KiB} KiB`,
  idempotency_key_reused: "another request was sent with this Idempotency-Key; use another key",
  no_such_model: 'no connected worker offers this model; with "auto" any may answer',
  no_eligible_worker: "no worker that may take it was free in time",
  queue_full: "too many jobs are waiting; try again later",
};

/** An error code, with what a person must know about it. */
export function explained(code: string): string {
  const explanation = EXPLANATIONS[code];
  return explanation === undefined ? code : `${code}: ${explanation}`;
}

/**
 * The reader of this message has often only repeated a request whose first client had left. Its key names the cancelled
 * job for 24 h [API5, API9].
 */
const CANCELLED =
  ", because its client closed the request before a worker had started it, or by its cancel token. Send the request again; if it had an Idempotency-Key, use another one";

/** The error of a job that failed, or whose result the retention has deleted [LM3]; null if there is a result. */
export function failureOf({ job }: Ended): OpenAiError<400 | 404 | 503 | 504> | null {
  if (job.status === "completed")
    return job.result === null ? openAiError(404, "result_deleted", `the result is no longer stored; its receipt is at /v1/jobs/${String(job.id)}`) : null;
  const { error, message } = isJsonObject(job.result) ? job.result : {};
  const code = typeof error === "string" ? error : "worker_error";
  const more = code === "cancelled" ? CANCELLED : typeof message === "string" ? ` (the worker said: ${message})` : "";
  return openAiError(STATUS[code] ?? 503, code, `the job failed: ${explained(code)}${more}`);
}

/** The text of a completed job, in `output` or `text` [RC6]. A result of another form is its JSON text, so that nothing is lost. */
export function textOf({ job }: Ended): string {
  const { output, text } = isJsonObject(job.result) ? job.result : {};
  const said = output === undefined ? text : output;
  return typeof said === "string" ? said : JSON.stringify(job.result);
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
  return { job_id: jobId, receipt: job.receipt ?? null, ...(attempt !== undefined && { attempt }) };
}
