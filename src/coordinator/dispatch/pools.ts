// The pools in which jobs and workers that match find each other: by job type, tier and model. On a job's way: the claim looks into them.
import type { JobType } from "../../protocol/job.ts";
import type { OrderedPool } from "./ordered-pool.ts";

/** A job type, and `+` if the worker must be Verified. */
export type BasePool = `${JobType}${"" | "+"}`;
export const BASE_POOLS = ["LLM_INFER", "LLM_INFER+", "TASK", "TASK+"] as const satisfies readonly BasePool[];

/**
 * The name of a group of workers and jobs that match: a base pool for any model, or `LLM_INFER <model>` for one. ` #chat` at its end names those of its idle
 * workers that apply the messages of a chat; no model has such a name.
 */
export type PoolName = BasePool | `${BasePool} ${string}`;

/** Something for each pool. A pool exists only while something is in it, because strangers choose the names of models. */
export class Pools<T extends { readonly size: number }> {
  readonly #make: () => T;
  readonly #pools = new Map<PoolName, T>();

  constructor(make: () => T) {
    this.#make = make;
  }

  get(name: PoolName): T | undefined {
    return this.#pools.get(name);
  }

  /** Adds to a pool, or removes from it, and forgets it if it is empty then. */
  change(name: PoolName, isAdded: boolean, edit: (pool: T) => unknown): void {
    const known = this.#pools.get(name);
    if (known === undefined && !isAdded) return;
    const pool = known ?? this.#make();
    edit(pool);
    if (known === undefined) this.#pools.set(name, pool);
    else if (pool.size === 0) this.#pools.delete(name);
  }

  /** The number of pools with something in them. */
  get size(): number {
    return this.#pools.size;
  }
}

/** Puts an id in its place in a pool; removes it if it has none. */
export function placeIn(pools: Pools<OrderedPool>, name: PoolName, id: string, place: { order: number; seq: number } | null): void {
  pools.change(name, place !== null, (pool) => (place === null ? pool.remove(id) : pool.add(id, place.order, place.seq)));
}
