import type { Tier } from "../../protocol/worker-messages.ts";

/** The least stake of each tier above Open, in token units [SPEC]. */
const TIER_STAKE = { Verified: 100, Sentinel: 1_000 } as const satisfies Record<Exclude<Tier, "Open">, number>;

/** The tier that a stake of `amount` token units buys [SPEC]. What is not a number buys nothing. */
export function tierOf(amount: number): Tier {
  if (amount >= TIER_STAKE.Sentinel) return "Sentinel";
  return amount >= TIER_STAKE.Verified ? "Verified" : "Open";
}
