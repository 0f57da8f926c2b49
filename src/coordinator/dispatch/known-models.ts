// The names of the models that workers offer: who offers one now, and when one was last offered. On a job's way: at the commit of an LLM_INFER.
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { FairShare } from "./fair-share.ts";

/** The models of the connected workers, and those that were offered a short time ago. Names are in lower case, times in ms since the epoch [JB10]. */
export class KnownModels {
  /** How many connected workers offer a model. */
  readonly #offers = new Map<string, number>();
  /** When the last worker of a model left, the longest ago first. */
  readonly #left = new Map<string, number>();
  /** The places of names in the indexes, by network. */
  readonly #places = new FairShare({ most: LIMITS.modelPlaces, each: LIMITS.modelPlacesPerNetwork });
  /** Until when a name may be missing only because its workers have not come back yet. */
  #incompleteUntil = Number.NEGATIVE_INFINITY;

  /** Notes the models of a worker that connects. Returns those that it has a place for: the first ones. */
  enter(network: string | null, models: readonly string[]): string[] {
    const kept = models.filter(() => this.#places.take(network));
    for (const name of kept) this.#offers.set(name, (this.#offers.get(name) ?? 0) + 1);
    return kept;
  }

  /** Notes that a worker offers these models no more. Returns those that nobody offers now. */
  leave(network: string | null, models: readonly string[], now: number): string[] {
    const gone: string[] = [];
    for (const name of models) {
      this.#places.give(network);
      const offers = (this.#offers.get(name) ?? 0) - 1;
      if (offers > 0) this.#offers.set(name, offers);
      else {
        this.#offers.delete(name);
        this.remember(name, now);
        gone.push(name);
      }
    }
    return gone;
  }

  /** Notes when a model was last offered. Of too many names the oldest is forgotten. */
  remember(name: string, at: number): void {
    this.#left.delete(name);
    this.#left.set(name, at);
    const [oldest] = this.#left.keys();
    if (this.#left.size > LIMITS.modelsRemembered && oldest !== undefined) this.#left.delete(oldest);
  }

  /** All workers have lost their sockets with the hub: for a while any model may come back. */
  startedEmpty(now: number): void {
    this.#incompleteUntil = now + TIMING.modelsReturn;
  }

  /** True if a job for this model may wait: a worker offers it, or did a short time ago, or may have before the hub started. */
  isKnown(name: string, now: number): boolean {
    if (this.#offers.has(name) || now < this.#incompleteUntil) return true;
    const left = this.#left.get(name);
    // A time in the future was noted before the clock was set back.
    return left !== undefined && now < Math.min(left, now) + TIMING.modelRemembered;
  }
}
