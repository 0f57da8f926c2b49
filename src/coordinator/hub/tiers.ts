// Reads the stake tiers of workers at registration and again in the sweep. A claim uses the tier that was read last, and never waits for one.
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import type { Tier } from "../../protocol/worker-messages.ts";
import type { StakeSettings } from "../config.ts";
import type { EventOf } from "../dispatch/index.ts";
import { errorFacts, logError } from "../log.ts";
import { EvmSource, type StakeSource, SvmSource } from "../stake/sources.ts";
import { TableSource } from "../stake/table.ts";
import { type TierAnswer, TierReader } from "../stake/tier-reader.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Registered } from "./attachment.ts";
import type { Conn, Sockets } from "./sockets.ts";

/** A refresh gives up on a source after this many full reads without an answer. */
const PATIENCE = 2;

type Parts = {
  source: StakeSource | null;
  sockets: Pick<Sockets, "registered" | "isHere" | "identify">;
  dispatcher: Pick<Dispatcher, "send"> & { apply: (event: EventOf<"tier">) => void };
  clock: () => number;
  /** In [0, 1). */
  random: () => number;
};

/** The stake tiers of the connected workers. They are read at registration and again in the sweep; core and worker are told when one changes [ST1, ST2]. */
export class Tiers {
  readonly #reader: TierReader | null;
  readonly #sockets: Parts["sockets"];
  readonly #dispatcher: Parts["dispatcher"];
  readonly #clock: () => number;
  readonly #random: () => number;
  #refreshing = false;
  #notBefore = 0;
  /** Until then a registration does not wait for the source, because it did not answer; ms since the epoch. */
  #downUntil = 0;

  constructor(parts: Parts) {
    this.#reader = parts.source && new TierReader(parts.source, parts.clock);
    this.#sockets = parts.sockets;
    this.#dispatcher = parts.dispatcher;
    this.#clock = parts.clock;
    this.#random = parts.random;
  }

  /** Reads the tier of a key that registers, and sets when to read it again. */
  async readAtRegistration(key: string): Promise<Pick<Registered, "tier" | "tierDue">> {
    if (this.#reader === null) return { tier: "Open", tierDue: 0 };
    const now = this.#clock();
    // A registration does not wait for a source that has just failed: that would take the whole deadline. The sweep reads the tier soon.
    if (now < this.#downUntil && this.#downUntil <= now + TIMING.sweep) return this.#tierWithDue(null, 0);
    // After a deploy all workers come at once. Their next reads are spread over many sweeps; otherwise they would fall into two of them.
    return this.#tierWithDue(await this.#read(this.#reader, key), TIMING.stakeRefresh - TIMING.sweep);
  }

  /**
   * Reads the tiers that are due again, a limited number of them, the longest overdue first. Two refreshes never overlap. The time of the next read is stored
   * with the socket, so a hub that sleeps between sweeps reads no more often. Never throws.
   */
  async refresh(): Promise<void> {
    const now = this.#clock();
    // The alarm runs for other reasons than the sweep too.
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
        // A source that is down takes its whole deadline for each read.
        const answered = unanswered < reader.width * PATIENCE ? await this.#read(reader, worker.key) : null;
        unanswered = answered === null ? unanswered + 1 : 0;
        this.#keep(conn, worker, this.#tierWithDue(answered, TIMING.stakeSpread));
      }
    };
    await Promise.all(Array.from({ length: Math.min(due.length, reader.width) }, go));
  }

  async #read(reader: TierReader, key: string): Promise<TierAnswer> {
    const answered = await reader.read(key);
    this.#downUntil = answered === null ? this.#clock() + TIMING.sweep : 0;
    return answered;
  }

  /** The tier and when to read it again. A tier that cannot be read is Open, and is read again in the next sweep [ST2]. */
  #tierWithDue(answered: TierAnswer, spread: number): Pick<Registered, "tier" | "tierDue"> {
    const now = this.#clock();
    if (answered?.ok !== true) return { tier: "Open", tierDue: now + TIMING.sweep };
    return { tier: answered.value, tierDue: now + TIMING.stakeRefresh - this.#random() * spread };
  }

  #keep(conn: Conn, asked: Registered, read: { tier: Tier; tierDue: number }): void {
    const { worker } = conn.attachment;
    // Meanwhile the socket may be gone, or its worker may have registered on another one, with a newer answer.
    if (worker?.id !== asked.id || !this.#sockets.isHere(conn)) return;
    this.#sockets.identify(conn, { ...worker, ...read });
    if (worker.tier === read.tier) return;
    this.#dispatcher.send(conn.id, { type: "tier", tier: read.tier });
    this.#dispatcher.apply({ type: "tier", key: worker.key, tier: read.tier });
  }
}

/** The stake source that the settings name; null for `none`: then the tier table is not enforced [ST1]. */
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
