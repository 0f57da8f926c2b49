// The order of idle workers, and of the networks on probation, in one pool [JB3, JB11]. On a job's way: the claim takes the first one.
// A change only marks the worker or the network. A claim that looks at the pool then sorts it in. So a change costs the same however many models a worker offers:
// strangers may name a hundred of them, and nobody may ever ask for one.
import { OrderedPool } from "./pools.ts";

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

  /** Gives those that have changed their present place, which is null for a worker that is not idle. */
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
