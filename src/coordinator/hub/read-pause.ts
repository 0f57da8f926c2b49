import { TUNING } from "../tuning.ts";
import { ChannelSocket } from "./channel-socket.ts";
import type { HubSocket } from "./sockets.ts";

/**
 * Stops all events of the hub for one round of the runtime's event loop [LM2]. workerd looks for requests, answers and timers only when nothing else is left to
 * do, and sockets whose clients send as fast as they can always leave it something: eight of them delayed a job by nine seconds. A frame that may not be read
 * asks for a pause, in which these sockets have to wait and everyone else is served. Each round then takes a few milliseconds.
 */
export class ReadPause {
  readonly #ctx: Pick<DurableObjectState, "blockConcurrencyWhile">;
  readonly #clock: () => number;
  #pausing = false;
  #endedAt = Number.NEGATIVE_INFINITY;

  constructor(ctx: Pick<DurableObjectState, "blockConcurrencyWhile">, clock: () => number) {
    this.#ctx = ctx;
    this.#clock = clock;
  }

  /** Pauses because of a socket, unless a pause is under way or has just been. The front keeps to a multiple of their rates those that end there. */
  take(ws: HubSocket): void {
    if (ws instanceof ChannelSocket || this.#pausing || Math.abs(this.#clock() - this.#endedAt) < TUNING.readPauseSpacing) return;
    this.#pausing = true;
    void this.#ctx.blockConcurrencyWhile(async () => {
      // A timer ends only after the runtime has looked at everything.
      await scheduler.wait(0);
      this.#pausing = false;
      this.#endedAt = this.#clock();
    });
  }
}
