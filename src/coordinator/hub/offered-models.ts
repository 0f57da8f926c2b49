import { type Announcing, type ModelList, modelList } from "../../protocol/models.ts";
import { isWithin } from "../deadline.ts";
import { TUNING } from "../tuning.ts";
import { modelsIn } from "./attachment.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Sockets } from "./sockets.ts";

/** The models that a job can ask for now: those that connected workers announced, and that dispatch has a place for [JB10]. */
export class OfferedModels {
  readonly #parts: { sockets: Sockets; dispatcher: Dispatcher; clock: () => number };
  #names: { at: number; list: string[] } | null = null;

  constructor(parts: { sockets: Sockets; dispatcher: Dispatcher; clock: () => number }) {
    this.#parts = parts;
  }

  /** The body of `GET /v1/models`. With all the places of a hub taken it takes a tenth of a second, so callers keep it for a while. */
  list(): ModelList {
    return modelList(this.#announced());
  }

  /** The names for a refusal, at most a second old, because anyone can ask for a model that nobody has. */
  names(): string[] {
    const now = this.#parts.clock();
    if (this.#names === null || !isWithin(now, this.#names.at, TUNING.offeredModelsFresh)) {
      this.#names = { at: now, list: this.list().data.map(({ id }) => id) };
    }
    return this.#names.list;
  }

  *#announced(): Generator<Announcing, void, undefined> {
    const { workers } = this.#parts.dispatcher.state;
    for (const { conn, worker } of this.#parts.sockets.registered()) {
      if (worker.draining || !worker.capabilities.includes("LLM_INFER")) continue;
      const placed = new Set(workers.get(worker.key)?.models);
      const models = placed.size === 0 ? [] : modelsIn(worker.models).filter((name) => placed.has(name.toLowerCase()));
      yield { models, connectedAt: conn.attachment.openedAt };
    }
  }
}
