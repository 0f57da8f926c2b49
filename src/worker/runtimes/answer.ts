// Reads the answers of LLM servers within bounds: event streams, bodies, errors and chat parts, without reasoning. On a job's way: the run of an LLM_INFER.
import { createParser } from "eventsource-parser";
import * as z from "zod";
import { isJsonObject, parseJson } from "../../protocol/json.ts";
import { readBytes } from "../../protocol/text.ts";
import { RuntimeError } from "./runtime.ts";

/** The limit for a body that is not streamed, and for one event of a stream. */
const MAX_BODY_BYTES = 8 * 1024 * 1024;

/**
 * The `data` of each server-sent event of a response, as it arrives. It throws RuntimeError if the connection breaks. Leaving the loop early closes the
 * connection, and that makes the runtime stop generating.
 */
export async function* eventData(response: Response): AsyncGenerator<string, void, undefined> {
  const ready: string[] = [];
  const parser = createParser({ maxBufferSize: MAX_BODY_BYTES, onEvent: (event) => ready.push(event.data), onError: refuseOverflow });
  for await (const text of decoded(response)) {
    parser.feed(text);
    yield* ready.splice(0);
  }
  // A server may omit the last blank line after a complete event. An incomplete event means that the stream was cut; it is not malformed JSON.
  parser.feed("\n\n");
  yield* ready.filter((data) => isDone(data) || parseJson(data) !== undefined);
}

/** True for the text that ends a stream. */
export function isDone(data: string): boolean {
  return data.trim() === "[DONE]";
}

/** The whole body as text. Rejects with RuntimeError if the connection breaks or the body is too long. */
export async function bodyText(response: Response): Promise<string> {
  const bytes = await readBytes(response.body, MAX_BODY_BYTES).catch(connectionBroke);
  if (bytes === null) throw new RuntimeError("output_too_large", "the answer of the runtime is too long", { retryable: false });
  return new TextDecoder().decode(bytes);
}

function connectionBroke(cause: unknown): never {
  throw new RuntimeError("runtime_error", "the connection to the runtime broke in the middle of the answer", { cause });
}

async function* decoded(response: Response): AsyncGenerator<string, void, undefined> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(connectionBroke);
      if (done) break;
      yield decoder.decode(value, { stream: true });
    }
    yield decoder.decode();
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function refuseOverflow(error: { type: string }): void {
  if (error.type === "max-buffer-size-exceeded") throw new RuntimeError("output_too_large", "the runtime sent an event that is too long", { retryable: false });
}

/** Makes the RuntimeError for an answer with an error status. It reads the body. */
export async function httpFailure(response: Response, model: string, apiKey?: string): Promise<RuntimeError> {
  const { status } = response;
  const failure = readFailure(parseJson(await bodyText(response).catch(() => "")), apiKey);
  const said = failure === undefined ? `HTTP ${status}` : `HTTP ${status}: ${failure.message}`;
  const about = `${failure?.codes ?? ""} ${failure?.message ?? ""}`;
  // Without the server's text: the seeker reads the message too, and some servers repeat a part of the key.
  if (status === 401 || status === 403) return new RuntimeError("runtime_error", `the runtime refuses the worker (HTTP ${status}): set LLM_API_KEY`);
  if (/model_not_found/.test(about) || (status === 404 && /model/i.test(about)))
    return new RuntimeError("model_missing", `the runtime has no model "${model}" (${said})`);
  // LM Studio reports this with status 500 too.
  if (failure !== undefined && isContextExceeded(failure)) return new RuntimeError("context_length_exceeded", `the prompt does not fit the context (${said})`);
  if (status === 404 || status === 405) return new RuntimeError("runtime_error", `there is no chat completion at ${new URL(response.url).pathname} (${said})`);
  if (status === 503) return new RuntimeError("runtime_error", `the runtime is loading its model or overloaded (${said})`);
  if (status === 408 || status === 429 || status >= 500) return new RuntimeError("runtime_error", `the runtime failed (${said})`);
  return new RuntimeError("runtime_error", `the runtime refuses the prompt (${said})`, { retryable: false });
}

/** The content of one chunk of a stream, or of a whole body that is not streamed. */
export type ChatPart = {
  content: string;
  /** Hidden text; servers use different names for it. */
  reasoning: string;
  finishReason: "stop" | "length" | undefined;
  usage: { prompt_tokens: number; completion_tokens: number } | undefined;
  /** True for a ping, or for the usage alone: no sign of life of the model. */
  isBare: boolean;
};

/** The content of an error body: a message that fits a log line, and its codes. */
type Failure = { message: string; codes: string };

/** The words that servers use for a complete answer, and for one that reached the limit of tokens or of the context [LLM12]. */
const FINISHED: Readonly<Record<string, ChatPart["finishReason"]>> = {
  stop: "stop",
  eos: "stop",
  eos_token: "stop",
  end_turn: "stop",
  stop_sequence: "stop",
  length: "length",
  max_tokens: "length",
  model_length: "length",
};
/** The words for an answer that the runtime withheld, or whose rest it withheld. */
const REFUSED = ["content_filter", "safety"];
/** Some versions of vLLM answer a prompt that is too long with the number of tokens that are left. The last three are from LM Studio, TabbyAPI and TGI. */
const CONTEXT_EXCEEDED = [
  /context_length|exceed_context|maximum (context|model) length|context (size|length|window)|prompt is too long|max_tokens must be at least 1, got -/i,
  />= n_ctx/,
  /greater than max_seq_len/,
  /`inputs` (tokens \+ `max_new_tokens` must be <=|must have less than)/,
];

const Text = z.string().nullish();
const Message = z.object({ content: Text, reasoning: Text, reasoning_content: Text });
const Count = z.int().nonnegative();
// A malformed usage counts as missing, and the worker counts the tokens itself.
const Usage = z.object({ prompt_tokens: Count, completion_tokens: Count }).nullish().catch(null);
const Choice = z.object({ delta: Message.nullish(), message: Message.nullish(), finish_reason: z.string().nullish() });
const Answer = z.preprocess(withChoices, z.object({ choices: z.array(Choice), usage: Usage }));
const ErrorText = z.object({ message: z.string(), code: z.unknown().optional(), type: z.unknown().optional() });
const ErrorBody = z.union([
  z.object({ error: z.union([z.string().transform((message) => ({ message, code: null, type: null })), ErrorText]) }),
  // vLLM until 2025, and SGLang.
  ErrorText.extend({ object: z.literal("error") }).transform((error) => ({ error })),
  // TabbyAPI. A list has the prompt in it.
  z.object({ detail: z.string() }).transform(({ detail }) => ({ error: { message: detail, code: null, type: null } })),
]);

/** Some servers send the usage without choices, or with `null`, or an empty object as a ping. */
function withChoices(value: unknown): unknown {
  const isBare = isJsonObject(value) && value.choices == null && ("choices" in value || value.usage != null || Object.keys(value).length === 0);
  return isBare ? { ...value, choices: [] } : value;
}

/**
 * Parses one JSON text of a server: a `chat.completion.chunk` or a `chat.completion`. Throws RuntimeError for anything else, without the `apiKey` in its
 * message.
 */
export function readChatPart(json: string, apiKey?: string): ChatPart {
  const value = parseJson(json);
  if (value === undefined) throw new RuntimeError("runtime_error", "the runtime sent broken JSON");
  const failure = readFailure(value, apiKey);
  if (failure) {
    throw new RuntimeError(isContextExceeded(failure) ? "context_length_exceeded" : "runtime_error", `the runtime reports: ${failure.message}`);
  }
  const answer = Answer.safeParse(value);
  if (!answer.success) throw new RuntimeError("runtime_error", "the runtime answered with JSON that is not a chat completion", { cause: answer.error });
  const choice = answer.data.choices[0];
  const message = choice?.delta ?? choice?.message;
  return {
    content: message?.content ?? "",
    reasoning: message?.reasoning_content ?? message?.reasoning ?? "",
    finishReason: readFinish(choice?.finish_reason),
    usage: answer.data.usage ?? undefined,
    isBare: choice === undefined,
  };
}

/** Translates the `finish_reason` of a server. An answer with an unknown reason may be incomplete, so it is an error. */
function readFinish(word: string | null | undefined): ChatPart["finishReason"] {
  if (word === undefined || word === null || word === "") return undefined;
  const finish = FINISHED[word.toLowerCase()];
  if (finish !== undefined) return finish;
  if (REFUSED.includes(word.toLowerCase())) throw new RuntimeError("content_refused", "the runtime's content filter withheld the answer");
  throw new RuntimeError("runtime_error", `the answer is not complete: the runtime ended it with ${JSON.stringify(word.slice(0, 40))}`, { answered: true });
}

/** True if a runtime reports that prompt and answer do not fit its context. */
function isContextExceeded({ codes, message }: Failure): boolean {
  return CONTEXT_EXCEEDED.some((words) => words.test(`${codes} ${message}`));
}

/** Parses an error body of OpenAI, Ollama, llama.cpp, vLLM, SGLang, TGI or TabbyAPI; undefined for anything else. A key of the owner is removed. */
function readFailure(value: unknown, apiKey = ""): Failure | undefined {
  const body = ErrorBody.safeParse(value);
  if (!body.success) return undefined;
  const { message, code, type } = body.data.error;
  const keyless = apiKey === "" ? message : message.replaceAll(apiKey, "(the key)");
  const line = keyless.replaceAll(/\s+/g, " ").trim();
  return { message: line.length > 200 ? `${line.slice(0, 200)}…` : line, codes: [code, type].filter((part) => typeof part === "string").join(" ") };
}

const OPEN = "<think>";
const CLOSE = "</think>";

/**
 * Takes the output of a model in pieces, which may be cut anywhere, and returns only the visible text. It removes `<think>…</think>`, and also the white
 * space around it if nothing visible came before. The returned pieces join to the whole text, and none of them ends inside a surrogate pair. A block without
 * an end is reasoning if the output begins with it; anywhere else it is plain text, and `end` returns it.
 */
export class VisibleText {
  #pending = "";
  #started = false;
  #thinking = false;
  #afterReasoning = false;

  /** Adds a piece of output and returns the text that is now certainly visible. */
  push(piece: string): string {
    this.#pending += piece;
    let visible = "";
    for (;;) {
      if (this.#thinking && !this.#closeBlock()) break;
      if (!this.#started && !this.#start()) {
        if (this.#thinking) continue;
        break;
      }
      const open = this.#pending.indexOf(OPEN);
      if (open === -1) {
        const kept = beginningOf(OPEN, this.#pending) || lastHighSurrogate(this.#pending);
        visible += this.#pending.slice(0, this.#pending.length - kept.length).toWellFormed();
        this.#pending = kept;
        break;
      }
      visible += this.#pending.slice(0, open).toWellFormed();
      this.#pending = this.#pending.slice(open);
      this.#thinking = true;
    }
    return visible;
  }

  /** Ends the output and returns the pending text if it is visible. */
  end(): string {
    const rest = this.#thinking && !this.#started ? "" : this.#pending;
    this.#pending = "";
    return rest.toWellFormed();
  }

  /** Removes everything up to a closing tag. True if there is one. */
  #closeBlock(): boolean {
    const close = this.#pending.indexOf(CLOSE);
    if (close === -1) {
      // Reasoning at the beginning of the output is never returned, so it is not kept.
      if (!this.#started) this.#pending = beginningOf(CLOSE, this.#pending);
      return false;
    }
    this.#pending = this.#pending.slice(close + CLOSE.length);
    this.#thinking = false;
    this.#afterReasoning = true;
    return true;
  }

  /** True if the pending text begins with visible text; false while that is unknown, or if a block begins. */
  #start(): boolean {
    const text = this.#pending.trimStart();
    if (this.#afterReasoning) this.#pending = text;
    if (text.startsWith(OPEN)) {
      this.#pending = text.slice(OPEN.length);
      this.#thinking = true;
    } else {
      this.#started = !OPEN.startsWith(text);
    }
    return this.#started;
  }
}

/** The longest end of `text` that may be the beginning of `tag`. */
function beginningOf(tag: string, text: string): string {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length -= 1) {
    const end = text.slice(-length);
    if (tag.startsWith(end)) return end;
  }
  return "";
}

function lastHighSurrogate(text: string): string {
  return /[\uD800-\uDBFF]$/.test(text) ? text.slice(-1) : "";
}
