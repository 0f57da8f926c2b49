import type { Tier } from "../../protocol/worker-messages.ts";
import type { Settings } from "../config.ts";
import { stakeOf } from "../store/stakes.ts";
import { tierOf } from "./tier.ts";

/** Where a worker's stake is read [ST1]. */
export interface StakeSource {
  /** The tier of a worker's key (64 lowercase hex), as it is now. Rejects when the source cannot be read: the caller then takes Open [ST2]. */
  tierOf(pubkey: string): Promise<Tier>;
}

/** The stake source that the settings name; null for `none`, where the tier table is not enforced [ST1]. */
export function stakeSource(settings: Pick<Settings, "stakeSource">, db: D1Database): StakeSource | null {
  switch (settings.stakeSource) {
    case "none":
      return null;
    case "table":
      return { tierOf: async (pubkey) => tierOf(await stakeOf(db, pubkey)) };
    default:
      return settings.stakeSource satisfies never;
  }
}
