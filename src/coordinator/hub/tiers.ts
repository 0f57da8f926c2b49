import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import type { EventOf } from "../dispatch/index.ts";
import { errorFacts, logError } from "../log.ts";
import { type StakeSource, type TierAnswer, TierReader } from "../stake/source.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Conn, Registered, Sockets } from "./sockets.ts";
import type { StakeSettings } from "../config.ts";
import { EvmSource } from "../stake/evm.ts";
import { SvmSource } from "../stake/svm.ts";
import { TableSource } from "../stake/table.ts";

/** Keys in a row, in widths of the reader, for which a source that is down is asked before a refresh gives up on it. */
const PATIENCE = 2;

type Parts = {
  source: StakeSource | null;
  sockets: Pick<Sockets, "registered" | "isHere" | "identify">;
  dispatcher: Pick<Dispatcher, "send"> & { apply: (event: EventOf<"tier">) => void };
  clock: () => number;
  /** In [0, 1). */
  random: () => number;
};

/** The stake tiers of the connected workers: read at registration, read again in the sweep, told to the core and to the worker [ST1, ST2]. */
export class Tiers {
  readonly #reader: TierReader | null;
  readonly #sockets: Parts["sockets"];
  readonly #dispatcher: Parts["dispatcher"];
  readonly #clock: () => number;
  readonly #random: () => number;
  #refreshing = false;
  #notBefore = 0;

  constructor(parts: Parts) {
    this.#reader = parts.source && new TierReader(parts.source, parts.clock);
    this.#sockets = parts.sockets;
    this.#dispatcher = parts.dispatcher;
    this.#clock = parts.clock;
    this.#random = parts.random;
  }

  /** The tier of a key that registers, and when to read it again. */
  async first(key: string): Promise<Pick<Registered, "tier" | "tierDue">> {
    if (this.#reader === null) return { tier: "Open", tierDue: 0 };
    // After a deploy all workers come at once: their next reads are spread over all sweeps until then, or they would fall into two.
    return this.#standing(await this.#reader.read(key), TIMING.stakeRefresh - TIMING.sweep);
  }

  /**
   * Reads the tiers that are due again, a limited number of them, those first that have waited longest. Two refreshes never overlap, and their times
   * are kept with the sockets: a hub that sleeps between sweeps asks no more often. Never throws.
   */
  async refresh(): Promise<void> {
    const now = this.#clock();
    // The alarm rings for other reasons than the sweep too.
    if (this.#reader === null || this.#refreshing || (now < this.#notBefore && this.#notBefore <= now + TIMING.sweep)) return;
    this.#refreshing = true;
    this.#notBefore = now + TIMING.sweep / 2;
    try {
      await this.#readAgain(this.#reader, now);
    } catch (error) {
      logError("tiers_failed", errorFacts(error));
    } finally {
      this.#refreshing = false;
    }
  }

  async #readAgain(reader: TierReader, now: number): Promise<void> {
    const due = this.#sockets.registered().filter(({ worker }) => worker.tierDue <= now);
    const queue = due
      .toSorted((a, b) => a.worker.tierDue - b.worker.tierDue)
      .slice(0, LIMITS.stakesPerSweep)
      .values();
    let unanswered = 0;
    const go = async (): Promise<void> => {
      for (const { conn, worker } of queue) {
        // A source that is down would take its whole deadline for each.
        const answered = unanswered < reader.width * PATIENCE ? await reader.read(worker.key) : null;
        unanswered = answered === null ? unanswered + 1 : 0;
        this.#keep(conn, worker, this.#standing(answered, TIMING.stakeSpread));
      }
    };
    await Promise.all(Array.from({ length: Math.min(due.length, reader.width) }, go));
  }

  /** A tier that cannot be read is Open, and read again in the next sweep [ST2]. */
  #standing(answered: TierAnswer, spread: number): Pick<Registered, "tier" | "tierDue"> {
    const now = this.#clock();
    if (answered?.ok !== true) return { tier: "Open", tierDue: now + TIMING.sweep };
    return { tier: answered.value, tierDue: now + TIMING.stakeRefresh - this.#random() * spread };
  }

  #keep(conn: Conn, asked: Registered, standing: { tier: Tier; tierDue: number }): void {
    const { worker } = conn.attachment;
    // Since the question the socket may have gone, or its key have come back on another, with a younger answer.
    if (worker?.id !== asked.id || !this.#sockets.isHere(conn)) return;
    this.#sockets.identify(conn, { ...worker, ...standing });
    if (worker.tier === standing.tier) return;
    this.#dispatcher.send(conn.attachment.conn, { type: "tier", tier: standing.tier });
    this.#dispatcher.apply({ type: "tier", key: worker.key, tier: standing.tier });
  }
}

/** The stake source that the settings name; null for `none`, where the tier table is not enforced [ST1]. */
export function stakeSource(stake: StakeSettings, db: () => D1Database): StakeSource | null {
  switch (stake.source) {
    case "none":
      return null;
    case "table":
      return new TableSource(db);
    case "evm":
      return new EvmSource(stake);
    case "svm":
      return new SvmSource(stake);
    default:
      return stake satisfies never;
  }
}
