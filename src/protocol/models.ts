// The models that connected workers offer: how `register` names them, and what `GET /v1/models` lists [JB10].
import * as z from "zod";
import { LIMITS } from "./limits.ts";
import { MODEL_NAME, MODEL_NAME_RULE } from "./text.ts";

/** The wish for any model. */
const ANY_MODEL = "auto";

/** A model name, as a client may ask for it [JB10]. */
export const ModelName = z.string().regex(MODEL_NAME, MODEL_NAME_RULE);

/** The model that a payload asks for, in lower case as names are compared; undefined if any may answer. */
export function wantedModel(model: string | null | undefined): string | undefined {
  const folded = model?.toLowerCase();
  return folded === ANY_MODEL ? undefined : folded;
}

/**
 * Selects the model names that the hub keeps for a worker: in the worker's order, each once (compared without case), without malformed names and
 * without `auto`, which means any model.
 *
 * @param announced `models` of a `register` frame
 * @returns at most `LIMITS.modelsPerWorker` names of at most `LIMITS.modelBytesPerWorker` bytes in all
 */
export function keptModels(announced: readonly string[]): string[] {
  const kept = new Map<string, string>();
  let bytes = 0;
  for (const name of announced) {
    const folded = name.toLowerCase();
    if (!MODEL_NAME.test(name) || folded === ANY_MODEL || kept.has(folded)) continue;
    // Each allowed character is one byte.
    if (kept.size === LIMITS.modelsPerWorker || bytes + name.length > LIMITS.modelBytesPerWorker) break;
    bytes += name.length;
    kept.set(folded, name);
  }
  return [...kept.values()];
}

export const Model = z
  .object({
    id: z.string().meta({ description: "The name, as the worker with the oldest connection announced it." }),
    object: z.literal("model"),
    created: z.int().min(0).meta({ description: "When the first of its workers connected, in seconds since the epoch." }),
    owned_by: z.literal("workers"),
    workers: z.int().min(1).meta({ description: "Connected workers that announced it." }),
  })
  .meta({ id: "Model" });
/** A model that connected workers offer. */
export type Model = z.infer<typeof Model>;

export const ModelList = z
  .object({
    object: z.literal("list"),
    data: z.array(Model).meta({ description: `At most ${LIMITS.modelsListed} models, those with the most workers first.` }),
    workers_online: z
      .int()
      .min(0)
      .meta({ description: "Connected workers that take `LLM_INFER`. It includes workers that announced no model, and excludes workers that are draining." }),
  })
  .meta({ id: "ModelList" });
/** Body of `GET /v1/models`: the model list of OpenAI's API with one more member, `workers_online` [JB10]. */
export type ModelList = z.infer<typeof ModelList>;

/** A connected worker that takes LLM_INFER. `network` is any name of its network, or of the worker itself if that is not known. */
export type Announcing = { models: readonly string[]; network: string; /** Milliseconds since the epoch. */ connectedAt: number };

/** A model, the networks of its workers, and its place among the names of the network that has it earliest. */
type Offered = { id: string; since: number; workers: number; networks: Set<string>; place: number };

/** Builds the body of `GET /v1/models` from the connected workers that take LLM_INFER. */
export function modelList(workers: Iterable<Announcing>): ModelList {
  const found = new Map<string, Offered>();
  const places = new Map<string, number>();
  let online = 0;
  for (const { models, network, connectedAt } of workers) {
    online++;
    for (const id of models) {
      const folded = id.toLowerCase();
      const model = found.get(folded) ?? { id, since: connectedAt, workers: 0, networks: new Set(), place: Infinity };
      found.set(folded, model);
      model.workers++;
      if (connectedAt < model.since) {
        model.id = id;
        model.since = connectedAt;
      }
      if (model.networks.has(network)) continue;
      model.networks.add(network);
      const place = places.get(network) ?? 0;
      places.set(network, place + 1);
      model.place = Math.min(model.place, place);
    }
  }
  const most = listed([...found.values()]).toSorted((a, b) => b.workers - a.workers || (a.id < b.id ? -1 : 1));
  const data = most.map(({ id, since, workers: count }): Model => {
    return { id, object: "model", created: Math.floor(since / 1_000), owned_by: "workers", workers: count };
  });
  return { object: "list", data, workers_online: online };
}

/**
 * As many models as a list may have: first those that many networks offer, then those of one network, from each network
 * in turn. So nobody can hide the models of others behind a thousand names.
 */
function listed(models: Offered[]): Offered[] {
  if (models.length <= LIMITS.modelsListed) return models;
  return models.toSorted((a, b) => b.networks.size - a.networks.size || a.place - b.place).slice(0, LIMITS.modelsListed);
}
