/** One finished answer. `length` means that the limit of tokens or of the context ended it, `stop` that it is whole. */
export type Generation = {
  text: string;
  model: string;
  usage: { prompt_tokens: number; completion_tokens: number };
  finishReason: "stop" | "length";
};

/** What a job asks of one generation. */
export type GenerateOptions = {
  /** Most tokens to generate, LIMITS.defaultMaxTokens if left out; the runtime's own cap applies too. */
  maxTokens?: number;
  /** Aborting it ends the generation in the runtime, not only the waiting for it. */
  signal: AbortSignal;
  /** Visible text as it comes; the deltas join to exactly the final text. */
  onDelta?: (delta: string) => void;
  /** Called for every piece that arrives, hidden reasoning included: a sign of life for the job's lease. */
  onActivity?: () => void;
};

/** A local LLM that answers prompts. Methods reject with RuntimeError, or with what a callback threw. */
export interface Runtime {
  /** "ollama", "llama.cpp", "lm-studio", "vllm", "openai-compatible", "embedded", … */
  readonly name: string;
  /** The model that answers, by `modelName`: never a path. */
  readonly model: string;
  /** The names of all models the runtime offers. */
  readonly models: readonly string[];
  /** Tokens that prompt and answer of `model` may have together; undefined where the runtime does not tell. */
  readonly contextTokens?: number | undefined;
  generate(prompt: string, options: GenerateOptions): Promise<Generation>;
  /** Makes the runtime load its model; resolves when it has answered once. */
  warmUp(signal: AbortSignal): Promise<void>;
  /** Ends running generations and frees what the runtime holds. */
  close(): Promise<void>;
}

/** Why a runtime failed; stable, and the `error` of a `job_failed` [WS9]. */
export type RuntimeErrorCode =
  | "runtime_unreachable"
  | "runtime_error"
  | "model_missing"
  | "aborted"
  /** Prompt and answer do not fit the context; another worker's may be larger. */
  | "context_length_exceeded"
  /** A content filter withheld the answer; another worker's model may give one. */
  | "content_refused"
  | "output_too_large";

/** A failure of a runtime. `retryable` says whether the same job may succeed, here later or on another worker. */
export class RuntimeError extends Error {
  override readonly name = "RuntimeError";
  readonly code: RuntimeErrorCode;
  readonly retryable: boolean;

  constructor(code: RuntimeErrorCode, message: string, options: { retryable?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? true;
  }
}
