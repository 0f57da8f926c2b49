import { type Announcing, type ModelList, modelList } from "../../protocol/models.ts";
import { isWithin } from "../deadline.ts";
import { isKnownNetwork } from "../dispatch/index.ts";
import { TUNING } from "../tuning.ts";
import { modelsIn } from "./attachment.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Sockets } from "./sockets.ts";

/** The models that a job can ask for now: those that connected workers announced, and that dispatch has a place for [JB10]. */
export class OfferedModels {
  readonly #parts: { sockets: Sockets; dispatcher: Dispatcher; clock: () => number };
  #kept: { at: number; list: ModelList } | null = null;

  constructor(parts: { sockets: Sockets; dispatcher: Dispatcher; clock: () => number }) {
    this.#parts = parts;
  }

  /**
   * The body of `GET /v1/models`, at most as old as `fresh` (ms). With all the places of a hub taken it takes a tenth of a second, and each router asks for it
   * once a second.
   */
  list(fresh: number = TUNING.offeredModelsFresh): ModelList {
    const now = this.#parts.clock();
    if (this.#kept === null || !isWithin(now, this.#kept.at, fresh)) this.#kept = { at: now, list: modelList(this.#announced()) };
    return this.#kept.list;
  }

  /** The names for a refusal, at most a second old, because anyone can ask for a model that nobody has. */
  names(): string[] {
    return this.list(TUNING.refusedModelsFresh).data.map(({ id }) => id);
  }

  *#announced(): Generator<Announcing, void, undefined> {
    const { workers } = this.#parts.dispatcher.state;
    for (const { conn, worker } of this.#parts.sockets.registered()) {
      if (worker.draining || !worker.capabilities.includes("LLM_INFER")) continue;
      const placed = new Set(workers.get(worker.key)?.models);
      const models = placed.size === 0 ? [] : modelsIn(worker.models).filter((name) => placed.has(name.toLowerCase()));
      const { network } = workers.get(worker.key) ?? { network: "" };
      yield { models, network: isKnownNetwork(network) ? network : worker.key, connectedAt: conn.attachment.openedAt };
    }
  }
}
