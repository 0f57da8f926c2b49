// The endpoints of OpenAI's API, in front of the same jobs [API9]. On a job's way: a request becomes a commit, and the job's end becomes the answer.
import { hash } from "node:crypto";
import { createParser } from "eventsource-parser";
import type { MiddlewareHandler } from "hono";
import { parseCommit } from "../../protocol/job.ts";
import { isJsonObject, isShallowJson, readJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { OPENAI_ENDPOINTS } from "../../protocol/pricing.ts";
import type { Result } from "../../protocol/result.ts";
import { isTerminal, shortJobId } from "../../protocol/text.ts";
import { SECOND, TIMING } from "../../protocol/times.ts";
import { type AppContext, type AppEnv, refuse, refuseWith } from "../http/context.ts";
import { askHub } from "../http/hub-client.ts";
import { clientOf, readJsonBody, refuseBody } from "../http/request.ts";
import { errorFacts, logError } from "../log.ts";
import { STREAM_HEADERS } from "../stream/reader.ts";
import { TUNING } from "../tuning.ts";
import { accept, idempotencyKey, payloadForWorker, type ValidCommit } from "./commit.ts";
import { setSettlement } from "./commit-answers.ts";
import { eventsOf, findJobText } from "./job.ts";
import {
  answerOf,
  chunkOf,
  type Ended,
  explained,
  failureOf,
  type Head,
  inWordsOfOpenAi,
  lastChunks,
  openAiError,
  paramOf,
  textOf,
  type OpenAiApi,
  readOpenAi,
} from "./openai-format.ts";

/** The job is there, but the hub does not answer. */
const UNREAD = "the outcome of the job could not be read; ask for it at /v1/jobs/<x-job-id>";

/** What an OpenAI client must have in the body. */
const REQUIRED = { chat: "Required: messages", completions: "Required: prompt" } as const satisfies Record<OpenAiApi, string>;

const PRESENT_IN_WORDS = "POST /v1/chat/completions, POST /v1/completions and GET /v1/models";

/** What is here of OpenAI's API. */
const PRESENT: readonly string[] = [...Object.values(OPENAI_ENDPOINTS), "/v1/models"];

/** What OpenAI's clients may ask for that is not here, as the second part of a path, and what is said about it. */
const ABSENT: Readonly<Record<string, string>> = {
  responses: "there is no Responses API here; use POST /v1/chat/completions",
  ...Object.fromEntries(
    [
      ...["assistants", "audio", "batches", "chat", "completions", "containers", "conversations", "embeddings", "evals", "files", "fine_tuning"],
      ...["images", "moderations", "realtime", "threads", "uploads", "vector_stores", "videos"],
    ].map((name) => [name, `this endpoint of OpenAI's API is not here; this API has ${PRESENT_IN_WORDS}`]),
  ),
};

/**
 * The 404 of an endpoint of OpenAI's API that is missing here; null for any other request. It has the form of OpenAI's
 * errors, because OpenAI's clients would not show the message of another form.
 */
export function absent(c: AppContext): Response | null {
  const { path } = c.req;
  const plain = path.replace(/\/+$/, "");
  const [, name = ""] = /^\/v1\/([^/]+)/.exec(path) ?? [];
  const known = Object.hasOwn(ABSENT, name) ? ABSENT[name] : undefined;
  const message = PRESENT.includes(plain) ? `there is no slash at the end of ${plain}` : known;
  return message === undefined ? null : c.json({ error: openAiError(404, "not_found", message).error }, 404);
}

/** Gives every refusal the form of OpenAI's errors. A 402 keeps the form of x402, which its payers read. */
export const openAiErrors: MiddlewareHandler<AppEnv> = async (c, next) => {
  await next();
  const { status, headers } = c.res;
  if (status < 400 || status === 402 || headers.get("x-job-id") !== null) return;
  const json = readJson(await c.res.text());
  const { error, message, models } = json.ok && isJsonObject(json.value) ? json.value : {};
  const said = typeof error === "string" ? error : "internal_error";
  // Our error codes are single words; a description of what is wrong with a request is a sentence.
  const code = /^\w+$/.test(said) ? said : "invalid_request";
  const online = Array.isArray(models) ? `; models online: ${models.join(", ") || "none"}` : "";
  const words = typeof message === "string" ? message : `${explained(said)}${online}`;
  const body = { error: openAiError(status, code, words, status < 500 ? paramOf(said) : null).error };
  // The payment was submitted, so its money may move for a job.
  const sent = new Headers({ ...Object.fromEntries(headers), ...(c.get("hasPaid") === true && NO_RETRY) });
  sent.delete("Content-Length");
  sent.set("Content-Type", "application/json");
  c.res = new Response(JSON.stringify(body), { status, headers: sent });
};

/** Without this OpenAI's clients would automatically buy the same job again, up to three times in all. */
const NO_RETRY = { "x-should-retry": "false" };

/** `POST /v1/chat/completions` and `POST /v1/completions`: FAST jobs with FAST's price, waited for. */
export const complete =
  (api: OpenAiApi) =>
  async (c: AppContext): Promise<Response> => {
    const body = await readJsonBody(c.req.raw);
    if (!body.ok) return refuseBody(c, body.reason, REQUIRED[api]);
    const read = readOpenAi(api, body.value.json);
    if (!read.ok) return refuseWith(c, 400, read.reason);
    const { payload, user, model, stream, includeUsage } = read.value;
    const parsed = parseCommit({ job_type: "LLM_INFER", user_id: user ?? userOf(c), payload });
    if (!parsed.ok) return parsed.reason === "too_large" ? refuse(c, "payload_too_large") : refuseWith(c, 400, inWordsOfOpenAi(parsed.error, body.value.json));
    const { commit: request } = parsed;
    // A user that the coordinator made is no part of what a payment is bound to, because the request did not name it.
    const bound = () => ({ request: user === null ? { ...request, user_id: clientSecret(c) } : request, payload: { ...payload, api } });
    const forWorker = payloadForWorker(request, payload, JSON.stringify({ payload }));
    // The whole body is the payload here, and the worker's frame has one level more, which counts in its limit too [WS8].
    if (!isShallowJson(forWorker, LIMITS.jsonDepth - 1)) return refuseWith(c, 400, `Body nests deeper than ${LIMITS.jsonDepth - 1} levels`);
    const accepting = accepted(c, { policy: "FAST", request, payload: forWorker, bound, wait: 0 });
    // This goes on if the client leaves: its payment may be settling, and its job can be cancelled only once it exists
    // [PY7].
    c.executionCtx.waitUntil(accepting.catch(() => {}));
    const job = await accepting;
    if (!job.ok) return job.reason;
    const { jobId, headers, leave } = job.value;
    const head: Head = { api, jobId, model, created: Math.floor(Date.now() / 1_000) };
    // Nobody reads the stream of a client that has left.
    return stream && !c.req.raw.signal.aborted ? streamed(c, head, headers, includeUsage, leave) : await waited(c, head, headers, leave);
  };

/** A job that was accepted: its id, the headers of its answer, and what to do when its client leaves. */
type Accepted = { jobId: string; headers: Record<string, string>; leave: () => void };

/** Commits a job, and cancels it if its client has left meanwhile. Without a job the reason is the answer. */
async function accepted(c: AppContext, commit: ValidCommit): Promise<Result<Accepted, Response>> {
  const job = await accept(c, commit);
  if (!job.ok) return job;
  const { jobId, cancelToken } = job.value;
  if (cancelToken !== undefined) c.header("X-Cancel-Token", cancelToken);
  const leave = () => {
    // The client of an answer that was replaced is still there.
    if (cancelToken === undefined || c.get("isReplaced") === true) return;
    // Not a second time: if the first call has arrived, it has counted this client out, and another one that waits for the same job would lose it.
    const cancelled = askHub(c.env, async (hub, again) => (again ? null : await hub.cancel(jobId, cancelToken, true)));
    c.executionCtx.waitUntil(cancelled.catch((error: unknown) => logError("job_not_cancelled", { job: shortJobId(jobId), ...errorFacts(error) })));
  };
  if (c.req.raw.signal.aborted) leave();
  return { ok: true, value: { jobId, headers: { "x-job-id": jobId, ...NO_RETRY }, leave } };
}

/**
 * The user of a request that names none: the same for requests with the same client and idempotency key, otherwise a new one. Nothing of it comes from the
 * payment, whose facts the chain shows to everyone; the ledger knows a repeated payment without a user [PY6].
 */
function userOf(c: AppContext): string {
  const key = idempotencyKey(c);
  const source = key === null ? crypto.randomUUID() : `${clientOf(c.req.raw, c.get("settings"))}\n${key}`;
  return `openai-${hash("sha256", source)}`;
}

/**
 * What a payment without a user is bound to in its place: the API key that OpenAI's clients send with each request, hashed; empty without one. The chain shows
 * a settled payment to everyone, and its worker knows the body, so nothing else of the request is known to its payer alone [PY6].
 */
function clientSecret(c: AppContext): string {
  const header = c.req.header("Authorization") ?? "";
  return header === "" ? "" : hash("sha256", header);
}

async function waited(c: AppContext, head: Head, headers: Accepted["headers"], leave: () => void): Promise<Response> {
  const { signal } = c.req.raw;
  signal.addEventListener("abort", leave, { once: true });
  const ended = await endOf(c, head.jobId, signal);
  signal.removeEventListener("abort", leave);
  if (!c.get("settings").testnetMode) await tellMoney(c, head.jobId);
  const failure = ended === null ? openAiError(503, "overloaded", UNREAD) : failureOf(ended);
  if (ended !== null && failure === null) return c.json(answerOf(head, ended), 200, headers);
  return c.json({ error: failure?.error }, failure?.status ?? 503, headers);
}

/** Says what became of the payment by now: it may be settled since the commit, and a credit since the job has failed [PY4, PY9]. */
async function tellMoney(c: AppContext, jobId: string): Promise<void> {
  setSettlement(c, await askHub(c.env, (hub) => hub.settlement(jobId)).catch(unread(c, jobId)));
}

async function endOf(c: AppContext, jobId: string, signal: AbortSignal): Promise<Ended | null> {
  for await (const event of followed(c, jobId, signal)) if (event.kind === "end") return event.ended;
  return null;
}

function streamed(c: AppContext, head: Head, headers: Accepted["headers"], includeUsage: boolean, leave: () => void): Response {
  const left = new AbortController();
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  // This rejects when the client has left, even if nothing is written.
  writer.closed.catch(() => {
    left.abort();
    leave();
  });
  // A stream that nobody ends stays open for its client. After a client that has left there is nothing to abort.
  c.executionCtx.waitUntil(send(lines(c, head, includeUsage, left.signal), writer).catch((error: unknown) => writer.abort(error)));
  return c.body(readable, 200, { ...headers, ...STREAM_HEADERS });
}

async function send(texts: AsyncIterable<string>, writer: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
  const encoder = new TextEncoder();
  for await (const text of texts) await writer.write(encoder.encode(text));
  await writer.close();
}

/** The lines of a streamed answer: its text as it comes, then how it ended. */
async function* lines(c: AppContext, head: Head, includeUsage: boolean, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
  const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
  let sent = "";
  let isFirst = true;
  let isLost = false;
  let nextSeq = 0;
  const chunk = (text: string) => {
    const line = data(chunkOf(head, text, isFirst));
    isFirst = false;
    sent += text;
    return line;
  };
  for await (const event of followed(c, head.jobId, signal)) {
    switch (event.kind) {
      case "comment":
        yield ":\n\n";
        break;
      case "reset":
        // The text begins again with another worker. What was sent cannot be taken back.
        isLost ||= sent !== "";
        nextSeq = 0;
        break;
      case "delta":
        // The hub has lost the beginning of the text: only the result has all of it.
        isLost ||= event.seq !== nextSeq;
        nextSeq = event.seq + 1;
        if (!isLost) yield chunk(event.text);
        break;
      case "end": {
        const failure = failureOf(event.ended);
        const text = failure === null ? textOf(event.ended) : "";
        if (failure !== null) yield data({ error: failure.error });
        else if (!text.startsWith(sent)) {
          const message = `the final text differs from the text that was streamed; the final text is at /v1/jobs/${head.jobId}`;
          yield data({ error: openAiError(503, "stream_reset", message).error });
        } else {
          if (text.length > sent.length || isFirst) yield chunk(text.slice(sent.length));
          for (const last of lastChunks(head, event.ended, includeUsage)) yield data(last);
        }
        yield "data: [DONE]\n\n";
        return;
      }
      default:
        event satisfies never;
    }
  }
  yield data({ error: openAiError(503, "overloaded", UNREAD).error });
  yield "data: [DONE]\n\n";
}

/** What happens to a job, until it has ended. */
type Followed = { kind: "delta"; seq: number; text: string } | { kind: "reset" } | { kind: "comment" } | { kind: "end"; ended: Ended };

/** Follows a job to its end by its event stream; without a place for one more stream, by waiting. It ends without an `end` if the job cannot be read. */
async function* followed(c: AppContext, jobId: string, signal: AbortSignal): AsyncGenerator<Followed, void, undefined> {
  let attempt = 0;
  const response = await eventsOf(c, jobId, undefined).catch(unread(c, jobId));
  if (response?.ok === true && response.body !== null) {
    const events: Followed[] = [];
    const parser = createParser({
      onComment: () => events.push({ kind: "comment" }),
      onEvent: ({ event, data }) => {
        const value = readJson(data);
        if (!value.ok || !isJsonObject(value.value)) return;
        if (event === "status") attempt = Number(value.value.attempt);
        else if (event === "delta") events.push({ kind: "delta", seq: Number(value.value.seq), text: String(value.value.delta) });
        else if (event === "reset") events.push({ kind: "reset" });
        else if (event === "done") events.push({ kind: "end", ended: { job: value.value, attempt } });
      },
    });
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    const stop = () => void reader.cancel();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    for (let part = await next(reader); part !== null; part = await next(reader)) {
      parser.feed(decoder.decode(part, { stream: true }));
      for (const event of events.splice(0)) {
        yield event;
        if (event.kind === "end") return;
      }
    }
  }
  for (let asked = Date.now(), readAt = asked; !signal.aborted; asked = Date.now()) {
    const job = await jobAfterWait(c, jobId);
    if (job !== null) {
      if (isTerminal(String(job.status))) return yield { kind: "end", ended: { job, ...(attempt > 0 && { attempt }) } };
      readAt = Date.now();
    } else if (asked - readAt >= TUNING.jobUnread) return;
    yield { kind: "comment" };
    // A hub without a place for one more wait answers at once, and one that cannot be reached does not wait either.
    const early = Math.min(TUNING.jobPollPause, asked + TUNING.jobPollPause - Date.now());
    if (early > 0) await scheduler.wait(early, { signal }).catch(() => {});
  }
}

/** A job after a wait for its end; null if it cannot be read. */
async function jobAfterWait(c: AppContext, jobId: string): Promise<Record<string, unknown> | null> {
  const found = await findJobText(c, jobId, TIMING.streamComment / SECOND).catch(unread(c, jobId));
  const job = found === null || found.text === null ? null : readJson(found.text);
  return job !== null && job.ok && isJsonObject(job.value) ? job.value : null;
}

/** Logs why a job cannot be read. The client has its id already, so an answer without the end says where it will be. */
const unread =
  (c: AppContext, jobId: string) =>
  (error: unknown): null => {
    logError("job_unread", { request_id: c.get("requestId"), job: shortJobId(jobId), ...errorFacts(error) });
    return null;
  };

/** The next part of a stream; null at its end, and if it is cut: the job is then waited for. */
async function next(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | null> {
  return await reader.read().then(
    ({ value = null }) => value,
    () => null,
  );
}
