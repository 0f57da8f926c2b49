// The client of a local LLM server with OpenAI's API: streams one answer and counts its tokens, within the job's limits. On a job's way: the run of an
// LLM_INFER.
import { LIMITS } from "../../protocol/limits.ts";
import { utf8Length } from "../../protocol/text.ts";
import { bodyText, type ChatPart, eventData, httpFailure, isDone, readChatPart, VisibleText } from "./answer.ts";
import { type GenerateOptions, type Generation, modelName, type Runtime, RuntimeError } from "./runtime.ts";

/** How long a stream may go on after its finish_reason, ms: only the usage may follow, and some servers keep the connection open. */
const AFTER_FINISH_MS = 2_000;

/** The address and the properties of an OpenAI-compatible server. */
export type OpenAiCompatibleOptions = {
  /** Address with the version path and without a final slash, as `http://127.0.0.1:11434/v1`. */
  baseUrl: string;
  /** The server's name for the model, which may be a path. Requests use it; everything else uses `modelName` of it. */
  model: string;
  name?: string;
  /** All models of the server, by the server's names. */
  models?: readonly string[];
  /** Sent as a bearer token. */
  apiKey?: string;
  /** The most tokens for one job; default LIMITS.workerMaxTokens. */
  maxTokens?: number;
  /** The model's context, if the server states it. It limits the tokens too. */
  contextTokens?: number;
  /** Asks the server, after it has loaded the model, for the context of the loaded model; undefined if it does not state it. */
  askContext?: (signal: AbortSignal) => Promise<number | undefined>;
  fetch?: typeof fetch;
};

/** The client of any server with `POST /chat/completions`: Ollama, llama.cpp, LM Studio, vLLM and others. */
export class OpenAiCompatible implements Runtime {
  readonly name: string;
  readonly model: string;
  readonly models: readonly string[];
  readonly listedContext: number | undefined;
  readonly #options: OpenAiCompatibleOptions;
  #contextTokens: number | undefined;
  readonly #closed = new AbortController();

  constructor(options: OpenAiCompatibleOptions) {
    this.name = options.name ?? "openai-compatible";
    this.model = modelName(options.model);
    this.models = [...new Set((options.models ?? [options.model]).map(modelName))];
    this.listedContext = options.contextTokens;
    this.#contextTokens = options.contextTokens;
    this.#options = options;
  }

  get contextTokens(): number | undefined {
    return this.#contextTokens;
  }

  /** Streams an answer to the prompt, or to the messages of a chat. An answer without visible text is an error. */
  async generate(prompt: string, options: GenerateOptions): Promise<Generation> {
    const generation = await this.#stream(prompt, options);
    if (generation.text.trim() !== "") return generation;
    // Some servers cut a long prompt, and then there is no room for an answer.
    if (generation.usage.prompt_tokens >= (this.#contextTokens ?? Infinity))
      throw new RuntimeError("context_length_exceeded", "the prompt fills the whole context, so there is no answer");
    const isCut = generation.finishReason === "length";
    const why = isCut ? `no visible text within ${this.#maxTokens(options)} tokens, so the job needs a larger max_tokens` : "an empty answer";
    // A model that reasons would use up the same tokens again.
    throw new RuntimeError("runtime_error", `the model returned ${why}`, { answered: true, retryable: !isCut });
  }

  async warmUp(signal: AbortSignal): Promise<void> {
    await this.#stream("Hi", { maxTokens: 1, signal });
    this.#contextTokens = (await this.#options.askContext?.(signal)) ?? this.#contextTokens;
  }

  succeed({ contextTokens }: Runtime): void {
    this.#contextTokens = contextTokens ?? this.#contextTokens;
  }

  async close(): Promise<void> {
    this.#closed.abort();
  }

  async #stream(prompt: string, options: GenerateOptions): Promise<Generation> {
    const signal = AbortSignal.any([options.signal, this.#closed.signal]);
    const enough = new AbortController();
    try {
      signal.throwIfAborted();
      const response = await this.#fittingRequest(prompt, { ...options, signal: AbortSignal.any([signal, enough.signal]) });
      return await this.#read(prompt, response, { ...options, signal }, enough);
    } catch (error) {
      // After an abort the error may have any form.
      throw signal.aborted ? new RuntimeError("aborted", "the generation was aborted", { cause: error }) : error;
    }
  }

  /**
   * Some servers (vLLM, OpenAI) refuse a prompt that fits, if prompt and `max_tokens` together do not fit. Without `max_tokens` they use the available room,
   * and this client cuts the answer.
   */
  async #fittingRequest(prompt: string, options: GenerateOptions): Promise<Response> {
    try {
      return await this.#request(prompt, options, this.#maxTokens(options));
    } catch (error) {
      if (error instanceof RuntimeError && error.code === "context_length_exceeded") return await this.#request(prompt, options, undefined);
      throw error;
    }
  }

  async #request(prompt: string, { chat, signal }: GenerateOptions, maxTokens: number | undefined): Promise<Response> {
    const { baseUrl, apiKey, fetch = globalThis.fetch } = this.#options;
    const body = {
      messages: [{ role: "user", content: prompt }],
      ...chat,
      model: this.#options.model,
      max_tokens: maxTokens,
      stream: true,
      stream_options: { include_usage: true },
    };
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream", ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
      body: JSON.stringify(body),
      // A redirect would send the prompt to a host that the owner did not choose.
      redirect: "error",
      signal,
    }).catch((cause: unknown) => {
      throw new RuntimeError("runtime_unreachable", `no answer from the runtime at ${baseUrl}`, { cause });
    });
    if (!response.ok) throw await httpFailure(response, this.model, apiKey);
    return response;
  }

  /** Reads an answer. `enough` ends the request once the answer is complete. */
  async #read(prompt: string, response: Response, options: GenerateOptions, enough: AbortController): Promise<Generation> {
    const { onDelta, onActivity, signal } = options;
    const visible = new VisibleText();
    const count = new TokenCount(this.#maxTokens(options));
    let text = "";
    let usage: Generation["usage"] | undefined;
    let finishReason: Generation["finishReason"] | undefined;
    const show = (delta: string): void => {
      if (delta === "") return;
      text += delta;
      onDelta?.(delta);
    };
    let late: ReturnType<typeof setTimeout> | undefined;
    try {
      for await (const { data, streamed } of answerData(response)) {
        if (isDone(data)) break;
        const part = readChatPart(data, this.#options.apiKey);
        if (!part.isBare) onActivity?.();
        usage = part.usage ?? usage;
        const taken = streamed ? count.take(part) : count.takeWhole(part);
        show(visible.push(taken.content));
        if (taken.cut) {
          finishReason = "length";
          break;
        }
        finishReason = part.finishReason ?? finishReason;
        if (finishReason !== undefined) late ??= setTimeout(() => enough.abort(), AFTER_FINISH_MS);
        // The rest may have arrived already, but no delta may follow an abort.
        signal.throwIfAborted();
      }
    } catch (error) {
      // Whatever follows the finish_reason, the answer is complete.
      if (finishReason === undefined || signal.aborted) throw error;
    } finally {
      clearTimeout(late);
    }
    // [DONE] alone does not prove that the answer is complete [LLM12].
    if (finishReason === undefined) throw new RuntimeError("runtime_error", "the stream ended without a finish_reason: the answer may be incomplete");
    show(visible.push(count.rest()) + visible.end());
    signal.throwIfAborted();
    return { text, model: this.model, usage: count.usage(usage, prompt), finishReason };
  }

  #maxTokens(options: GenerateOptions): number {
    const { maxTokens = LIMITS.workerMaxTokens } = this.#options;
    return Math.min(options.maxTokens ?? LIMITS.defaultMaxTokens, maxTokens, this.#contextTokens ?? Infinity);
  }
}

/** The JSON texts of an answer: many from a stream, one from a server that does not stream. */
async function* answerData(response: Response): AsyncGenerator<{ data: string; streamed: boolean }, void, undefined> {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream")) {
    for await (const data of eventData(response)) yield { data, streamed: true };
  } else if (type.includes("json")) {
    yield { data: await bodyText(response), streamed: false };
  } else {
    await response.body?.cancel();
    throw new RuntimeError("runtime_error", `the answer is ${type || "of no type"}: this is not an OpenAI-compatible server`);
  }
}

/** The visible content of a part of an answer, and whether the rest of the answer is cut. */
type Taken = { content: string; cut: boolean };

/**
 * Counts the tokens of an answer as they arrive and cuts it at the limit, because some servers ignore `max_tokens` [LLM4]. Servers send one piece of text for
 * one token or for several. Hidden text counts too.
 */
class TokenCount {
  readonly #most: number;
  #pieces = 0;
  #bytes = 0;
  #pending = "";
  /** The server has stated how the answer ended. Later counts change nothing. */
  #ended = false;
  #cut = false;

  constructor(most: number) {
    this.#most = most;
  }

  /** Takes one part of a stream. The first piece over the limit may be text that the server held back, so it waits for the next part. */
  take(part: ChatPart): Taken {
    const piece = part.reasoning + part.content;
    if (piece !== "") this.#pieces++;
    this.#ended ||= part.finishReason !== undefined;
    // Some servers send the usage with each part.
    const counted = this.#ended ? 0 : (part.usage?.completion_tokens ?? 0);
    if (Math.max(this.#pieces, counted) > this.#most + 1) {
      this.#pending = "";
      this.#cut = true;
      return { content: "", cut: true };
    }
    this.#weigh(piece);
    if (piece === "" || this.#pieces <= this.#most) return { content: part.content, cut: false };
    this.#pending = part.content;
    return { content: "", cut: false };
  }

  /** Takes an answer that came in one piece. Without a count of the server it is cut only if it is far too long, because tokens differ in length. */
  takeWhole(part: ChatPart): Taken {
    const { content, reasoning } = part;
    this.#weigh(reasoning + content);
    const tokens = part.usage?.completion_tokens ?? Math.floor(this.#estimate() / 4);
    // Some servers count the end as a token.
    if (tokens <= this.#most + 1) return { content, cut: false };
    this.#cut = true;
    return { content: content.slice(0, Math.ceil((content.length * this.#most) / tokens)).toWellFormed(), cut: true };
  }

  /** The pending piece, which belongs to the answer if nothing follows. */
  rest(): string {
    return this.#pending;
  }

  /** The usage to report: that of the server unless it ignored the limit, or else an estimate. */
  usage(stated: Generation["usage"] | undefined, prompt: string): Generation["usage"] {
    const { prompt_tokens, completion_tokens } = stated ?? { prompt_tokens: estimatedTokens(prompt), completion_tokens: this.#estimate() };
    return { prompt_tokens, completion_tokens: this.#cut ? this.#most : completion_tokens };
  }

  #weigh(piece: string): void {
    this.#bytes += utf8Length(piece);
    if (this.#bytes <= LIMITS.outputBytes) return;
    throw new RuntimeError("output_too_large", `the model generated more than ${LIMITS.outputBytes} bytes`, { retryable: false });
  }

  #estimate(): number {
    return Math.ceil(this.#bytes / 4);
  }
}

/** Estimated tokens of a text, for a server that does not count them: one per four bytes of UTF-8, rounded up. */
function estimatedTokens(text: string): number {
  return Math.ceil(utf8Length(text) / 4);
}
