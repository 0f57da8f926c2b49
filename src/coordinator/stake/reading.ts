import type { Tier } from "../../protocol/worker-messages.ts";

/** What a source says of one key. `reason` is a code, never anything that the other side wrote. */
export type Reading = { ok: true; tier: Tier } | { ok: false; reason: string };

/** Where the stakes of workers are read [ST1]. */
export interface StakeSource {
  /** Keys that one `read` takes at most. */
  readonly keysPerRead: number;
  /**
   * Reads the tiers of these keys (64 lowercase hex) as they are now, in their order. Takes a few seconds at most.
   * @throws {RpcFailure | StoreUnavailable} when nothing could be read
   */
  read(keys: readonly string[]): Promise<Reading[]>;
}
