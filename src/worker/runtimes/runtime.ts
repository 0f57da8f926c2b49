// What a local LLM is to the worker: the interface `Runtime`, its errors, and the choice of a model. On a job's way: the run of an LLM_INFER.
import * as z from "zod";
import type { ChatRequest } from "../../protocol/chat.ts";
import { MODEL_NAME, MODEL_NAME_RULE } from "../../protocol/text.ts";

/** One finished answer. `length` means that the limit of tokens or of the context ended it; `stop` means that it is complete. */
export type Generation = {
  text: string;
  model: string;
  usage: { prompt_tokens: number; completion_tokens: number };
  finishReason: "stop" | "length";
};

/** Options of one generation. */
export type GenerateOptions = {
  /** The job that the answer is for, whatever its attempt. */
  jobId?: string;
  /** The most tokens to generate; default LIMITS.defaultMaxTokens. The limit of the runtime applies too. */
  maxTokens?: number;
  /** The messages that are answered in place of the prompt, and how the answer is sampled and formed [JB12]. */
  chat?: ChatRequest;
  /** Aborts the generation in the runtime too, not only the wait for it. A `TimeoutError` as its reason means that the runtime gave no sign of life in time. */
  signal: AbortSignal;
  /** Visible text as it arrives. The deltas join to exactly the final text. */
  onDelta?: (delta: string) => void;
  /** Called for every piece that arrives, hidden reasoning included: a sign of life for the job's lease. */
  onActivity?: () => void;
};

/** A local LLM that answers prompts. Methods reject with RuntimeError, or with what a callback threw. */
export interface Runtime {
  /** "ollama", "llama.cpp", "lm-studio", "vllm", "openai-compatible", "embedded", … */
  readonly name: string;
  /** The `modelName` of the model that answers; never a path. */
  readonly model: string;
  /** The names of all models the runtime offers. */
  readonly models: readonly string[];
  /** True when the runtime has ended for good, as a child process does, or is being closed. A search then finds another one, which may look the same. */
  readonly hasEnded?: boolean;
  /** Tokens that prompt and answer of `model` may have together; undefined if the runtime does not state it. */
  readonly contextTokens?: number | undefined;
  /** The context that the runtime's list states. It changes if the runtime is started again with another one. */
  readonly listedContext?: number | undefined;
  generate(prompt: string, options: GenerateOptions): Promise<Generation>;
  /** Makes the runtime load its model, and resolves after its first answer. */
  warmUp(signal: AbortSignal): Promise<void>;
  /** Takes over the context that `before` has learned at its first answer: another object for the same model of the same runtime. */
  succeed?(before: Runtime): void;
  /** Ends running generations and releases the runtime's resources. */
  close(): Promise<void>;
}

/** Why a runtime failed: a stable code, and the `error` of a `job_failed` [WS9]. */
type RuntimeErrorCode =
  | "runtime_unreachable"
  | "runtime_error"
  | "model_missing"
  | "aborted"
  /** Prompt and answer do not fit the context; that of another worker may be larger. */
  | "context_length_exceeded"
  /** A content filter withheld the answer; the model of another worker may answer. */
  | "content_refused"
  | "output_too_large";

/** A failure of a runtime. `retryable` is true if the same job may succeed later, or on another worker. */
export class RuntimeError extends Error {
  override readonly name = "RuntimeError";
  readonly code: RuntimeErrorCode;
  readonly retryable: boolean;
  /** True if the runtime has answered, though not with a usable text. That may be due to the prompt. */
  readonly answered: boolean;

  constructor(code: RuntimeErrorCode, message: string, options: { retryable?: boolean; answered?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? true;
    this.answered = options.answered ?? false;
  }
}

/** A model that a runtime lists. */
export type ListedModel = { id: string; ownedBy: string | undefined; contextTokens: number | undefined };

const Positive = z.int().positive().optional().catch(undefined);
const ModelList = z.object({
  data: z
    .array(
      z.object({
        id: z.string().min(1),
        owned_by: z.string().optional().catch(undefined),
        max_model_len: Positive,
        meta: z.object({ n_ctx: Positive, n_ctx_train: Positive }).optional().catch(undefined),
      }),
    )
    // Ollama's list is null as long as it has no model.
    .nullable(),
});

/** Parses `GET /models`; vLLM and llama.cpp state the context too. Undefined for anything that is not a model list. */
export function readModelList(value: unknown): ListedModel[] | undefined {
  const list = ModelList.safeParse(value);
  if (!list.success) return undefined;
  return (list.data.data ?? []).map((entry) => ({
    id: entry.id,
    ownedBy: entry.owned_by,
    contextTokens: entry.max_model_len ?? entry.meta?.n_ctx ?? entry.meta?.n_ctx_train,
  }));
}

/**
 * The name of a model that the worker announces, shows and puts into results: the last part of the runtime's name. That name may be a path of this machine,
 * because llama.cpp, vLLM and LM Studio list files and folders. A path would reveal the machine's user and its setup [JB7].
 */
export function modelName(id: string): string {
  const parts = id.split(/[\\/]/).map((part) => part.trim());
  return parts.findLast((part) => part !== "" && part !== "." && part !== "..") ?? "unnamed";
}

/** Ollama calls a model without a tag `X:latest`. */
const LATEST = ":latest";

/**
 * The names by which a worker announces its model: that of the runtime, and for `X:latest` also `X`, because both mean that model [JB10]. `X` is left out if
 * the runtime lists another model under that name.
 */
export function announcedNames({ model, models }: Pick<Runtime, "model" | "models">): string[] {
  const short = model.endsWith(LATEST) ? model.slice(0, -LATEST.length) : "";
  return short === "" || models.includes(short) ? [model] : [model, short];
}

/** What to tell the owner of a model that no job can ask for, because of its name; null if jobs can. Jobs that name no model run on it all the same. */
export function namingProblem(runtime: Pick<Runtime, "model" | "models">): string | null {
  if (announcedNames(runtime).some((name) => MODEL_NAME.test(name))) return null;
  return `jobs cannot ask for "${runtime.model}" by its name, which ${MODEL_NAME_RULE}: rename the model`;
}

const NOT_FOR_CHAT = /embed|rerank|whisper|(^|-)bge-|all-minilm|clip|tts/i;
/** Ollama also lists models that run on remote servers. */
const REMOTE = /[:-]cloud$/i;

/**
 * The model to use: the wanted one, or else the first that can chat and runs on this machine. `llama3.2` also means Ollama's `llama3.2:latest`, and a file
 * name also means a path that ends with it. Undefined if there is none.
 */
export function chooseModel(models: readonly ListedModel[], wanted: string | undefined): ListedModel | undefined {
  if (wanted === undefined) return models.find(({ id }) => !NOT_FOR_CHAT.test(modelName(id)) && !REMOTE.test(id));
  return models.find(({ id }) => id === wanted) ?? models.find(({ id }) => id === `${wanted}${LATEST}`) ?? models.find(({ id }) => modelName(id) === wanted);
}
