// A fake Solana node with landed transactions, for tests of the chain reader.
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { base58 } from "@scure/base";
import { onTestFinished, vi } from "vitest";

type Call = { id: number; method: string; params: readonly unknown[] };
type Balance = { accountIndex: number; mint: string; owner?: string; uiTokenAmount: { amount: string; decimals: number } };
type Balances = { preTokenBalances?: Balance[]; postTokenBalances?: Balance[] };
type Landed = { signature: string; account: string; time: number | null; transaction: string; err: unknown; memo: string | null; balances: Balances };

export const RPC_URL = "https://node.test/v2/secret-api-key";
const GENESIS = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";
export const NETWORK = `solana:${GENESIS.slice(0, 32)}`;
export const TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
const SYSTEM_PROGRAM = "11111111111111111111111111111111";

const key = (n: number) => Uint8Array.from({ length: 32 }, (_, at) => (at === 0 ? n : 7));
const ACCOUNT = base58.encode(key(3));
export const MINT = base58.encode(key(4));
export const PAYEE = base58.encode(key(6));
const BLOCKHASH = base58.encode(key(99));

/** A small transfer: fee payer, payer, source, mint, destination, programs; with a memo and, if asked for, a nonce in place of the blockhash. */
export function transaction({ memo = "memo-1", nonce = false, signed = false, to = base58.encode(key(5)) } = {}): { base64: string; key: string } {
  const keys = [key(1), key(2), key(3), key(4), base58.decode(to), base58.decode(TOKEN_PROGRAM), base58.decode(MEMO_PROGRAM), base58.decode(SYSTEM_PROGRAM)];
  const text = new TextEncoder().encode(memo);
  const instructions = [
    ...(nonce ? [[7, 1, 2, 4, 4, 0, 0, 0]] : []),
    [5, 4, 2, 3, 4, 1, 10, 12, 0xe8, 3, 0, 0, 0, 0, 0, 0, 6],
    ...(memo === "" ? [] : [[6, 0, text.length, ...text]]),
  ];
  const message = [0x80, 2, 1, 4, keys.length, ...keys.flatMap((bytes) => [...bytes]), ...key(99), instructions.length, ...instructions.flat(), 0];
  const signatures = [...Array.from({ length: 64 }, () => (signed ? 9 : 0)), ...Array.from({ length: 64 }, () => 8)];
  return { base64: Buffer.from([2, ...signatures, ...message]).toString("base64"), key: bytesToHex(sha256(Uint8Array.from(message))) };
}

/** The balances of the payee's token account before and after a transaction. Left out of them: an account that did not exist, `null`. */
export function balances(before: string | null, after: string, { mint = MINT, owner = PAYEE }: { mint?: string; owner?: string | null } = {}): Balances {
  const one = (amount: string): Balance => ({ accountIndex: 4, mint, ...(owner !== null && { owner }), uiTokenAmount: { amount, decimals: 6 } });
  return { preTokenBalances: before === null ? [] : [one(before)], postTokenBalances: [one(after)] };
}

/** A Solana node for the requests about landed transactions; a slot is 400 ms. It counts what it is asked, and ends with its test. */
export class FakeSvm {
  genesis = GENESIS;
  /** The time of the newest finalized slot, ms. */
  time = 1_800_000_000_000;
  isValid = true;
  /** The newest first. */
  readonly landed: Landed[] = [];
  readonly calls: Call[] = [];
  lie: (call: Call, truth: unknown) => unknown = (_, truth) => truth;
  before: (() => Promise<Response | undefined>) | null = null;
  #count = 0;

  constructor() {
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => this.#fetch(new Request(input).url, init));
    onTestFinished(() => fetched.mockRestore());
  }

  get slot(): number {
    return Math.floor(this.time / 400);
  }

  land(base64: string, given: Partial<Landed> = {}): string {
    const { time = this.time - 1_000, err = null, memo = null, account = ACCOUNT } = given;
    const { balances: moved = balances("7", "1007") } = given;
    const signature = base58.encode(Uint8Array.from({ length: 64 }, (_, at) => (at < 4 ? this.#count >> (8 * at) : 200)));
    this.#count++;
    this.landed.unshift({ signature, account, time, transaction: base64, err, memo, balances: moved });
    return signature;
  }

  async #fetch(url: string, init: RequestInit | undefined): Promise<Response> {
    if (url !== RPC_URL || init?.redirect !== "manual") throw new Error(`${url} was asked`);
    const call = (await new Response(init.body ?? null).json()) as Call;
    if (Array.isArray(call)) throw new Error("a batch was sent");
    this.calls.push(call);
    const instead = await this.before?.();
    if (instead !== undefined) return instead;
    const result = this.lie(call, this.#answer(call));
    const said = result instanceof Error ? { error: { code: -32_000, message: result.message } } : { result };
    return Response.json({ jsonrpc: "2.0", id: call.id, ...said });
  }

  #answer({ method, params }: Call): unknown {
    const [first, second] = params;
    // A block that is not final may be undone, so nothing may be asked of one.
    const isOfBlocks = method !== "getGenesisHash" && method !== "getBlockTime";
    if (isOfBlocks && (params.at(-1) as { commitment?: string } | undefined)?.commitment !== "finalized")
      throw new Error(`${method} asks of blocks that are not final`);
    switch (method) {
      case "getGenesisHash":
        return this.genesis;
      case "getSlot":
        return this.slot;
      case "getBlockTime":
        return Math.floor(this.time / 1_000);
      case "isBlockhashValid":
        return { context: { slot: this.slot, apiVersion: "2.3.0" }, value: this.isValid && first === BLOCKHASH };
      case "getSignaturesForAddress": {
        const { limit = 1_000, before } = second as { limit?: number; before?: string };
        const all = this.landed.filter(({ account }) => account === first);
        const from = before === undefined ? 0 : all.findIndex(({ signature }) => signature === before) + 1;
        return all.slice(from, from + limit).map(({ signature, time, err, memo }) => ({
          ...{ signature, slot: 1, err, memo, blockTime: time === null ? null : Math.floor(time / 1_000), confirmationStatus: "finalized" },
        }));
      }
      case "getTransaction": {
        const found = this.landed.find(({ signature }) => signature === first);
        return found === undefined ? null : { slot: 1, transaction: [found.transaction, "base64"], meta: { err: found.err, ...found.balances }, version: 0 };
      }
      default:
        throw new Error(`${method} was called`);
    }
  }
}
