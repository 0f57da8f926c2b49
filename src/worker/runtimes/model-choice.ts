import * as z from "zod";

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
