import { readChatPart } from "./chat-answer.ts";
import { httpFailure } from "./http-failure.ts";
import { modelName } from "./model-choice.ts";
import { bodyText, eventData } from "./response-body.ts";
import { DEFAULT_MAX_TOKENS, type GenerateOptions, type Generation, MAX_TOKENS_CAP, type Runtime, RuntimeError } from "./runtime.ts";
import { VisibleText } from "./visible-text.ts";

/** How to reach an OpenAI-compatible server and what it is. */
export type OpenAiCompatibleOptions = {
  /** With its version path and without a last slash, as `http://127.0.0.1:11434/v1`. */
  baseUrl: string;
  /** As the server names it, which may be a path; requests carry this, everything else `modelName` of it. */
  model: string;
  name?: string;
  /** All that the server offers, in its names too. */
  models?: readonly string[];
  /** Sent as a bearer token. */
  apiKey?: string;
  /** The most tokens one job gets; default MAX_TOKENS_CAP. */
  maxTokens?: number;
  /** The model's context, when the server tells it; caps the tokens too. */
  contextTokens?: number;
  fetch?: typeof fetch;
};

/** The worker's way to any server that speaks `POST /chat/completions`: Ollama, llama.cpp, LM Studio, vLLM and their kin. */
export class OpenAiCompatible implements Runtime {
  readonly name: string;
  readonly model: string;
  readonly models: readonly string[];
  readonly #options: OpenAiCompatibleOptions;
  readonly #cap: number;
  readonly #closed = new AbortController();

  constructor(options: OpenAiCompatibleOptions) {
    this.name = options.name ?? "openai-compatible";
    this.model = modelName(options.model);
    this.models = [...new Set((options.models ?? [options.model]).map(modelName))];
    this.#options = options;
    this.#cap = Math.min(options.maxTokens ?? MAX_TOKENS_CAP, options.contextTokens ?? Infinity);
  }

  /** Streams an answer. An answer without visible text is a `runtime_error`. */
  async generate(prompt: string, options: GenerateOptions): Promise<Generation> {
    const generation = await this.#stream(prompt, options);
    if (generation.text.trim() !== "") return generation;
    const why = generation.finishReason === "length" ? `no visible text within ${this.#maxTokens(options)} tokens` : "an empty answer";
    throw new RuntimeError("runtime_error", `the model gave ${why}`);
  }

  async warmUp(signal: AbortSignal): Promise<void> {
    await this.#stream("Hi", { maxTokens: 1, signal });
  }

  async close(): Promise<void> {
    this.#closed.abort();
  }

  async #stream(prompt: string, options: GenerateOptions): Promise<Generation> {
    const signal = AbortSignal.any([options.signal, this.#closed.signal]);
    try {
      signal.throwIfAborted();
      return await this.#read(prompt, await this.#request(prompt, options, signal), { ...options, signal });
    } catch (error) {
      // However the break showed itself, an abort is an abort.
      throw signal.aborted ? new RuntimeError("aborted", "the generation was aborted", { cause: error }) : error;
    }
  }

  async #request(prompt: string, options: GenerateOptions, signal: AbortSignal): Promise<Response> {
    const { baseUrl, apiKey, fetch = globalThis.fetch } = this.#options;
    const body = {
      model: this.#options.model,
      messages: [{ role: "user", content: prompt }],
      max_tokens: this.#maxTokens(options),
      stream: true,
      stream_options: { include_usage: true },
    };
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream", ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
      body: JSON.stringify(body),
      // A redirect would carry the prompt to a host nobody chose.
      redirect: "error",
      signal,
    }).catch((cause: unknown) => {
      throw new RuntimeError("runtime_unreachable", `no answer from the runtime at ${baseUrl}`, { cause });
    });
    if (!response.ok) throw await httpFailure(response, this.model);
    return response;
  }

  async #read(prompt: string, response: Response, { onDelta, onActivity, signal }: GenerateOptions): Promise<Generation> {
    const visible = new VisibleText();
    let text = "";
    let generated = "";
    let usage: Generation["usage"] | undefined;
    let finishReason: Generation["finishReason"] | undefined;
    const show = (delta: string): void => {
      if (delta === "") return;
      text += delta;
      onDelta?.(delta);
    };
    for await (const data of answerData(response)) {
      if (data === "[DONE]") {
        finishReason ??= "stop";
        break;
      }
      const part = readChatPart(data);
      onActivity?.();
      generated += part.reasoning + part.content;
      show(visible.push(part.content));
      finishReason = part.finishReason ?? finishReason;
      usage = part.usage ?? usage;
      // The rest may have arrived already: no delta follows an abort.
      signal.throwIfAborted();
    }
    if (finishReason === undefined) throw new RuntimeError("runtime_error", "the stream ended before the answer did");
    show(visible.end());
    signal.throwIfAborted();
    usage ??= { prompt_tokens: estimatedTokens(prompt), completion_tokens: estimatedTokens(generated) };
    return { text, model: this.model, usage, finishReason };
  }

  #maxTokens(options: GenerateOptions): number {
    return Math.min(options.maxTokens ?? DEFAULT_MAX_TOKENS, this.#cap);
  }
}

/** The JSON texts of an answer: many of a stream, one of a server that does not stream. */
async function* answerData(response: Response): AsyncGenerator<string, void, undefined> {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream")) {
    yield* eventData(response);
  } else if (type.includes("json")) {
    yield await bodyText(response);
    yield "[DONE]";
  } else {
    await response.body?.cancel();
    throw new RuntimeError("runtime_error", `the answer is ${type || "of no type"}: this is no OpenAI-compatible server`);
  }
}

/** Tokens of a text when the server does not count them: one for every four bytes of UTF-8, rounded up. */
function estimatedTokens(text: string): number {
  return Math.ceil(new TextEncoder().encode(text).length / 4);
}
