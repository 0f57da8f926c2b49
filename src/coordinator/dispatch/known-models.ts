// The names of the models that workers offer: who offers one now, and when one was last offered. On a job's way: at the commit of an LLM_INFER.
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { FairShare } from "./shares.ts";

/** What is stored of a model: when its last worker left, ms since the epoch; null while one is connected. The empty name says when workers were last lost. */
export type StoredModel = { name: string; leftAt: number | null };

/** The models of the connected workers, and those that were offered a short time ago. Names are in lower case, times in ms since the epoch [JB10]. */
export class KnownModels {
  /** How many connected workers offer a model. */
  readonly #offers = new Map<string, number>();
  /** When the last worker of a model left, and from which network; the longest ago first. */
  readonly #left = new Map<string, { at: number; network: string | null }>();
  /** How many of these each network has. */
  readonly #leftOf = new FairShare({ most: Infinity, each: LIMITS.modelsRememberedPerNetwork });
  /** The models that a worker offered when the hub lost its memory. */
  readonly #offeredBefore = new Set<string>();
  /** The places of names in the indexes, by network. */
  readonly #places = new FairShare({ most: LIMITS.modelPlaces, each: LIMITS.modelPlacesPerNetwork });
  /** When workers were last lost with the hub, or when it first started; null before anything is known of it. */
  #lostAt: number | null = null;
  #hasFreePlaces = false;

  /**
   * Notes that a worker offers other models than before. A worker offers none before it connects and when it is gone. `kept` are the models that it has a place
   * for, `fresh` those that nobody offered before, `gone` those that nobody offers now.
   */
  change(network: string | null, before: readonly string[], after: readonly string[], now: number): { kept: string[]; fresh: string[]; gone: string[] } {
    this.#places.give(network, before.length);
    const kept = after.filter(() => this.#places.take(network));
    this.#hasFreePlaces ||= kept.length < before.length;
    const had = new Set(before);
    const has = new Set(kept);
    const fresh: string[] = [];
    for (const name of has) {
      if (had.has(name)) continue;
      const offers = this.#offers.get(name) ?? 0;
      // What was stored when the hub lost its memory need not be stored again.
      if (offers === 0 && !this.#offeredBefore.has(name)) fresh.push(name);
      this.#offers.set(name, offers + 1);
    }
    const gone: string[] = [];
    for (const name of had) {
      if (has.has(name)) continue;
      const offers = (this.#offers.get(name) ?? 0) - 1;
      if (offers > 0) this.#offers.set(name, offers);
      else {
        this.#offers.delete(name);
        this.#remember(name, now, network);
        gone.push(name);
      }
    }
    return { kept, fresh, gone };
  }

  /** True once after places were given back. */
  takeFreePlaces(): boolean {
    const had = this.#hasFreePlaces;
    this.#hasFreePlaces = false;
    return had;
  }

  /** Takes what is stored, the model that left the longest ago first. The open sockets come next. */
  restore(stored: readonly StoredModel[]): void {
    for (const { name, leftAt } of stored) {
      if (name === "") this.#lostAt = leftAt;
      else if (leftAt === null) this.#offeredBefore.add(name);
      else this.#remember(name, leftAt);
    }
  }

  /**
   * Call it when the open sockets have their workers again. Models whose workers are missing were lost with the hub:
   * they count as gone from now on. Returns what to store.
   */
  socketsRestored(now: number): StoredModel[] {
    const lost = [...this.#offeredBefore].filter((name) => !this.#offers.has(name));
    this.#offeredBefore.clear();
    for (const name of lost) this.#remember(name, now);
    if (lost.length === 0 && this.#lostAt !== null) return [];
    this.#lostAt = now;
    return ["", ...lost].map((name) => ({ name, leftAt: now }));
  }

  /** True if a job for this model may wait: a worker offers it, or did a short time ago, or workers that were lost may still come back. */
  isKnown(name: string, now: number): boolean {
    return this.#offers.has(name) || isRecent(this.#lostAt, TIMING.modelsReturn, now) || isRecent(this.#left.get(name)?.at, TIMING.modelRemembered, now);
  }

  /**
   * Forgets the oldest name if there are too many, in all or of one network. The limit per network keeps one network
   * from displacing the names of others with ever new names.
   */
  #remember(name: string, at: number, network: string | null = null): void {
    this.#forget(name);
    if (!this.#leftOf.take(network)) {
      for (const [other, { network: owner }] of this.#left) {
        if (owner !== network) continue;
        this.#forget(other);
        break;
      }
      this.#leftOf.add(network);
    }
    this.#left.set(name, { at, network });
    const [oldest] = this.#left.keys();
    if (this.#left.size > LIMITS.modelsRemembered && oldest !== undefined) this.#forget(oldest);
  }

  #forget(name: string): void {
    const known = this.#left.get(name);
    if (known === undefined) return;
    this.#left.delete(name);
    this.#leftOf.give(known.network);
  }
}

/** True until `period` has passed since this time. A time in the future counts too: it was noted before the clock was set back. */
function isRecent(at: number | null | undefined, period: number, now: number): boolean {
  return typeof at === "number" && now - at < period;
}
