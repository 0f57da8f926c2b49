import type { Tier } from "./worker-messages.ts";

/** The least stake of each tier above Open, in token units [SPEC]. */
const TIER_STAKE = { Verified: 100, Sentinel: 1_000 } as const satisfies Record<Exclude<Tier, "Open">, number>;

/** The tier that a stake of `amount` token units buys [SPEC]. What is not a number buys nothing. */
export function tierOf(amount: number): Tier {
  if (amount >= TIER_STAKE.Sentinel) return "Sentinel";
  return amount >= TIER_STAKE.Verified ? "Verified" : "Open";
}

/** The tier that `atoms` of a token with so many decimals buy [SPEC]. Exact: as a floating-point number 99.999999999999999999 would be 100. */
export function tierOfAtoms(atoms: bigint, decimals: number): Tier {
  const whole = atoms / 10n ** BigInt(decimals);
  return tierOf(whole > BigInt(TIER_STAKE.Sentinel) ? TIER_STAKE.Sentinel : Number(whole));
}
