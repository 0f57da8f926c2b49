import { one, type PlantedBug } from "./planted-bugs.ts";

/** Bugs about models and chats, for histories in which workers announce models. */
export const PLANTED_MODEL_BUGS: readonly PlantedBug[] = [
  one("JB10", "a job for a model goes to any worker", "workers.ts", "  return job.model === undefined ? base :", "  return true ? base :"),
  one(
    "JB10",
    "a free commit takes an unknown model",
    "reduce.ts",
    "if (job.model !== undefined && !state.models",
    "if (paying !== undefined && job.model !== undefined && !state.models",
  ),
  one("JB10", "a model is unknown as soon as its last worker has left", "known-models.ts", "        this.#remember(name, now, network);\n", ""),
  one("JB10", "when a model was last there is not stored", "workers.ts", 'ctx.rows.push({ type: "model", name, leftAt: ctx.now })', "void name"),
  one("JB10", "after a restart models are unknown before their workers are back", "known-models.ts", "    this.#lostAt = now;\n", ""),
  one("JB10", "that a model is offered is not stored", "workers.ts", 'ctx.rows.push({ type: "model", name, leftAt: null })', "void name"),
  one("JB10", "a worker that changes its models stays in its old pools", "workers.ts", "  if (isMoved) leavePools(state, worker);\n", ""),
  one(
    "JB10",
    "the model of a job is not saved",
    "snapshot.ts",
    "    ...(model !== undefined && { model }),\n    ...(isChat === true && { isChat }),\n  };",
    "  };",
  ),
  one("JB10", "an empty pool of a model is kept", "pools.ts", "pool.size === 0", "false"),
  one("JB12", "a chat goes to the least recently used worker", "workers.ts", "return job.isChat === true ? [chatPool(name), name] : [name];", "return [name];"),
  one("JB12", "a PRIVATE chat goes to the least recently used worker", "claim.ts", "isChat === true && one.chats !== other.chats", "false"),
];
