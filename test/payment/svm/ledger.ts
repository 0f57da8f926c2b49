// The ledger of the lab's SVM: runs transactions in litesvm and remembers them like a chain.
import { createHash } from "node:crypto";
import {
  type Address,
  type EncodedAccount,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  type Lamports,
  type MaybeEncodedAccount,
  type Signature,
  type Transaction,
} from "@solana/kit";
import { getTokenDecoder, getTokenSize, TOKEN_PROGRAM_ADDRESS } from "@solana-program/token";
import { FailedTransactionMetadata, LiteSVM, type TransactionMetadata } from "litesvm";
import { type TransactionError, transactionError } from "./transaction-error.ts";

const SLOT_MS = 400;
/** How many slots a blockhash lives on a real chain. */
const BLOCKHASH_SLOTS = 150;
/** Devnet did not begin yesterday. */
const FIRST_SLOT = 400_000_000;

/** A transaction that has run, whatever came of it. */
export type Landed = {
  readonly signature: Signature;
  readonly slot: number;
  readonly at: number;
  readonly error: TransactionError | null;
  readonly logs: readonly string[];
  readonly bytes: Uint8Array;
  /** Of the token accounts that it names, before it and after it. */
  readonly balances: { readonly before: readonly TokenBalance[]; readonly after: readonly TokenBalance[] };
};

/** What a token account holds: its place among the accounts of the transaction, and what an RPC tells of it. */
type TokenBalance = { accountIndex: number; mint: Address; owner: Address; uiTokenAmount: { amount: string } };

/** What a simulation says. */
export type Simulated = { error: TransactionError | null; logs: readonly string[]; units: number };

/** What the ledger starts with. */
export type LedgerOptions = {
  /** How long a blockhash may be used, from when it was given out. */
  blockhashTtlMs: number;
  /** In milliseconds. */
  now: () => number;
};

/**
 * One litesvm, a real SVM runtime with the real programs. Slots follow the wall clock and there is no consensus: what has run is final. litesvm knows only its
 * newest blockhash and deduplicates by signature, so both rules are kept here: a blockhash lives by its age, and a message runs once.
 */
export class Ledger {
  readonly #svm = new LiteSVM().withBlockhashCheck(false);
  readonly #ttl: number;
  readonly #now: () => number;
  readonly #began: number;
  /** When each blockhash was last given out. */
  readonly #blockhashes = new Map<string, number>();
  readonly #landed = new Map<Signature, Landed>();
  /** SHA-256 of the messages that have run. */
  readonly #messages = new Set<string>();
  #blockhashSlot = -1;
  /** What was sent while the chain stands still. */
  #waiting: Uint8Array[] | null = null;

  constructor({ blockhashTtlMs, now }: LedgerOptions) {
    this.#ttl = blockhashTtlMs;
    this.#now = now;
    this.#began = now();
  }

  now(): number {
    return this.#now();
  }

  get slot(): number {
    return FIRST_SLOT + Math.floor((this.#now() - this.#began) / SLOT_MS);
  }

  /** A blockhash for a new transaction: another one in each slot, or `fresh` for each call, so that equal instructions make different messages. */
  latestBlockhash(fresh = false): { blockhash: string; lastValidBlockHeight: number } {
    const { slot } = this;
    if (fresh || slot !== this.#blockhashSlot) {
      this.#svm.expireBlockhash();
      this.#blockhashSlot = slot;
      this.#forgetOld();
    }
    const blockhash = this.#svm.latestBlockhash();
    this.#blockhashes.set(blockhash, this.#now());
    return { blockhash, lastValidBlockHeight: slot + BLOCKHASH_SLOTS };
  }

  /** As if all blockhashes given out so far had grown too old. */
  expireBlockhashes(): void {
    this.#blockhashes.clear();
    this.#blockhashSlot = -1;
  }

  /** Runs a transaction without keeping what it changes. */
  simulate(bytes: Uint8Array, options: { sigVerify: boolean; replaceBlockhash: boolean }): Simulated {
    const transaction = getTransactionDecoder().decode(bytes);
    const refused = this.#refusal(transaction, options.replaceBlockhash);
    if (refused !== null) return { error: refused, logs: [], units: 0 };
    if (options.sigVerify && hasEmptySignature(transaction)) return { error: "SignatureFailure", logs: [], units: 0 };
    // The setting is the instance's; nothing else runs between these two lines.
    this.#svm.withSigverify(options.sigVerify);
    const result = this.#svm.simulateTransaction(withEverySlot(transaction));
    this.#svm.withSigverify(true);
    const failed = result instanceof FailedTransactionMetadata;
    const meta = result.meta();
    return { error: failed ? transactionError(result) : null, logs: meta.logs(), units: Number(meta.computeUnitsConsumed()) };
  }

  /** From now on what is sent waits. */
  pause(): void {
    this.#waiting ??= [];
  }

  /** Runs what was sent meanwhile, in order. */
  resume(): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const bytes of waiting) this.send(bytes);
  }

  /** How many transactions wait. */
  get waiting(): number {
    return this.#waiting?.length ?? 0;
  }

  /** Takes a transaction as a node does, and tells nothing of it. */
  post(bytes: Uint8Array): void {
    if (this.#waiting === null) this.send(bytes);
    else this.#waiting.push(bytes);
  }

  /** Runs a transaction at once; null when the chain would never take it up (too old, run before, not signed). Its failure while running is a landing too. */
  send(bytes: Uint8Array): Landed | null {
    const transaction = getTransactionDecoder().decode(bytes);
    if (this.#refusal(transaction, false) !== null || hasEmptySignature(transaction)) return null;
    return this.#run(transaction, bytes);
  }

  /** The transaction of this signature, once it has run. */
  landed(signature: Signature): Landed | undefined {
    return this.#landed.get(signature);
  }

  /** Each that has run without an error, with the SHA-256 of its message. */
  succeeded(): { key: string; landed: Landed }[] {
    const runs = [...this.#landed.values()].filter(({ error }) => error === null);
    return runs.map((landed) => ({ key: messageKey(getTransactionDecoder().decode(landed.bytes)), landed }));
  }

  /** The transactions that have run and name this account, the newest first. */
  history(account: Address): Landed[] {
    const names = ({ bytes }: Landed) =>
      getCompiledTransactionMessageDecoder().decode(getTransactionDecoder().decode(bytes).messageBytes).staticAccounts.includes(account);
    return [...this.#landed.values()].filter(names).toReversed();
  }

  /** True if a new transaction may have this blockhash. */
  isBlockhashValid(blockhash: string): boolean {
    const given = this.#blockhashes.get(blockhash);
    return given !== undefined && this.#now() - given <= this.#ttl;
  }

  /** When a slot was, ms since the epoch. */
  timeOf(slot: number): number {
    return this.#began + (slot - FIRST_SLOT) * SLOT_MS;
  }

  account(address: Address): MaybeEncodedAccount {
    return this.#svm.getAccount(address);
  }

  setAccount(account: EncodedAccount): void {
    this.#svm.setAccount(account);
  }

  airdrop(address: Address, lamports: bigint): void {
    this.#svm.airdrop(address, lamports as Lamports);
  }

  rentFor(bytes: number): Lamports {
    return this.#svm.minimumBalanceForRentExemption(BigInt(bytes)) as Lamports;
  }

  #run(transaction: Transaction, bytes: Uint8Array): Landed | null {
    const before = this.#balances(transaction);
    const result: TransactionMetadata | FailedTransactionMetadata = this.#svm.sendTransaction(transaction);
    const error = result instanceof FailedTransactionMetadata ? transactionError(result) : null;
    // A transaction that cannot pay its fee or is signed wrongly leaves no trace.
    if (typeof error === "string") return null;
    const meta = result instanceof FailedTransactionMetadata ? result.meta() : result;
    const signature = firstSignature(transaction);
    const balances = { before, after: this.#balances(transaction) };
    const landed: Landed = { signature, slot: this.slot, at: this.#now(), error, logs: meta.logs(), bytes, balances };
    this.#landed.set(signature, landed);
    this.#messages.add(messageKey(transaction));
    return landed;
  }

  #balances({ messageBytes }: Transaction): TokenBalance[] {
    return getCompiledTransactionMessageDecoder()
      .decode(messageBytes)
      .staticAccounts.flatMap((address, accountIndex) => {
        const account = this.account(address);
        // A mint belongs to the same program and is shorter.
        if (!account.exists || account.programAddress !== TOKEN_PROGRAM_ADDRESS || account.data.length !== getTokenSize()) return [];
        const { mint, owner, amount } = getTokenDecoder().decode(account.data);
        return [{ accountIndex, mint, owner, uiTokenAmount: { amount: String(amount) } }];
      });
  }

  #refusal(transaction: Transaction, replaceBlockhash: boolean): TransactionError | null {
    if (this.#messages.has(messageKey(transaction))) return "AlreadyProcessed";
    if (replaceBlockhash) return null;
    const { lifetimeToken } = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes) as { lifetimeToken: string };
    const given = this.#blockhashes.get(lifetimeToken);
    return given === undefined || this.#now() - given > this.#ttl ? "BlockhashNotFound" : null;
  }

  #forgetOld(): void {
    for (const [blockhash, at] of this.#blockhashes) if (this.#now() - at > this.#ttl) this.#blockhashes.delete(blockhash);
  }
}

function messageKey(transaction: Transaction): string {
  return createHash("sha256").update(Uint8Array.from(transaction.messageBytes)).digest("hex");
}

function firstSignature(transaction: Transaction): Signature {
  const [first] = Object.values(transaction.signatures);
  if (first == null) throw new Error("the transaction has no signature");
  return getBase58Decoder().decode(first) as Signature;
}

function hasEmptySignature(transaction: Transaction): boolean {
  return Object.values(transaction.signatures).some((signature) => signature == null || signature.every((byte) => byte === 0));
}

/** litesvm's wrapper wants bytes in every slot, also in the one that the facilitator signs later. */
function withEverySlot(transaction: Transaction): Transaction {
  const signatures = Object.entries(transaction.signatures).map(([address, signature]) => [address, signature ?? new Uint8Array(64)]);
  return { ...transaction, signatures: Object.fromEntries(signatures) as Transaction["signatures"] };
}
