// Reads from Solana what became of signed transactions. After a job's way: for payments whose outcome is not known.
import { sha256 } from "@noble/hashes/sha2.js";
import * as z from "zod";
import { readAs } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { TIMING } from "../../protocol/times.ts";
import { fromBase64, toHex } from "../../receipt/bytes.ts";
import { askRpc, RpcFailure, type RpcOptions } from "../chain/json-rpc.ts";
import { isTransfer, isTransferOf, readTransaction, type SvmTransaction } from "../chain/svm-transaction.ts";
import { TUNING } from "../tuning.ts";
import { type ChainAnswer, type ChainSource, type Doubt, undecided } from "./chain.ts";

const MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
/** This much of a memo tells transactions apart: x402's clients put 32 random hex digits into it. */
const MEMO_CHARS = 32;
/** The program that runs a transaction with a nonce in place of the blockhash. Such a transaction never expires. */
const SYSTEM_PROGRAM = "11111111111111111111111111111111";

const slot = z.int().min(0);
const Signature = z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{64,88}$/);
const Entries = z.array(z.object({ signature: Signature, err: z.unknown(), memo: z.string().nullish(), blockTime: z.int().nullish() }));
type Entry = z.infer<typeof Entries>[number];
const digits = z
  .string()
  .regex(/^\d{1,20}$/)
  .transform(BigInt);
/** The token accounts that a transaction names. An old node leaves out their owners. */
const Balances = z.array(z.object({ mint: z.string(), owner: z.string(), uiTokenAmount: z.object({ amount: digits }) }));
const Moved = z.object({ preTokenBalances: Balances, postTokenBalances: Balances });
const Landed = z.object({ transaction: z.tuple([z.string(), z.literal("base64")]), meta: z.looseObject({ err: z.unknown() }) });
const Statuses = z.object({ value: z.tuple([z.object({ err: z.unknown(), confirmationStatus: z.string().nullish() }).nullable()]) });
const Validity = z.object({ context: z.object({ slot }), value: z.boolean() });
const Payload = z.object({ payload: z.object({ transaction: z.string() }) });
const Terms = z.object({ asset: z.string(), payTo: z.string(), amount: digits });

/**
 * A transaction to look for: the account in whose history it must be, the texts of its memos, and what it has to pay. `isDirect`: its own instructions pay
 * that, so if it succeeded, it has.
 */
type Wanted = { transaction: SvmTransaction; account: string; memos: string[]; terms: z.infer<typeof Terms>; isDirect: boolean };

/** The newest finalized block: its slot, its time in ms, and how far that is from our own time, less than 0 if it is behind. */
type Head = { slot: number; time: number; skew: number };

/** The first and the last time at which a transaction can be in the history, ms. */
type Range = { from: number; to: number };

/**
 * Solana. A landed transaction is ours if its message is, byte by byte: its signature is made by the facilitator, so nobody else knows it before. It is looked
 * for in the finalized history of the payer's token account. If it has no transfer to our payee among its own instructions, it has paid if our payee has the
 * amount more: a transfer that a program of the payer makes may move less, or nothing. Requests are sent one by one, because Solana's RPCs count the calls of a
 * batch or refuse it.
 */
export class SvmChain implements ChainSource {
  readonly most = 4;
  readonly #rpc: RpcOptions;
  readonly #network: string;

  constructor(rpc: RpcOptions, network: string) {
    this.#rpc = rpc;
    this.#network = network;
  }

  /** The history has times, so payments note no block. */
  async block(): Promise<null> {
    return null;
  }

  async read(doubts: readonly Doubt[], now: number): Promise<ChainAnswer[]> {
    const genesis = await this.#ask(z.string(), "getGenesisHash", []);
    if (this.#network !== `solana:${genesis.slice(0, 32)}`) throw new RpcFailure("wrong_chain");
    const finalized = await this.#ask(slot, "getSlot", [{ commitment: "finalized" }]);
    const time = (await this.#ask(slot, "getBlockTime", [finalized])) * 1_000;
    const head: Head = { slot: finalized, time, skew: time - now };
    const answers: ChainAnswer[] = [];
    for (const doubt of doubts) answers.push(await this.#read(doubt, head, now));
    return answers;
  }

  async #read(doubt: Doubt, head: Head, now: number): Promise<ChainAnswer> {
    const wanted = wantedOf(doubt);
    if (wanted === null) return undecided(null, "payload_erased");
    try {
      return await this.#search(doubt, wanted, head, now);
    } catch (error) {
      // Only this answer is unusable. The answers about the other payments count.
      if (error instanceof RpcFailure && error.reason !== "timeout" && error.reason !== "unreachable") return undecided(doubt.found, error.reason);
      throw error;
    }
  }

  async #search(doubt: Doubt, wanted: Wanted, head: Head, now: number): Promise<ChainAnswer> {
    const { found } = doubt;
    const range = rangeOf(doubt, head);
    const page = { limit: LIMITS.chainSignatures, commitment: "finalized", ...(found?.before !== undefined && { before: found.before }) };
    const entries = await this.#ask(Entries, "getSignaturesForAddress", [wanted.account, page]);
    let read = 0;
    for (const [at, entry] of entries.entries()) {
      if (!mayBe(entry, wanted, range)) continue;
      if (read === LIMITS.chainTransactions) return { kind: "undecided", found: searchedTo(entries[at - 1] ?? entry, found), more: true };
      read++;
      const landed = await this.#ask(Landed, "getTransaction", [
        entry.signature,
        { encoding: "base64", commitment: "finalized", maxSupportedTransactionVersion: 0 },
      ]);
      const bytes = fromBase64(landed.transaction[0]);
      const message = bytes === null ? undefined : readTransaction(bytes)?.message;
      if (message === undefined) return undecided(found, "invalid_response");
      if (toHex(sha256(message)) !== doubt.key) continue;
      if ((entry.err === null) !== (landed.meta.err === null)) return undecided(null, "contradiction");
      if (landed.meta.err !== null) return { kind: "void", proof: "failed" };
      if (wanted.isDirect) return { kind: "settled", transaction: entry.signature };
      const gained = gainOf(landed.meta, wanted);
      if (gained === null) return undecided(found, "no_balances");
      // The message cannot run a second time.
      return gained >= wanted.terms.amount ? { kind: "settled", transaction: entry.signature } : { kind: "void", proof: "used_elsewhere" };
    }
    const last = entries.at(-1);
    const isOver = last === undefined || entries.length < LIMITS.chainSignatures || timeOf(last) < range.from;
    if (!isOver) return { kind: "undecided", found: searchedTo(last, found), more: true };
    return this.#absent(doubt, wanted, head, now);
  }

  /**
   * The transaction is not in the history. It is void if it can never come there: its blockhash is too old for every later block. Two readings must show this.
   */
  async #absent({ expiresAt, found }: Doubt, { transaction }: Wanted, head: Head, now: number): Promise<ChainAnswer> {
    const nothing = undecided({ searched: null, unusedAt: null });
    // With a nonce it would never expire; and after some time a node may have forgotten the history.
    const hasNonce = transaction.instructions.some(({ program }) => program === SYSTEM_PROGRAM);
    const isTime = head.time >= expiresAt && now >= expiresAt && head.time < expiresAt + TIMING.svmHistory;
    if (hasNonce || !isTime) return nothing;
    // Then the times of the history prove too little: the transaction may have landed at a time that was not searched.
    if (Math.abs(head.skew) > TIMING.svmClock) return undecided(found, "clock");
    const { context, value: isValid } = await this.#ask(Validity, "isBlockhashValid", [transaction.blockhash, { commitment: "finalized" }]);
    if (isValid || context.slot < head.slot) return nothing;
    // An older node answers.
    if (found?.unusedAt != null && found.unusedAt > head.slot) return undecided(found, "old_answer");
    if (found?.unusedAt != null) return { kind: "void", proof: "expired" };
    return { kind: "undecided", found: { searched: null, unusedAt: head.slot }, more: true };
  }

  /** @throws {RpcFailure} also if the answer is not of this form */
  async #ask<T>(schema: z.ZodType<T>, method: string, params: readonly unknown[]): Promise<T> {
    const [answer] = await askRpc(this.#rpc, [{ method, params }]);
    const value = answer?.ok === true ? schema.safeParse(answer.value) : undefined;
    if (value?.success !== true) throw new RpcFailure(answer?.ok === false ? answer.reason : "invalid_response");
    return value.data;
  }
}

/**
 * True if a transaction has failed that a facilitator reported as settled: a signer of @x402/svm 2.20 or older does not read its error [PY8]. False if the node
 * does not have it in time. The block may still be undone, so a true opens a doubt, and decides nothing.
 * @throws {RpcFailure}
 */
export async function hasFailed(url: string, transaction: string): Promise<boolean> {
  const end = Date.now() + TIMING.svmStatus;
  for (let left: number = TIMING.svmStatus; left > 0; left = end - Date.now()) {
    const [answer] = await askRpc({ url, deadline: left }, [{ method: "getSignatureStatuses", params: [[transaction]] }]);
    const statuses = answer?.ok === true ? Statuses.safeParse(answer.value).data : undefined;
    if (statuses === undefined) throw new RpcFailure(answer?.ok === false ? answer.reason : "invalid_response");
    const [status] = statuses.value;
    if (status?.err != null) return true;
    if (status !== null && status.confirmationStatus !== "processed") return false;
    await new Promise<void>((resolve) => setTimeout(resolve, TUNING.svmStatusPause));
  }
  return false;
}

/** What to look for; null if the payload is erased. */
function wantedOf({ payload, requirements }: Doubt): Wanted | null {
  const [parsed, terms] = [readAs(Payload, payload), readAs(Terms, requirements)];
  const bytes = parsed === null ? null : fromBase64(parsed.payload.transaction);
  const transaction = bytes === null ? null : readTransaction(bytes);
  if (transaction === null || terms === null) return null;
  const source = transaction.instructions.find(isTransfer)?.accounts[0];
  const account = source ?? transaction.signers[1] ?? transaction.signers[0];
  if (account === undefined) return null;
  const texts = transaction.instructions.filter(({ program }) => program === MEMO_PROGRAM).map(({ data }) => new TextDecoder().decode(data));
  // The beginning, and only of a text that every RPC shows in the same way.
  const memos = texts.map((text) => text.slice(0, MEMO_CHARS)).filter((text) => /^[\w-]+$/.test(text));
  const isDirect = transaction.instructions.some((instruction) => isTransfer(instruction) && isTransferOf(instruction, terms));
  return { transaction, account, memos, terms, isDirect };
}

/** How much more of our token our payee has since this transaction; null if the node does not say it. */
function gainOf(meta: unknown, { terms }: Wanted): bigint | null {
  const moved = Moved.safeParse(meta).data;
  if (moved === undefined) return null;
  const sum = (balances: z.infer<typeof Balances>): bigint =>
    balances.filter(({ mint, owner }) => mint === terms.asset && owner === terms.payTo).reduce((total, { uiTokenAmount }) => total + uiTokenAmount.amount, 0n);
  return sum(moved.postTokenBalances) - sum(moved.preTokenBalances);
}

/**
 * Between which times of the history the transaction is, ms: its blockhash was fresh enough to be verified when it came to us, and is too old soon after it has
 * expired. These are times of our clock and the history has those of the chain, so the range is wider, and includes the same times by the chain's clock.
 */
function rangeOf({ expiresAt }: Doubt, { skew }: Head): Range {
  const from = expiresAt - 2 * TIMING.svmLifetime + Math.min(0, skew) - TIMING.svmDrift;
  return { from, to: expiresAt + TIMING.svmLifetime + Math.max(0, skew) + TIMING.svmDrift };
}

/** Without a time an entry may be of any time. */
function timeOf({ blockTime }: Entry): number {
  return typeof blockTime === "number" ? blockTime * 1_000 : Infinity;
}

/** True if this entry may be the transaction: by its time, and by its memos, if the RPC shows them. */
function mayBe(entry: Entry, { memos }: Wanted, { from, to }: Range): boolean {
  const time = timeOf(entry);
  if (time < from || (time !== Infinity && time > to)) return false;
  const { memo } = entry;
  return typeof memo !== "string" || memos.every((text) => memo.includes(text));
}

function searchedTo({ signature }: Entry, found: Doubt["found"]): NonNullable<Doubt["found"]> {
  return { searched: null, unusedAt: found?.unusedAt ?? null, before: signature };
}
