// The connections of the front whose clients read nothing of what waits for them. Pure.
import type { Client } from "./front-clients.ts";

/** A client that reads nothing for so long, although bytes wait for it, is dropped: workerd would keep all that follows. */
export const STALLED_MS = 60_000;
/**
 * How many connections may have a client that reads nothing. If there is one more, the client with the most of them loses its oldest one. workerd or the front
 * keeps up to a few MiB for each. A client that only reads slowly hardly ever counts: first the buffers of the system must be full.
 */
export const MOST_STALLED = 128;

/** A connection that can stall, and who is counted for it; null if nobody is known. */
export type Stalling = { readonly owner: Client | null; end(): void };

/** All that stall, in the order in which they began. Times are ms of a monotonic clock. */
export class Stalls {
  readonly #most: number;
  readonly #since = new Map<Stalling, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Notes that a client reads nothing from now on. If that is one too many, one of them is ended. */
  begin(connection: Stalling, now: number): void {
    if (this.#since.has(connection)) return;
    this.#since.set(connection, now);
    if (this.#since.size <= this.#most) return;
    // The client with the most loses one. So a client with many connections cannot cause the loss of another client's connection.
    const shares = [...Map.groupBy(this.#since.keys(), ({ owner }) => owner).values()];
    shares.reduce((one, other) => (other.length > one.length ? other : one))[0]?.end();
  }

  /** The client reads again, or is gone. */
  end(connection: Stalling): void {
    this.#since.delete(connection);
  }

  has(connection: Stalling): boolean {
    return this.#since.has(connection);
  }

  /** True if it has stalled for too long. */
  isLate(connection: Stalling, now: number): boolean {
    return now - (this.#since.get(connection) ?? now) > STALLED_MS;
  }
}
