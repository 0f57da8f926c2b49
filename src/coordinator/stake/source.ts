import type { Result } from "../../protocol/text.ts";
import type { Tier } from "../../protocol/worker-messages.ts";

/** The tier of one key, or why it could not be read. `reason` is a code of ours, never text from the source. */
export type TierResult = Result<Tier, string>;

/** A place where stakes of workers are read: table, EVM contract or SVM token accounts [ST1]. */
export interface StakeSource {
  /** The most keys of one `read`. */
  readonly keysPerRead: number;
  /**
   * Reads the present tiers of these keys (64 lowercase hex digits) and returns them in the same order. It takes a few seconds at most.
   * @throws {RpcFailure | StoreUnavailable} if no key could be read
   */
  read(keys: readonly string[]): Promise<TierResult[]>;
}
