import { LIMITS } from "../../protocol/limits.ts";
import { utf8Length } from "../../protocol/text.ts";
import type { ChatPart } from "./chat-answer.ts";
import { type Generation, RuntimeError } from "./runtime.ts";

/** What may be shown of a part of an answer, and whether the rest of the answer is cut. */
export type Taken = { content: string; cut: boolean };

/**
 * Counts an answer's tokens as they come, because some servers ignore `max_tokens` [LLM4]: what is over the limit is cut here. Servers send a piece
 * of text for each token, or for several; hidden text counts as well as visible text.
 */
export class TokenCount {
  readonly #most: number;
  #pieces = 0;
  #bytes = 0;
  #held = "";
  /** The server has said how the answer ended: what it counts now changes nothing. */
  #ended = false;
  #cut = false;

  constructor(most: number) {
    this.#most = most;
  }

  /** Takes one part of a stream. The first piece over the limit may be text that the server held back before: it waits for what follows. */
  take(part: ChatPart): Taken {
    const piece = part.reasoning + part.content;
    if (piece !== "") this.#pieces++;
    this.#ended ||= part.finishReason !== undefined;
    // Some servers tell the usage with each part.
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

  /** Takes an answer that came in one piece. Without a count of the server's it is cut only when it is far too long, since tokens differ in length. */
  takeWhole(part: ChatPart): Taken {
    const { content, reasoning } = part;
    this.#weigh(reasoning + content);
    const tokens = part.usage?.completion_tokens ?? Math.floor(this.#estimate() / 4);
    // Some servers count the end as a token.
    if (tokens <= this.#most + 1) return { content, cut: false };
    this.#cut = true;
    return { content: content.slice(0, Math.ceil((content.length * this.#most) / tokens)).toWellFormed(), cut: true };
  }

  /** The answer is over: the piece that waited belongs to it. */
  rest(): string {
    return this.#held;
  }

  /** The usage to tell: the server's, where it has not ignored the limit, or else an estimate. */
  usage(told: Generation["usage"] | undefined, prompt: string): Generation["usage"] {
    const { prompt_tokens, completion_tokens } = told ?? { prompt_tokens: estimatedTokens(prompt), completion_tokens: this.#estimate() };
    return { prompt_tokens, completion_tokens: this.#cut ? this.#most : completion_tokens };
  }

  #weigh(piece: string): void {
    this.#bytes += utf8Length(piece);
    if (this.#bytes <= LIMITS.outputBytes) return;
    throw new RuntimeError("output_too_large", `the model wrote more than ${LIMITS.outputBytes} bytes`, { retryable: false });
  }

  #estimate(): number {
    return Math.ceil(this.#bytes / 4);
  }
}

/** Tokens of a text when the server does not count them: one for every four bytes of UTF-8, rounded up. */
function estimatedTokens(text: string): number {
  return Math.ceil(utf8Length(text) / 4);
}
