// The SVM side of the payment lab: a local chain with its USDC, its payee and its payers.
import {
  type Address,
  appendTransactionMessageInstructions,
  type Blockhash,
  createKeyPairSignerFromPrivateKeyBytes,
  createTransactionMessage,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  getTransactionEncoder,
  type Instruction,
  type KeyPairSigner,
  pipe,
  type ReadonlyUint8Array,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from "@solana/kit";
import {
  AccountState,
  findAssociatedTokenPda,
  getCreateAssociatedTokenIdempotentInstruction,
  getMintEncoder,
  getMintToInstruction,
  getTokenDecoder,
  getTokenEncoder,
  getTransferCheckedInstruction,
  getTransferCheckedInstructionDataDecoder,
  TOKEN_PROGRAM_ADDRESS,
  TRANSFER_CHECKED_DISCRIMINATOR,
} from "@solana-program/token";
import { type Role, secretOf } from "../keys.ts";
import type { Received } from "../support/books.ts";
import { Ledger } from "./ledger.ts";
import { startRpc } from "./rpc.ts";

/** The devnet's CAIP-2 id. */
export const SVM_NETWORK = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
/** Where Circle's USDC is on the devnet: the lab's mint stands at the same address. */
export const SVM_USDC = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU" as Address;

const DECIMALS = 6;
const SOL = 1_000_000_000n;

/** What the SVM side starts with. */
export type SvmOptions = {
  /** Of the JSON-RPC; 0 takes a free one. */
  port?: number;
  /** How many payers with money. */
  payers?: number;
  /** What each of them gets, in millionths of a dollar. */
  balance?: bigint;
  /** What the payer `poor` gets: less than the cheapest price. */
  poorBalance?: bigint;
  /** How many keys the facilitator pays fees with; it picks one at random. */
  feePayers?: number;
  /** How long a blockhash, and with it a signed payment, may be used. Default 60 s, as on a real chain. */
  blockhashTtlMs?: number;
  /** How long a landed transaction stays unconfirmed. Default 0. */
  confirmMs?: number;
  /** How long the RPC takes to answer. Default 0. */
  latencyMs?: number;
  /** The clock by which blockhashes grow old. Default Date.now. */
  now?: () => number;
};

/** A local SVM with a USDC, its payee and its payers. */
export type SvmChain = {
  readonly network: typeof SVM_NETWORK;
  readonly rpcUrl: string;
  readonly token: Address;
  /** Another mint, of which everybody has as much: the wrong asset. */
  readonly otherToken: Address;
  readonly payTo: Address;
  readonly payers: readonly KeyPairSigner[];
  readonly poor: KeyPairSigner;
  /** Nobody's business partner: the wrong payee. */
  readonly outsider: KeyPairSigner;
  /** A key without a token account, as a wrongly set payee has none. */
  readonly stranger: KeyPairSigner;
  readonly feePayers: readonly KeyPairSigner[];
  /** In millionths of a dollar; 0 without a token account. */
  balanceOf(owner: Address): Promise<bigint>;
  /** Those of many. */
  balancesOf(owners: readonly Address[]): Promise<bigint[]>;
  mint(to: Address, value: bigint): Promise<void>;
  /** Moves money without x402, as a payer does who empties the account. */
  transfer(from: KeyPairSigner, to: Address, value: bigint): Promise<void>;
  /** What the payee has got by transfers of USDC, since the chain began. */
  received(): Promise<Received[]>;
  /** From now on what is sent to the RPC waits. */
  pause(): void;
  /** Runs what has waited. */
  resume(): void;
  /** How many transactions wait. */
  waiting(): number;
  /** As if every payment signed so far had grown too old. */
  expireBlockhashes(): void;
  stop(): Promise<void>;
};

const keyPairs = new Map<Role, Promise<KeyPairSigner>>();

/** The key pair of a role, the same in each lab of this process. */
export function svmSigner(role: Role): Promise<KeyPairSigner> {
  const keyPair = keyPairs.get(role) ?? createKeyPairSignerFromPrivateKeyBytes(secretOf(role));
  keyPairs.set(role, keyPair);
  return keyPair;
}

/** Starts litesvm behind a JSON-RPC, with both mints, and hands out money. @throws when the port is taken */
export async function startSvmChain(options: SvmOptions = {}): Promise<SvmChain> {
  const { payers: count = 8, balance = 100_000_000n, poorBalance = 500n, feePayers: feePayerCount = 2, blockhashTtlMs = 60_000, now = Date.now } = options;
  const ledger = new Ledger({ blockhashTtlMs, now });
  const signers = (prefix: "payer" | "fee-payer", length: number): Promise<KeyPairSigner[]> =>
    Promise.all(Array.from({ length }, (_, index) => svmSigner(`${prefix}-${index}`)));
  const [payers, feePayers, bank, poor, outsider, payee, otherMint, stranger] = await Promise.all([
    signers("payer", count),
    signers("fee-payer", feePayerCount),
    svmSigner("deployer"),
    svmSigner("poor"),
    svmSigner("outsider"),
    svmSigner("payee"),
    svmSigner("mint"),
    svmSigner("stranger"),
  ]);
  const otherToken = otherMint.address;
  const tokens = [SVM_USDC, otherToken];
  for (const { address } of [bank, ...feePayers]) ledger.airdrop(address, 100n * SOL);
  const grants = [...payers.map(({ address }) => [address, balance] as const), [poor.address, poorBalance] as const];
  const supply = grants.reduce((sum, [, value]) => sum + value, 0n);
  for (const token of tokens) {
    setMint(ledger, token, bank.address, supply);
    for (const [owner, value] of [...grants, [payee.address, 0n] as const, [outsider.address, 0n] as const]) {
      setTokens(ledger, await tokenAccount(owner, token), owner, token, value);
    }
  }

  const balanceOf = async (owner: Address): Promise<bigint> => {
    const account = ledger.account(await tokenAccount(owner, SVM_USDC));
    return account.exists ? getTokenDecoder().decode(account.data).amount : 0n;
  };
  const rpc = await startRpc(ledger, { port: options.port ?? 0, confirmMs: options.confirmMs ?? 0, latencyMs: options.latencyMs ?? 0 });
  return {
    network: SVM_NETWORK,
    rpcUrl: rpc.url,
    token: SVM_USDC,
    otherToken,
    payTo: payee.address,
    payers,
    poor,
    outsider,
    stranger,
    feePayers,
    balanceOf,
    balancesOf: (owners) => Promise.all(owners.map(balanceOf)),
    mint: async (to, value) => runInstructions(ledger, bank, await mintInstructions(bank, to, value, SVM_USDC)),
    async transfer(from, to, value) {
      const [source, destination] = await Promise.all([tokenAccount(from.address, SVM_USDC), tokenAccount(to, SVM_USDC)]);
      await runInstructions(ledger, bank, [
        getTransferCheckedInstruction({ source, mint: SVM_USDC, destination, authority: from, amount: value, decimals: DECIMALS }),
      ]);
    },
    async received() {
      const account = await tokenAccount(payee.address, SVM_USDC);
      return ledger.succeeded().flatMap(({ key, landed: { bytes, signature } }) => {
        const amount = transferredTo(account, bytes);
        return amount === 0n ? [] : [{ key, transaction: signature, amount }];
      });
    },
    pause: () => ledger.pause(),
    resume: () => ledger.resume(),
    waiting: () => ledger.waiting,
    expireBlockhashes: () => ledger.expireBlockhashes(),
    stop: () => rpc.close(),
  };
}

const tokenAccounts = new Map<string, Promise<Address>>();

/** The token account of an owner. Each search for such an address hashes several times, and balances are read by the hundred. */
function tokenAccount(owner: Address, mint: Address): Promise<Address> {
  const key = `${owner} ${mint}`;
  const found = tokenAccounts.get(key) ?? findAssociatedTokenPda({ mint, owner, tokenProgram: TOKEN_PROGRAM_ADDRESS }).then(([address]) => address);
  tokenAccounts.set(key, found);
  return found;
}

/** What a transaction transfers to a token account. */
function transferredTo(account: Address, bytes: Uint8Array): bigint {
  const { staticAccounts, instructions } = getCompiledTransactionMessageDecoder().decode(getTransactionDecoder().decode(bytes).messageBytes);
  const amounts = instructions.map(({ accountIndices = [], data, programAddressIndex }) => {
    const isTransfer = staticAccounts[programAddressIndex] === TOKEN_PROGRAM_ADDRESS && data?.[0] === TRANSFER_CHECKED_DISCRIMINATOR;
    return isTransfer && staticAccounts[accountIndices[2] ?? -1] === account ? getTransferCheckedInstructionDataDecoder().decode(data).amount : 0n;
  });
  return amounts.reduce((sum, amount) => sum + amount, 0n);
}

async function mintInstructions(bank: KeyPairSigner, owner: Address, amount: bigint, mint: Address): Promise<Instruction[]> {
  const ata = await tokenAccount(owner, mint);
  return [
    getCreateAssociatedTokenIdempotentInstruction({ payer: bank, ata, owner, mint }),
    getMintToInstruction({ mint, token: ata, mintAuthority: bank, amount }),
  ];
}

function setMint(ledger: Ledger, address: Address, mintAuthority: Address, supply: bigint): void {
  setAccount(ledger, address, getMintEncoder().encode({ mintAuthority, supply, decimals: DECIMALS, isInitialized: true, freezeAuthority: null }));
}

/** As the token program leaves an account after a mint to it, without the hundreds of transactions that the start of a lab would run. */
function setTokens(ledger: Ledger, address: Address, owner: Address, mint: Address, amount: bigint): void {
  const none = { delegate: null, isNative: null, delegatedAmount: 0n, closeAuthority: null };
  setAccount(ledger, address, getTokenEncoder().encode({ mint, owner, amount, state: AccountState.Initialized, ...none }));
}

function setAccount(ledger: Ledger, address: Address, encoded: ReadonlyUint8Array): void {
  const data = new Uint8Array(encoded);
  ledger.setAccount({
    address,
    data,
    executable: false,
    lamports: ledger.rentFor(data.length),
    programAddress: TOKEN_PROGRAM_ADDRESS,
    space: BigInt(data.length),
  });
}

/** Signs and runs instructions. @throws when they fail */
export async function runInstructions(ledger: Ledger, feePayer: KeyPairSigner, instructions: readonly Instruction[]): Promise<void> {
  const { blockhash, lastValidBlockHeight } = ledger.latestBlockhash(true);
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (empty) => setTransactionMessageFeePayerSigner(feePayer, empty),
    (paid) => setTransactionMessageLifetimeUsingBlockhash({ blockhash: blockhash as Blockhash, lastValidBlockHeight: BigInt(lastValidBlockHeight) }, paid),
    (dated) => appendTransactionMessageInstructions(instructions, dated),
  );
  const landed = ledger.send(new Uint8Array(getTransactionEncoder().encode(await signTransactionMessageWithSigners(message))));
  if (landed === null || landed.error !== null)
    throw new Error(`a transaction of the lab failed: ${JSON.stringify(landed?.error ?? "refused")}\n${landed?.logs.join("\n")}`);
}
