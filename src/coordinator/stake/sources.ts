// The sources of stakes on a chain: a contract on EVM, token accounts on Solana [ST1]; table.ts has the operator's own table. A tier is read at registration
// and every few minutes.
import { base58 } from "@scure/base";
import * as z from "zod";
import type { Result } from "../../protocol/result.ts";
import { type Tier, tierOfAtoms } from "../../protocol/worker-messages.ts";
import { askRpc, type RpcCall, RpcFailure, type RpcResult } from "../chain/json-rpc.ts";
import { TOKEN_PROGRAMS } from "../chain/svm-transaction.ts";

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

/** The selector of `stakeOf(bytes32)`: the first four bytes of its keccak-256. */
const STAKE_OF = "0x07177c9c";

/** A `uint256` as the ABI returns it: one word of 32 bytes. */
const WORD = /^0x[0-9a-fA-F]{64}$/;

/** The settings of `STAKE_SOURCE=evm`. `deadline` of one request is in ms. */
type EvmStake = { rpcUrl: string; contract: string; decimals: number; deadline?: number };

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

const MAX_U64 = 2n ** 64n - 1n;

const TokenAccounts = z.object({
  value: z.array(
    z.object({
      account: z.object({
        owner: z.enum(TOKEN_PROGRAMS),
        data: z.object({
          parsed: z.object({
            info: z.object({
              mint: z.string(),
              owner: z.string(),
              tokenAmount: z.object({
                amount: z
                  .string()
                  .regex(/^\d{1,20}$/)
                  .transform(BigInt)
                  .refine((amount) => amount <= MAX_U64),
                decimals: z.int().min(0).max(255),
              }),
            }),
          }),
        }),
      }),
    }),
  ),
});

/** The settings of `STAKE_SOURCE=svm`. `deadline` of one request is in ms. */
type SvmStake = { rpcUrl: string; mint: string; deadline?: number };

/** `STAKE_SOURCE=svm`: reads the finalized balance of a mint in all token accounts of the worker's key, which is a Solana address [ST1]. */
export class SvmSource implements StakeSource {
  /** One, because Solana's RPCs count every call of a batch or refuse batches. */
  readonly keysPerRead = 1;
  readonly #stake: SvmStake;

  constructor(stake: SvmStake) {
    this.#stake = stake;
  }

  async read(keys: readonly string[]): Promise<TierResult[]> {
    return Promise.all(keys.map((key) => this.#read(key)));
  }

  async #read(key: string): Promise<TierResult> {
    const { mint } = this.#stake;
    const address = base58.encode(Buffer.from(key, "hex"));
    // A mint belongs to one token program. The node finds out which.
    const params = [address, { mint }, { encoding: "jsonParsed", commitment: "finalized" }];
    const answer = await this.#ask({ method: "getTokenAccountsByOwner", params });
    if (!answer.ok) return answer;
    const accounts = TokenAccounts.safeParse(answer.value);
    if (!accounts.success) return { ok: false, reason: "invalid_response" };
    const infos = accounts.data.value.map(({ account }) => account.data.parsed.info);
    const decimals = infos[0]?.tokenAmount.decimals ?? 0;
    let atoms = 0n;
    for (const info of infos) {
      if (info.mint !== mint || info.owner !== address || info.tokenAmount.decimals !== decimals) return { ok: false, reason: "invalid_response" };
      atoms += info.tokenAmount.amount;
    }
    return { ok: true, value: tierOfAtoms(atoms, decimals) };
  }

  async #ask(call: RpcCall): Promise<RpcResult> {
    const { rpcUrl: url, deadline } = this.#stake;
    try {
      const [answer] = await askRpc({ url, ...(deadline !== undefined && { deadline }) }, [call]);
      return answer ?? { ok: false, reason: "invalid_response" };
    } catch (error) {
      // Anyone can open token accounts for any key. So an answer that is too large is a fault of this key only, not of the node.
      if (error instanceof RpcFailure && error.reason === "too_large") return { ok: false, reason: error.reason };
      throw error;
    }
  }
}
