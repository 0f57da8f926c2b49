// The models that connected workers answer with: how `register` names them, and what `GET /v1/models` says [JB10].
import * as z from "zod";
import { LIMITS } from "./limits.ts";

const MODEL_NAME = new RegExp(`^[A-Za-z0-9._:/@+-]{1,${LIMITS.modelNameChars}}$`);

/**
 * The names that are kept of those that a worker announces: in its order, each once (compared without case), names of another form left out.
 *
 * @param announced `models` of a `register` frame
 * @returns at most `LIMITS.modelsPerWorker` names of at most `LIMITS.modelBytesPerWorker` bytes in all
 */
export function keptModels(announced: readonly string[]): string[] {
  const kept = new Map<string, string>();
  let bytes = 0;
  for (const name of announced) {
    const folded = name.toLowerCase();
    if (!MODEL_NAME.test(name) || kept.has(folded)) continue;
    // Every character of the form is one byte.
    if (kept.size === LIMITS.modelsPerWorker || bytes + name.length > LIMITS.modelBytesPerWorker) break;
    bytes += name.length;
    kept.set(folded, name);
  }
  return [...kept.values()];
}

export const Model = z.object({
  id: z.string().meta({ description: "The name, as the worker that is connected for longest announced it." }),
  object: z.literal("model"),
  created: z.int().min(0).meta({ description: "Since when a worker with it is connected, in seconds since the epoch." }),
  owned_by: z.literal("workers"),
  workers: z.int().min(1).meta({ description: "Connected workers that announced it." }),
});
/** A model that connected workers answer with. */
export type Model = z.infer<typeof Model>;

export const ModelList = z
  .object({
    object: z.literal("list"),
    data: z.array(Model).meta({ description: `Those with the most workers first, at most ${LIMITS.modelsListed}.` }),
    workers_online: z
      .int()
      .min(0)
      .meta({ description: "Connected workers that take `LLM_INFER`, those that announced no model included, those that are about to leave not." }),
  })
  .meta({ id: "ModelList" });
/** Body of `GET /v1/models`: OpenAI's list, and one more member [JB10]. */
export type ModelList = z.infer<typeof ModelList>;

/** A connected worker that takes LLM_INFER. */
export type Announcing = { models: readonly string[]; /** Milliseconds since the epoch. */ connectedAt: number };

/** The answer of `GET /v1/models`. */
export function modelList(workers: Iterable<Announcing>): ModelList {
  const found = new Map<string, { id: string; since: number; workers: number }>();
  let online = 0;
  for (const { models, connectedAt } of workers) {
    online++;
    for (const id of models) {
      const folded = id.toLowerCase();
      const model = found.get(folded);
      if (model === undefined) found.set(folded, { id, since: connectedAt, workers: 1 });
      else {
        model.workers++;
        if (connectedAt < model.since) Object.assign(model, { id, since: connectedAt });
      }
    }
  }
  const most = [...found.values()].toSorted((a, b) => b.workers - a.workers || (a.id < b.id ? -1 : 1)).slice(0, LIMITS.modelsListed);
  const data = most.map(({ id, since, workers: count }): Model => {
    return { id, object: "model", created: Math.floor(since / 1_000), owned_by: "workers", workers: count };
  });
  return { object: "list", data, workers_online: online };
}
