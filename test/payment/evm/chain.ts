// The EVM side of the payment lab: a local chain with its tokens, its payee and its payers.
import {
  createPublicClient,
  createTestClient,
  createWalletClient,
  defineChain,
  encodeDeployData,
  encodeFunctionData,
  getContractAddress,
  http,
  multicall3Abi,
} from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import ARTIFACTS from "../contracts/artifacts.json" with { type: "json" };
import { type Role, secretOf } from "../keys.ts";
import type { EvmPayload } from "../pay/evm.ts";
import { startAnvil } from "./anvil.ts";
import type { Received } from "../support/books.ts";
import { TOKEN_ABI, TOKEN_EVENTS, TOKEN_TYPES, tokenDomain } from "./token.ts";

/** Monad's testnet, which the EVM instance runs on. */
export const EVM_CHAIN_ID = 10_143;
/** Its CAIP-2 id. */
export const EVM_NETWORK = `eip155:${EVM_CHAIN_ID}` as const;

/** Where Multicall3 is on every chain; facilitators ask it why a payment fails. In the lab it is the minter too: one transaction gives money to many. */
const MULTICALL_ADDRESS = "0xcA11bde05977b3631167028862bE2a173976CA11";
const ETHER = 10n ** 18n;
/** Enough for any call of the lab; a fixed fee saves two requests per transaction. */
const FEES = { maxFeePerGas: 20n * 10n ** 9n, maxPriorityFeePerGas: 10n ** 9n } as const;
const POLL_MS = 20;
/** How many people get their money in one transaction: a block of anvil holds 30 million gas, and each needs 110,000 for both tokens. */
const GRANTS_AT_ONCE = 100;

type Hex = `0x${string}`;
type Clients = ReturnType<typeof clientsOf>;

/** What the EVM side starts with. */
export type EvmOptions = {
  /** Of anvil; 0 takes a free one. */
  port?: number;
  /** Seconds between blocks, 0.4 as on Monad; null (default) mines each transaction at once. */
  blockTime?: number | null;
  /** How many payers with money. */
  payers?: number;
  /** What each of them gets, in millionths of a dollar. */
  balance?: bigint;
  /** What the payer `poor` gets: less than the cheapest price. */
  poorBalance?: bigint;
};

/** A local EVM chain with a USDC, its payee and its payers. */
export type EvmChain = {
  readonly network: typeof EVM_NETWORK;
  readonly rpcUrl: string;
  readonly token: Hex;
  /** Another token with the same interface, of which everybody has as much: the wrong asset. */
  readonly otherToken: Hex;
  readonly payTo: Hex;
  readonly payers: readonly PrivateKeyAccount[];
  readonly poor: PrivateKeyAccount;
  /** Nobody's business partner: the wrong payee. */
  readonly outsider: PrivateKeyAccount;
  readonly facilitator: PrivateKeyAccount;
  readonly clients: Clients;
  /** In millionths of a dollar. */
  balanceOf(owner: Hex): Promise<bigint>;
  /** Those of many, in one request. */
  balancesOf(owners: readonly Hex[]): Promise<bigint[]>;
  mint(to: Hex, value: bigint): Promise<void>;
  /** Moves money without x402, as a payer does who empties the account. */
  transfer(from: PrivateKeyAccount, to: Hex, value: bigint): Promise<void>;
  /** Whether an authorization was used or cancelled. */
  isNonceUsed(from: Hex, nonce: Hex): Promise<boolean>;
  /** Cancels an authorization on chain, as its payer. */
  cancel(from: PrivateKeyAccount, nonce: Hex): Promise<void>;
  /** Uses the nonce of an authorization on chain for a payment of its payer to himself. */
  spendNonce(from: PrivateKeyAccount, nonce: Hex): Promise<void>;
  /** What the payee has got by authorizations, since the chain began. */
  received(): Promise<Received[]>;
  /** How many transactions wait for a block. */
  pending(): Promise<number>;
  /** Sends a signed authorization to the chain, as anybody may. */
  submit(from: PrivateKeyAccount, payload: EvmPayload): Promise<void>;
  /** Makes so many blocks that everything so far is finalized, also while it makes none by itself. */
  finalize(): Promise<void>;
  /** True between `pause` and `resume`. */
  readonly isPaused: boolean;
  /** Stops making blocks: transactions wait. */
  pause(): Promise<void>;
  /** Makes blocks again, one at once. */
  resume(): Promise<void>;
  stop(): Promise<void>;
};

const accounts = new Map<Role, PrivateKeyAccount>();

/** The account of a role, the same in each lab of this process. */
export function evmAccount(role: Role): PrivateKeyAccount {
  const account = accounts.get(role) ?? privateKeyToAccount(`0x${secretOf(role).toString("hex")}`);
  accounts.set(role, account);
  return account;
}

/** Starts anvil, deploys both tokens and hands out money. @throws when anvil does not start */
export async function startEvmChain(options: EvmOptions = {}): Promise<EvmChain> {
  const { blockTime = null, payers: count = 8, balance = 100_000_000n, poorBalance = 500n } = options;
  const anvil = await startAnvil({ port: options.port ?? 0, chainId: EVM_CHAIN_ID, blockTime });
  try {
    const clients = clientsOf(anvil.url);
    const deployer = evmAccount("deployer");
    const payers = Array.from({ length: count }, (_, index) => evmAccount(`payer-${index}`));
    const [poor, outsider, facilitator] = [evmAccount("poor"), evmAccount("outsider"), evmAccount("facilitator")];
    const payTo = evmAccount("payee").address;
    const [token, otherToken] = [0n, 1n].map((nonce) => getContractAddress({ from: deployer.address, nonce })) as [Hex, Hex];

    const { test } = clients;
    await Promise.all([
      ...[deployer, facilitator].map(({ address }) => test.setBalance({ address, value: 1_000n * ETHER })),
      test.setCode({ address: MULTICALL_ADDRESS, bytecode: ARTIFACTS.Multicall.deployedBytecode as Hex }),
    ]);
    const deployment = encodeDeployData({
      abi: [{ type: "constructor", inputs: [{ name: "minter", type: "address" }], stateMutability: "nonpayable" }],
      bytecode: ARTIFACTS.TestUSDC.bytecode as Hex,
      args: [MULTICALL_ADDRESS],
    });
    const grants = [...payers.map(({ address }): Grant => [address, balance]), [poor.address, poorBalance] satisfies Grant];
    const parts = Array.from({ length: Math.ceil(grants.length / GRANTS_AT_ONCE) }, (_, n) => grants.slice(n * GRANTS_AT_ONCE, (n + 1) * GRANTS_AT_ONCE));
    const mints = parts.map((part) => mintCall([token, otherToken], part));
    await sendAll(clients, deployer, [
      { data: deployment, gas: 3_000_000n },
      { data: deployment, gas: 3_000_000n },
    ]);
    await sendAll(clients, deployer, mints);

    const balanceOf = (owner: Hex): Promise<bigint> =>
      clients.public.readContract({ address: token, abi: TOKEN_ABI, functionName: "balanceOf", args: [owner] });
    let isPaused = false;
    const send = async (from: PrivateKeyAccount, data: Hex): Promise<void> => {
      // Few payers ever pay for gas, so they get it when they do.
      await test.setBalance({ address: from.address, value: 1_000n * ETHER });
      await sendAll(clients, from, [{ to: token, data, gas: 300_000n }]);
    };
    return {
      network: EVM_NETWORK,
      rpcUrl: anvil.url,
      token,
      otherToken,
      payTo,
      payers,
      poor,
      outsider,
      facilitator,
      clients,
      balanceOf,
      balancesOf: (owners) =>
        clients.public.multicall({
          contracts: owners.map((owner) => ({ address: token, abi: TOKEN_ABI, functionName: "balanceOf", args: [owner] }) as const),
          multicallAddress: MULTICALL_ADDRESS,
          allowFailure: false,
          batchSize: 0,
        }),
      mint: (to, value) => sendAll(clients, deployer, [mintCall([token], [[to, value]])]),
      transfer: (from, to, value) => send(from, encodeFunctionData({ abi: TOKEN_ABI, functionName: "transfer", args: [to, value] })),
      isNonceUsed: (from, nonce) => clients.public.readContract({ address: token, abi: TOKEN_ABI, functionName: "authorizationState", args: [from, nonce] }),
      async cancel(from, nonce) {
        const signature = await from.signTypedData({
          domain: tokenDomain(token, EVM_CHAIN_ID),
          types: TOKEN_TYPES,
          primaryType: "CancelAuthorization",
          message: { authorizer: from.address, nonce },
        });
        await send(from, encodeFunctionData({ abi: TOKEN_ABI, functionName: "cancelAuthorization", args: [from.address, nonce, signature] }));
      },
      async spendNonce(from, nonce) {
        const message = { from: from.address, to: from.address, value: 1n, validAfter: 0n, validBefore: 2n ** 48n, nonce };
        const { TransferWithAuthorization } = TOKEN_TYPES;
        const domain = tokenDomain(token, EVM_CHAIN_ID);
        const signature = await from.signTypedData({ domain, types: { TransferWithAuthorization }, primaryType: "TransferWithAuthorization", message });
        const { to, value, validAfter, validBefore } = message;
        const args = [from.address, to, value, validAfter, validBefore, nonce, signature] as const;
        await send(from, encodeFunctionData({ abi: TOKEN_ABI, functionName: "transferWithAuthorization", args }));
      },
      async received() {
        const logs = await clients.public.getLogs({ address: token, events: TOKEN_EVENTS, fromBlock: 0n, strict: true });
        return logs.flatMap((log, at) => {
          const before = logs[at - 1];
          if (log.eventName !== "Transfer" || log.args.to.toLowerCase() !== payTo.toLowerCase()) return [];
          if (before?.eventName !== "AuthorizationUsed" || before.transactionHash !== log.transactionHash) return [];
          const { authorizer, nonce } = before.args;
          const key = `${EVM_NETWORK}:${token}:${authorizer}:${nonce}`.toLowerCase();
          return [{ key, transaction: log.transactionHash, amount: log.args.value }];
        });
      },
      pending: async () => Number((await test.getTxpoolStatus()).pending),
      async submit(from, { authorization, signature }) {
        const { to, value, validAfter, validBefore, nonce } = authorization;
        const args = [authorization.from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce, signature] as const;
        await send(from, encodeFunctionData({ abi: TOKEN_ABI, functionName: "transferWithAuthorization", args }));
      },
      finalize: () => test.mine({ blocks: 3 }),
      get isPaused() {
        return isPaused;
      },
      async pause() {
        isPaused = true;
        await test.setAutomine(false);
        await test.setIntervalMining({ interval: 0 });
      },
      async resume() {
        // anvil knows whole seconds only once it runs; a chain that was paused goes on mining at once.
        await test.setAutomine(true);
        await test.mine({ blocks: 1 });
        isPaused = false;
      },
      stop: () => anvil.stop(),
    };
  } catch (error) {
    await anvil.stop();
    throw error;
  }
}

type Grant = readonly [to: Hex, value: bigint];

/** One transaction that gives money of each token to each of them. */
function mintCall(tokens: readonly Hex[], grants: readonly Grant[]): { to: Hex; data: Hex; gas: bigint } {
  const calls = grants.flatMap((args) =>
    tokens.map((target) => ({ target, allowFailure: false, callData: encodeFunctionData({ abi: TOKEN_ABI, functionName: "mint", args }) })),
  );
  const data = encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args: [calls] });
  return { to: MULTICALL_ADDRESS, data, gas: 100_000n + 80_000n * BigInt(calls.length) };
}

/** Sends them all in one go and has them mined now, whatever the block time. @throws when one reverts */
async function sendAll({ public: reader, wallet, test }: Clients, from: PrivateKeyAccount, calls: { to?: Hex; data: Hex; gas: bigint }[]): Promise<void> {
  const first = await reader.getTransactionCount({ address: from.address, blockTag: "pending" });
  const hashes = await Promise.all(calls.map((call, index) => wallet.sendTransaction({ ...call, ...FEES, account: from, nonce: first + index })));
  await test.mine({ blocks: 1 });
  const receipts = await Promise.all(hashes.map((hash) => reader.waitForTransactionReceipt({ hash })));
  const failed = receipts.findIndex((receipt) => receipt.status !== "success");
  if (failed !== -1) throw new Error(`transaction ${hashes[failed]} of ${from.address} reverted`);
}

function clientsOf(url: string) {
  const chain = defineChain({
    id: EVM_CHAIN_ID,
    name: "payment lab",
    nativeCurrency: { name: "MON", symbol: "MON", decimals: 18 },
    rpcUrls: { default: { http: [url] } },
  });
  const shared = { chain, transport: http(url, { retryCount: 0 }), pollingInterval: POLL_MS, cacheTime: 0 } as const;
  return {
    public: createPublicClient(shared),
    wallet: createWalletClient(shared),
    test: createTestClient({ ...shared, mode: "anvil" }),
  };
}
