import * as z from "zod";
import { parseJson } from "../../protocol/text.ts";
import { RuntimeError } from "./runtime.ts";

/** What one chunk of a stream, or a whole unstreamed body, says. */
export type ChatPart = {
  content: string;
  /** Hidden text, under whatever name the server sends it. */
  reasoning: string;
  finishReason: "stop" | "length" | undefined;
  usage: { prompt_tokens: number; completion_tokens: number } | undefined;
};

/** What an error body says: a message short enough for a log line, and its codes. */
export type Failure = { message: string; codes: string };

/** Every word for an answer that came to its own end, and for one that reached the limit of tokens or of the context [LLM12]. */
const FINISHED: Readonly<Record<string, ChatPart["finishReason"]>> = {
  ...{ stop: "stop", eos: "stop", eos_token: "stop", end_turn: "stop", stop_sequence: "stop" },
  ...{ length: "length", max_tokens: "length", model_length: "length" },
};
/** The runtime withheld the answer, or what was left of it. */
const REFUSED = ["content_filter", "safety"];
const CONTEXT_EXCEEDED = /context_length|exceed_context|maximum (context|model) length|context (size|length|window)|prompt is too long/i;

const Text = z.string().nullish();
const Message = z.object({ content: Text, reasoning: Text, reasoning_content: Text });
const Count = z.int().nonnegative();
// Usage we cannot read is as good as none: it is counted instead.
const Usage = z.object({ prompt_tokens: Count, completion_tokens: Count }).nullish().catch(null);
const Choice = z.object({ delta: Message.nullish(), message: Message.nullish(), finish_reason: z.string().nullish() });
const Answer = z.object({ choices: z.array(Choice), usage: Usage });
const ErrorBody = z.object({
  error: z.union([
    z.string().transform((message) => ({ message, code: null, type: null })),
    z.object({ message: z.string(), code: z.unknown().optional(), type: z.unknown().optional() }),
  ]),
});

/** Reads one JSON text of a server: a `chat.completion.chunk` or a `chat.completion`. Throws RuntimeError if it is neither. */
export function readChatPart(json: string): ChatPart {
  const value = parseJson(json);
  if (value === undefined) throw new RuntimeError("runtime_error", "the runtime sent broken JSON");
  const failure = readFailure(value);
  if (failure) {
    throw new RuntimeError(isContextExceeded(failure) ? "context_length_exceeded" : "runtime_error", `the runtime reports: ${failure.message}`);
  }
  const answer = Answer.safeParse(value);
  if (!answer.success) throw new RuntimeError("runtime_error", "the runtime answered JSON that is no chat completion", { cause: answer.error });
  const choice = answer.data.choices[0];
  const message = choice?.delta ?? choice?.message;
  return {
    content: message?.content ?? "",
    reasoning: message?.reasoning_content ?? message?.reasoning ?? "",
    finishReason: readFinish(choice?.finish_reason),
    usage: answer.data.usage ?? undefined,
  };
}

/** Only an answer that says how it ended is whole, or cut where it says so. */
function readFinish(word: string | null | undefined): ChatPart["finishReason"] {
  if (word === undefined || word === null || word === "") return undefined;
  const finish = FINISHED[word.toLowerCase()];
  if (finish !== undefined) return finish;
  if (REFUSED.includes(word.toLowerCase())) throw new RuntimeError("content_refused", "the runtime's content filter withheld the answer");
  throw new RuntimeError("runtime_error", `the answer is not whole: the runtime ended it with ${JSON.stringify(word.slice(0, 40))}`);
}

/** Whether a runtime says that prompt and answer do not fit its context. */
export function isContextExceeded({ codes, message }: Failure): boolean {
  return CONTEXT_EXCEEDED.test(`${codes} ${message}`);
}

/** Reads the error body of OpenAI, Ollama, llama.cpp or vLLM; undefined if the value is none. */
export function readFailure(value: unknown): Failure | undefined {
  const body = ErrorBody.safeParse(value);
  if (!body.success) return undefined;
  const { message, code, type } = body.data.error;
  const line = message.replaceAll(/\s+/g, " ").trim();
  return { message: line.length > 200 ? `${line.slice(0, 200)}…` : line, codes: [code, type].filter((part) => typeof part === "string").join(" ") };
}

const OPEN = "<think>";
const CLOSE = "</think>";

/**
 * Takes a model's output in pieces, cut anywhere, and lets only the visible text through. `<think>…</think>` goes, and so does the blank
 * space around it while nothing visible came before. What `push` and `end` return joins to the whole text, and no piece of it ends inside a
 * surrogate pair. A block that never closes is reasoning if it began the output; further on it is the mere word, and `end` gives it back.
 */
export class VisibleText {
  #held = "";
  #started = false;
  #thinking = false;
  #afterReasoning = false;

  /** Adds a piece of output; returns what is now certain to be visible. */
  push(piece: string): string {
    this.#held += piece;
    let visible = "";
    for (;;) {
      if (this.#thinking && !this.#closeBlock()) break;
      if (!this.#started && !this.#start()) {
        if (this.#thinking) continue;
        break;
      }
      const open = this.#held.indexOf(OPEN);
      if (open === -1) {
        const kept = beginningOf(OPEN, this.#held) || lastHighSurrogate(this.#held);
        visible += this.#held.slice(0, this.#held.length - kept.length).toWellFormed();
        this.#held = kept;
        break;
      }
      visible += this.#held.slice(0, open).toWellFormed();
      this.#held = this.#held.slice(open);
      this.#thinking = true;
    }
    return visible;
  }

  /** The output is over; returns what was held back and is visible after all. */
  end(): string {
    const rest = this.#thinking && !this.#started ? "" : this.#held;
    this.#held = "";
    return rest.toWellFormed();
  }

  /** True once a closing tag is found and everything up to it is gone. */
  #closeBlock(): boolean {
    const close = this.#held.indexOf(CLOSE);
    if (close === -1) {
      // Reasoning that began the output is never given back: do not keep it.
      if (!this.#started) this.#held = beginningOf(CLOSE, this.#held);
      return false;
    }
    this.#held = this.#held.slice(close + CLOSE.length);
    this.#thinking = false;
    this.#afterReasoning = true;
    return true;
  }

  /** True once the held text begins with something visible; false while that is open or a block begins. */
  #start(): boolean {
    const text = this.#held.trimStart();
    if (this.#afterReasoning) this.#held = text;
    if (text.startsWith(OPEN)) {
      this.#held = text.slice(OPEN.length);
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
