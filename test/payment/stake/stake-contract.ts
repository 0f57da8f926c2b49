// Deploys and calls the example staking contract on the lab's EVM chain.
import { type Abi, BaseError, ContractFunctionRevertedError, parseAbi, toHex } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import ARTIFACTS from "../contracts/artifacts.json" with { type: "json" };
import type { EvmChain } from "../evm/chain.ts";

type Hex = `0x${string}`;

/** What is called of contracts/Stake.sol. */
export const STAKE_ABI = parseAbi([
  "constructor(address token, uint256 cooldown)",
  "function stake(bytes32 pubkey, uint256 amount)",
  "function unstake(bytes32 pubkey, uint256 amount)",
  "function withdraw()",
  "function stakeOf(bytes32 pubkey) view returns (uint256)",
  "function stakedBy(bytes32 pubkey, address staker) view returns (uint256)",
  "function exitOf(address staker) view returns (uint256 amount, uint256 availableAt)",
  "error NothingToMove()",
  "error MoreThanStaked(uint256 staked)",
  "error CoolingDown(uint256 availableAt)",
  "error TransferFailed()",
  "error CooldownTooLong()",
]);
const ERC20_ABI = parseAbi(["function approve(address spender, uint256 value) returns (bool)"]);

/** A deployed staking contract. Amounts in the token's smallest units, keys as workers name them. */
export type StakeContract = {
  readonly address: Hex;
  /** Calls one of its functions as somebody and has it mined; `ok`, or the name of the error. */
  as(staker: PrivateKeyAccount, functionName: "stake" | "unstake", key: string, amount: bigint): Promise<string>;
  withdraw(staker: PrivateKeyAccount): Promise<string>;
  approve(staker: PrivateKeyAccount, amount: bigint): Promise<string>;
  stakeOf(key: string): Promise<bigint>;
};

/** Deploys it for a token of the chain. @throws when the chain refuses */
export async function deployStake(chain: EvmChain, options: { token?: Hex; cooldownSeconds: number }): Promise<StakeContract> {
  const { clients, payers, token: usdc } = chain;
  const [deployer] = payers;
  if (deployer === undefined) throw new Error("nobody can pay for the deployment");
  const token = options.token ?? usdc;
  // The stakers send their own transactions, which payers of jobs do not.
  await Promise.all(payers.map(({ address }) => clients.test.setBalance({ address, value: 1_000n * 10n ** 18n })));
  const bytecode = ARTIFACTS.Stake.bytecode as Hex;
  const hash = await clients.wallet.deployContract({ abi: STAKE_ABI, bytecode, args: [token, BigInt(options.cooldownSeconds)], account: deployer });
  const { contractAddress: address } = await clients.public.waitForTransactionReceipt({ hash });
  if (address == null) throw new Error("the contract was not deployed");

  const send = async (account: PrivateKeyAccount, to: Hex, abi: Abi, functionName: string, args: readonly unknown[]): Promise<string> => {
    try {
      const { request } = await clients.public.simulateContract({ address: to, abi, functionName, args, account });
      const { status } = await clients.public.waitForTransactionReceipt({ hash: await clients.wallet.writeContract(request) });
      return status === "success" ? "ok" : status;
    } catch (error) {
      const reverted = error instanceof BaseError ? error.walk((cause) => cause instanceof ContractFunctionRevertedError) : null;
      if (reverted instanceof ContractFunctionRevertedError) return reverted.data?.errorName ?? reverted.reason ?? "reverted";
      throw error;
    }
  };
  return {
    address,
    as: (staker, functionName, key, amount) => send(staker, address, STAKE_ABI, functionName, [bytes32(key), amount]),
    withdraw: (staker) => send(staker, address, STAKE_ABI, "withdraw", []),
    approve: (staker, amount) => send(staker, token, ERC20_ABI, "approve", [address, amount]),
    stakeOf: (key) => clients.public.readContract({ address, abi: STAKE_ABI, functionName: "stakeOf", args: [bytes32(key)] }),
  };
}

function bytes32(key: string): Hex {
  return toHex(Buffer.from(key, "hex"), { size: 32 });
}
