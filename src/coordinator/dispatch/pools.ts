// Ordered sets of ids, and the pools in which jobs and workers that match find each other: by job type, tier and model. On a job's way: the claim looks into
// them.
import type { JobType } from "../../protocol/job.ts";

/** After this many skipped entries, all entries are read at once. */
const MOST_SKIPPED = 32;

type Place = { id: string; order: number; seq: number };
/** `at` is its index in the heap. */
type Entry = Place & { at: number };

/**
 * Ids in ascending order of a number; among equals the lower `seq` comes first. An indexed binary heap: every operation costs O(log n) at most, so the
 * cost of a claim hardly grows with the queue.
 */
export class OrderedPool {
  readonly #heap: Entry[] = [];
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#heap.length;
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Adds `id`, or moves it to its new place. */
  add(id: string, order: number, seq: number): void {
    let entry = this.#entries.get(id);
    if (entry === undefined) {
      entry = { id, order, seq, at: this.#heap.length };
      this.#heap.push(entry);
      this.#entries.set(id, entry);
    }
    entry.order = order;
    entry.seq = seq;
    this.#settle(entry);
  }

  /** The first id and its place; undefined when empty. */
  first(): Readonly<Place> | undefined {
    return this.#heap[0];
  }

  /** Removes `id` if it is there. */
  remove(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.#entries.delete(id);
    const last = this.#heap.pop();
    if (last === undefined || last === entry) return;
    this.#place(last, entry.at);
    this.#settle(last);
  }

  /**
   * The first entry, in order, that `accept` accepts; the entries before it stay. Costs O(log n) for each of the first entries that it skips. After these
   * it reads every entry once, because skipping most entries of a heap costs more than reading all of them.
   */
  firstWhere(accept: (id: string, order: number) => boolean): Readonly<Place> | undefined {
    const passed: Entry[] = [];
    let found: Entry | undefined;
    for (let entry = this.#heap[0]; entry !== undefined; entry = this.#heap[0]) {
      if (accept(entry.id, entry.order)) {
        found = entry;
        break;
      }
      if (passed.length === MOST_SKIPPED) {
        found = this.#leastWhere(accept);
        break;
      }
      passed.push(entry);
      this.remove(entry.id);
    }
    for (const entry of passed) this.add(entry.id, entry.order, entry.seq);
    return found;
  }

  /** Every id, in no particular order. */
  ids(): string[] {
    return this.#heap.map((entry) => entry.id);
  }

  #leastWhere(accept: (id: string, order: number) => boolean): Entry | undefined {
    let least: Entry | undefined;
    for (const entry of this.#heap) if ((least === undefined || isBefore(entry, least)) && accept(entry.id, entry.order)) least = entry;
    return least;
  }

  /** Moves an entry from its index, where it may not belong, to its place in the heap. */
  #settle(entry: Entry): void {
    let { at } = entry;
    while (at > 0) {
      const above = this.#heap[(at - 1) >> 1];
      if (above === undefined || !isBefore(entry, above)) break;
      const parent = above.at;
      this.#place(above, at);
      at = parent;
    }
    for (;;) {
      const left = this.#heap[2 * at + 1];
      const right = this.#heap[2 * at + 2];
      const child = left !== undefined && right !== undefined && isBefore(right, left) ? right : left;
      if (child === undefined || !isBefore(child, entry)) break;
      const below = child.at;
      this.#place(child, at);
      at = below;
    }
    this.#place(entry, at);
  }

  #place(entry: Entry, at: number): void {
    this.#heap[at] = entry;
    entry.at = at;
  }
}

/** True if `a` comes before `b`: by their order, and among equals by their sequence. */
export function isBefore(a: { order: number; seq: number }, b: { order: number; seq: number }): boolean {
  return a.order < b.order || (a.order === b.order && a.seq < b.seq);
}

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

  /** The pools with one of these names, where `accept` accepts the name. Costs as much as the smaller of both sets. */
  among(names: ReadonlySet<PoolName>, accept: (name: PoolName) => boolean = () => true): T[] {
    const found: T[] = [];
    for (const name of names.size <= this.#pools.size ? names : this.#pools.keys()) {
      const pool = this.#pools.get(name);
      if (pool !== undefined && names.has(name) && accept(name)) found.push(pool);
    }
    return found;
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

// A change only marks the worker or the network. The next claim that looks at the pool gives it its place. So the cost of a change does not grow with the
// models that a worker offers: strangers may name a hundred of them, and nobody may ever ask for one.

/** Workers of one pool, least recently used first. A busy one that a claim has seen is in neither set. */
export class IdlePool {
  /** The idle ones, by when they last got a job. */
  readonly order = new OrderedPool();
  /** Those that have changed since the last claim. */
  readonly moved = new Set<string>();

  get size(): number {
    return this.order.size + this.moved.size;
  }

  remove(key: string): void {
    this.order.remove(key);
    this.moved.delete(key);
  }

  /** Updates the place of each worker that has changed; removes one that is not idle. */
  place(placeOf: (key: string) => { order: number; seq: number } | null): void {
    for (const key of this.moved) {
      const place = placeOf(key);
      if (place === null) this.order.remove(key);
      else this.order.add(key, place.order, place.seq);
    }
    this.moved.clear();
  }
}

/** The networks with workers on probation in one pool. Each network with an idle one is in one of the three sets. */
export class Turns {
  /** Those with none at work, and the others, by their turn. */
  readonly free = new OrderedPool();
  readonly working = new OrderedPool();
  /** Those that have no place yet. */
  readonly moved = new Set<string>();

  get size(): number {
    return this.free.size + this.working.size + this.moved.size;
  }

  /** Notes a network that comes, or whose turn or workers have changed. */
  move(network: string): void {
    this.free.remove(network);
    this.working.remove(network);
    this.moved.add(network);
  }

  remove(network: string): void {
    this.free.remove(network);
    this.working.remove(network);
    this.moved.delete(network);
  }
}
