// The turns of the networks on probation in one pool [JB11]. On a job's way: the claim takes the first one.
import { OrderedPool } from "./pools.ts";

/**
 * The networks with an idle worker on probation in one pool. A network whose turn has changed is only noted, and gets its place when a claim looks at the
 * pool: strangers may name a thousand models, and nobody may ever ask for them. Each network is in one of the three sets.
 */
export class Turns {
  /** Those with none at work, and the others, by their turn. */
  readonly free = new OrderedPool();
  readonly working = new OrderedPool();
  /** Those that have no place yet. */
  readonly moved = new Set<string>();

  get size(): number {
    return this.free.size + this.working.size + this.moved.size;
  }

  /** Notes a network that comes, or whose turn has changed. */
  move(network: string): void {
    this.remove(network);
    this.moved.add(network);
  }

  remove(network: string): void {
    this.free.remove(network);
    this.working.remove(network);
    this.moved.delete(network);
  }
}
