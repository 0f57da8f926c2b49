import type { StakeSettings } from "../config.ts";
import { EvmSource } from "./evm-source.ts";
import type { StakeSource } from "./reading.ts";
import { SvmSource } from "./svm-source.ts";
import { TableSource } from "./table-source.ts";

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
