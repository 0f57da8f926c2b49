import { Random } from "./random.ts";
import type { World } from "./world.ts";

/** The shell's reading of the chain: every payment in doubt is read now and then until the chain decides. The RPC may be down, and shows only old blocks. */
export class ChainReader {
  readonly #world: World;
  /** Chance of its own, so that histories without a chain to read are as they were. */
  readonly #random: Random;
  readonly #reading = new Set<string>();

  constructor(world: World, seed: number) {
    this.#world = world;
    this.#random = new Random(seed + 0xc4a1);
  }

  note(key: string): void {
    if (!this.#world.hub.readsChain || this.#reading.has(key)) return;
    this.#reading.add(key);
    this.#readLater(key, 1_000);
  }

  #readLater(key: string, pause: number): void {
    const { agenda, chain, hub, money, plan } = this.#world;
    agenda.after(this.#random.between(pause / 2, pause), () => {
      // The doubt may have ended, or it was about what was never written.
      if (!hub.isInDoubt(key)) return void this.#reading.delete(key);
      const isDown = !this.#world.calm && this.#random.chance(plan.paying?.chainDown ?? 0);
      const finding = isDown ? null : chain.finding(money.authorization(key), agenda.now - (plan.paying?.finality ?? 0));
      if (finding === null) return this.#readLater(key, Math.min(pause * 2, 60_000));
      this.#reading.delete(key);
      // A word that comes too late: something else has decided meanwhile.
      agenda.after(this.#random.between(0, this.#random.pick([10, 3_000])), () => hub.found(key, finding));
    });
  }
}
