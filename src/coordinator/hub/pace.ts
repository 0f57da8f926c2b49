// Decides when the changes of a turn, a batch (batch.ts), are written (docs/decisions/0014). On a job's way: between each decision of dispatch and its rows.
import { endOfTurn } from "../deadline.ts";
import { TUNING } from "../tuning.ts";

/**
 * When the next batch is written. At rest that is the end of the turn that began it. Otherwise a timer of 0 ms fires first, so that everything that has come
 * meanwhile shares the write: the busier the hub is, the later such a timer fires, and the more events share it. A sync of the disk stops the hub. So after a
 * slow sync the hub waits for half as long as the sync took: all events that came during the sync then share one write.
 */
export class Pace {
  #writtenAt = 0;
  /** When the last write was on the disk, ms since the epoch; null while it is not. */
  #syncedAt: number | null = 0;
  #hasFailed = false;
  #isGathering = false;
  /** Whether a batch has begun while {@link gather} runs. */
  #hasBegun = false;

  /** Notes that a batch was written. */
  written(): void {
    this.#writtenAt = Date.now();
    this.#syncedAt = null;
    this.#hasFailed = false;
  }

  /** Notes that the last write is on the disk. */
  synced(): void {
    this.#syncedAt = Date.now();
  }

  failed(): void {
    this.#hasFailed = true;
  }

  /** True if the last write failed. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Calls `write` when the batch that begins now must be written, never during this call: its event may have more changes. */
  next(write: () => void): void {
    if (this.#isGathering) this.#hasBegun = true;
    // No timer at rest: even one of 0 ms is a millisecond late, twice in each job.
    else if (this.#isAtRest()) queueMicrotask(write);
    else setTimeout(write, this.left());
  }

  /**
   * Calls `read`, and `write` at the end of its turn: `read` brings all that has come so far, so a wait for more would only take time. After a slow sync or a
   * failed write it waits as {@link next} does.
   */
  async gather(read: () => void, write: () => void): Promise<void> {
    this.#isGathering = true;
    try {
      read();
    } finally {
      await endOfTurn();
      this.#isGathering = false;
      const hasBegun = this.#hasBegun;
      this.#hasBegun = false;
      if (this.left() === 0) write();
      else if (hasBegun) this.next(write);
    }
  }

  /** How long a batch that begins now collects changes at least, ms. A clock that was set back does not make it longer. */
  left(): number {
    if (this.#hasFailed) return TUNING.journalPause;
    const now = Date.now();
    const syncedAt = this.#syncedAt ?? now;
    return Math.max(0, Math.min(TUNING.journalGatheringMax, syncedAt + (syncedAt - this.#writtenAt) / 2 - now));
  }

  #isAtRest(): boolean {
    return !this.#hasFailed && this.#syncedAt !== null && Date.now() - this.#syncedAt >= TUNING.journalRest && this.left() === 0;
  }
}
