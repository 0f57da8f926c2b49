import type { Tier } from "../../protocol/worker-messages.ts";
import type { StakeSettings } from "../config.ts";
import { EvmSource } from "./evm-source.ts";
import { SvmSource } from "./svm-source.ts";
import { TableSource } from "./table-source.ts";

/** What a source says of one key. `reason` is a code, never anything that the other side wrote. */
export type Reading = { ok: true; tier: Tier } | { ok: false; reason: string };

/** Where the stakes of workers are read [ST1]. */
export interface StakeSource {
  /** Keys that one `read` takes at most. */
  readonly keysPerRead: number;
  /**
   * Reads the tiers of these keys (64 lowercase hex) as they are now, in their order. Takes 5 s at most.
   * @throws {RpcFailure | StoreUnavailable} when nothing could be read
   */
  read(keys: readonly string[]): Promise<Reading[]>;
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
