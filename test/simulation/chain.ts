import type { Finding } from "../../src/coordinator/dispatch/index.ts";

/** An authorization as its payer signed it: who pays how much, and until when. */
export type Authorization = { key: string; payer: string; asset: string; amount: number; expiresAt: number };

/** Why a chain does not move money. */
export type Reverted = "used" | "expired" | "poor";

/** The chain: an authorization moves its money at most once, until it expires, and only if it is there; its payer may cancel it before. */
export class Chain {
  readonly #balances: Map<string, number>;
  /** Authorizations that have moved their money, and those that were cancelled, each with the time. */
  readonly moved = new Map<string, number>();
  readonly cancelled = new Map<string, number>();

  constructor(balances: readonly (readonly [string, number])[]) {
    this.#balances = new Map(balances);
  }

  /** Why this authorization would not move its money now; null when it would. */
  obstacle({ key, payer, amount, expiresAt }: Authorization, now: number): Reverted | null {
    if (this.moved.has(key) || this.cancelled.has(key)) return "used";
    if (expiresAt <= now) return "expired";
    return (this.#balances.get(payer) ?? 0) < amount ? "poor" : null;
  }

  move(authorization: Authorization, now: number): Reverted | null {
    const obstacle = this.obstacle(authorization, now);
    if (obstacle !== null) return obstacle;
    const { key, payer, amount } = authorization;
    this.moved.set(key, now);
    this.#balances.set(payer, (this.#balances.get(payer) ?? 0) - amount);
    return null;
  }

  cancel(key: string, now: number): void {
    if (!this.moved.has(key) && !this.cancelled.has(key)) this.cancelled.set(key, now);
  }

  /** What the blocks show that were finalized at this time; null while they show nothing. */
  finding({ key, expiresAt }: Authorization, finalizedAt: number): Finding | null {
    if ((this.moved.get(key) ?? Infinity) <= finalizedAt) return { kind: "settled", transaction: `tx ${key}` };
    if ((this.cancelled.get(key) ?? Infinity) <= finalizedAt) return { kind: "void", proof: "cancelled" };
    return expiresAt <= finalizedAt ? { kind: "void", proof: "expired" } : null;
  }
}
