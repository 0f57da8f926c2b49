// Counts the tokens of an answer and asks runtimes for the size of their context. On a job's way: the limits of an LLM_INFER's run.
import * as z from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { parseJson, utf8Length } from "../../protocol/text.ts";
import type { ChatPart } from "./chat-answer.ts";
import { bodyText } from "./http-response.ts";
import { type Generation, RuntimeError } from "./runtime.ts";

/** The visible content of a part of an answer, and whether the rest of the answer is cut. */
export type Taken = { content: string; cut: boolean };

/**
 * Counts the tokens of an answer as they arrive and cuts it at the limit, because some servers ignore `max_tokens` [LLM4]. Servers send one piece of text for
 * one token or for several. Hidden text counts too.
 */
export class TokenCount {
  readonly #most: number;
  #pieces = 0;
  #bytes = 0;
  #held = "";
  /** The server has stated how the answer ended. Later counts change nothing. */
  #ended = false;
  #cut = false;

  constructor(most: number) {
    this.#most = most;
  }

  /** Takes one part of a stream. The first piece over the limit may be text that the server held back, so it is held until the next part. */
  take(part: ChatPart): Taken {
    const piece = part.reasoning + part.content;
    if (piece !== "") this.#pieces++;
    this.#ended ||= part.finishReason !== undefined;
    // Some servers send the usage with each part.
    const counted = this.#ended ? 0 : (part.usage?.completion_tokens ?? 0);
    if (Math.max(this.#pieces, counted) > this.#most + 1) {
      this.#held = "";
      this.#cut = true;
      return { content: "", cut: true };
    }
    this.#weigh(piece);
    if (piece === "" || this.#pieces <= this.#most) return { content: part.content, cut: false };
    this.#held = part.content;
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

  /** The held piece, which belongs to the answer if nothing follows. */
  rest(): string {
    return this.#held;
  }

  /** The usage to report: that of the server unless it ignored the limit, or else an estimate. */
  usage(told: Generation["usage"] | undefined, prompt: string): Generation["usage"] {
    const { prompt_tokens, completion_tokens } = told ?? { prompt_tokens: estimatedTokens(prompt), completion_tokens: this.#estimate() };
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

/** A request to a runtime, with its key and without redirects. */
export type Ask = (url: string, init?: { method: "POST"; body: string }) => Promise<Response>;

const Tokens = z.int().positive();
const Props = z.object({ default_generation_settings: z.object({ n_ctx: Tokens }) });
const LmStudio = z.object({ data: z.array(z.object({ id: z.string(), loaded_context_length: Tokens.optional().catch(undefined) })) });
const OllamaRunning = z.object({ models: z.array(z.object({ name: z.string(), context_length: Tokens.optional().catch(undefined) })) });
const OllamaShow = z.object({ parameters: z.string() });

/**
 * The context of a loaded model in tokens: prompt and answer together. It is often much smaller than the context of the model's training, and no
 * OpenAI-compatible list states it. Undefined if the runtime does not state it.
 */
export async function loadedContext(runtime: string, baseUrl: string, model: string, ask: Ask): Promise<number | undefined> {
  const root = baseUrl.replace(/\/v1$/, "");
  const read = async <T>(schema: z.ZodType<T>, ...asked: Parameters<Ask>): Promise<T | undefined> => {
    const response = await ask(...asked);
    const text = await bodyText(response);
    return response.ok ? schema.safeParse(parseJson(text)).data : undefined;
  };
  try {
    switch (runtime) {
      case "llama.cpp":
        return (await read(Props, `${root}/props`))?.default_generation_settings.n_ctx;
      case "lm-studio":
        return (await read(LmStudio, `${root}/api/v0/models`))?.data.find(({ id }) => id === model)?.loaded_context_length;
      case "ollama": {
        const running = await read(OllamaRunning, `${root}/api/ps`);
        const told = running?.models.find(({ name }) => name === model)?.context_length;
        if (told !== undefined) return told;
        // Older versions only state what the model's file sets. Their default depends on the version and the machine.
        const show = await read(OllamaShow, `${root}/api/show`, { method: "POST", body: JSON.stringify({ model }) });
        return Tokens.safeParse(Number(/^num_ctx\s+(\d+)\s*$/m.exec(show?.parameters ?? "")?.[1])).data;
      }
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}
