import * as z from "zod";

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

/** A model that a runtime lists. */
export type ListedModel = { id: string; ownedBy: string | undefined; contextTokens: number | undefined };

const Positive = z.int().positive().optional().catch(undefined);
const ModelList = z.object({
  data: z.array(
    z.object({
      id: z.string().min(1),
      owned_by: z.string().optional().catch(undefined),
      max_model_len: Positive,
      meta: z.object({ n_ctx: Positive, n_ctx_train: Positive }).optional().catch(undefined),
    }),
  ),
});

/** Reads `GET /models`; vLLM and llama.cpp tell the context too. Undefined if it is no model list. */
export function readModelList(value: unknown): ListedModel[] | undefined {
  const list = ModelList.safeParse(value);
  return list.data?.data.map((entry) => ({
    id: entry.id,
    ownedBy: entry.owned_by,
    contextTokens: entry.max_model_len ?? entry.meta?.n_ctx ?? entry.meta?.n_ctx_train,
  }));
}

/**
 * The name under which a model is announced, shown and told to seekers: the last part of the runtime's own name for it, which may be a path of
 * this machine (llama.cpp, vLLM and LM Studio list files and folders). A path says who uses the machine and how it is set up [JB7].
 */
export function modelName(id: string): string {
  const parts = id.split(/[\\/]/).map((part) => part.trim());
  return parts.findLast((part) => part !== "" && part !== "." && part !== "..") ?? "unnamed";
}

const NOT_FOR_CHAT = /embed|rerank|whisper|(^|-)bge-|all-minilm|clip|tts/i;
/** Ollama lists models that run on its makers' servers, not here. */
const REMOTE = /[:-]cloud$/i;

/**
 * The model to use: the wanted one (`llama3.2` also means Ollama's `llama3.2:latest`, a file name the file of a path), else the first that can
 * chat and runs on this machine. Undefined if there is none.
 */
export function chooseModel(models: readonly ListedModel[], wanted: string | undefined): ListedModel | undefined {
  if (wanted === undefined) return models.find(({ id }) => !NOT_FOR_CHAT.test(modelName(id)) && !REMOTE.test(id));
  return models.find(({ id }) => id === wanted) ?? models.find(({ id }) => id === `${wanted}:latest`) ?? models.find(({ id }) => modelName(id) === wanted);
}
