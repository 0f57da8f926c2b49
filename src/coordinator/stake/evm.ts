import { tierOfAtoms } from "../../protocol/worker-messages.ts";
import { askRpc, type RpcResult } from "../chain/json-rpc.ts";
import type { StakeSource, TierResult } from "./source.ts";

/** The selector of `stakeOf(bytes32)`: the first four bytes of its keccak-256. */
const STAKE_OF = "0x07177c9c";

/** A `uint256` as the ABI returns it: one word of 32 bytes. */
const WORD = /^0x[0-9a-fA-F]{64}$/;

/** The settings of `STAKE_SOURCE=evm`. `deadline` of one request is in ms. */
export type EvmStake = { rpcUrl: string; contract: string; decimals: number; deadline?: number };

/** `STAKE_SOURCE=evm`: reads the view `stakeOf(bytes32 pubkey) → uint256` of a staking contract at the latest block [ST1]. */
export class EvmSource implements StakeSource {
  /** The batch size that public RPCs accept. */
  readonly keysPerRead = 100;
  readonly #stake: EvmStake;

  constructor(stake: EvmStake) {
    this.#stake = stake;
  }

  async read(keys: readonly string[]): Promise<TierResult[]> {
    const { rpcUrl: url, contract: to, deadline } = this.#stake;
    const calls = keys.map((key) => ({ method: "eth_call", params: [{ to, data: STAKE_OF + key }, "latest"] }));
    const answers = await askRpc({ url, ...(deadline !== undefined && { deadline }) }, calls);
    return answers.map((answer) => this.#read(answer));
  }

  #read(answer: RpcResult): TierResult {
    if (!answer.ok) return answer;
    // The RPC answers `0x` if there is no contract at the address.
    if (answer.value === "0x") return { ok: false, reason: "no_contract" };
    if (typeof answer.value !== "string" || !WORD.test(answer.value)) return { ok: false, reason: "invalid_response" };
    return { ok: true, value: tierOfAtoms(BigInt(answer.value), this.#stake.decimals) };
  }
}
