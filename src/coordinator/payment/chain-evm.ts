// Reads from an EVM chain what became of EIP-3009 authorizations. After a job's way: for payments whose outcome is not known.
import * as z from "zod";
import { readAs } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/result.ts";
import { TIMING } from "../../protocol/times.ts";
import { askRpc, type RpcCall, RpcFailure, type RpcOptions, type RpcResult } from "../chain/json-rpc.ts";
import { type ChainAnswer, type ChainSource, type Doubt, undecided } from "./chain.ts";

/** The first four bytes of the keccak-256 of `authorizationState(address,bytes32)`. */
const AUTHORIZATION_STATE = "0xe94a0102";
/** The keccak-256 of `AuthorizationUsed(address,bytes32)`, `AuthorizationCanceled(address,bytes32)` and `Transfer(address,address,uint256)`. */
const USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const CANCELLED = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";
const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/** How many older blocks are read to find where a search begins. Each lies four times as far back as the one before, the first one four pages. */
const PROBES = 8;

const quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]{1,13}$/)
  .transform(Number)
  .refine(Number.isSafeInteger);
const hex = z
  .string()
  .regex(/^0x[0-9a-fA-F]*$/)
  .toLowerCase();
const Header = z.object({ number: quantity, timestamp: quantity });
const Log = z.object({ address: hex, topics: z.array(hex), data: hex, blockNumber: quantity, transactionHash: hex, logIndex: quantity });
const Receipt = z.object({ status: z.literal("0x1"), transactionHash: hex, blockNumber: quantity, logs: z.array(Log) });
const Logs = z.array(Log);
/** A `bool` as the ABI returns it. */
const Flag = z.string().regex(/^0x0{63}[01]$/);
type Header = z.infer<typeof Header>;
type Log = z.infer<typeof Log>;

const seconds = z
  .string()
  .regex(/^\d{1,78}$/)
  .transform(BigInt);
/** The parts of the hub's own texts that are needed. */
const Payload = z.object({ payload: z.object({ authorization: z.object({ from: hex, nonce: hex, validAfter: seconds, validBefore: seconds }) }) });
const Terms = z.object({ asset: hex, payTo: hex, amount: seconds });

/** An authorization to look for, addresses as words of 32 bytes, and the blocks to search: null if it is not known where to begin. */
type Search = {
  doubt: Doubt;
  token: string;
  payer: string;
  payee: string;
  nonce: string;
  amount: bigint;
  /** In seconds since the epoch, as blocks have their times. */
  validAfter: number;
  validBefore: bigint;
  from: number | null;
  to: number;
};

/** What the requests about one authorization have shown: the answer, or the event of its use. */
type Seen = { answer: ChainAnswer } | { used: Log };

/**
 * An EVM chain. A reading takes at most three requests: which chain it is and its newest finalized block; for each authorization its state at that block and
 * its events in a few pages of blocks; the receipts of the transactions that used one.
 */
export class EvmChain implements ChainSource {
  /** A batch has at most 100 calls, which public RPCs accept. */
  readonly most = Math.floor(100 / (1 + PROBES));
  readonly #rpc: RpcOptions;
  readonly #network: string;

  constructor(rpc: RpcOptions, network: string) {
    this.#rpc = rpc;
    this.#network = network;
  }

  async block(): Promise<number> {
    const { number } = await this.#finalized();
    return Math.max(0, number - LIMITS.chainMargin);
  }

  async read(doubts: readonly Doubt[], now: number): Promise<ChainAnswer[]> {
    const head = await this.#finalized();
    const searches = doubts.map((doubt) => searchOf(doubt, head));
    const calls = searches.map((search) => (search === null ? [] : callsOf(search, head)));
    const results = await askRpc(this.#rpc, calls.flat());
    let next = 0;
    const seen = searches.map((search, at): Seen => {
      const own = results.slice(next, (next += calls[at]?.length ?? 0));
      return search === null ? { answer: undecided(null, "payload_erased") } : seenOf(search, own, head, now);
    });
    return this.#withReceipts(searches, seen);
  }

  /** Reads how the authorizations that were used were used. */
  async #withReceipts(searches: readonly (Search | null)[], seen: readonly Seen[]): Promise<ChainAnswer[]> {
    const logs = seen.flatMap((one) => ("used" in one ? [one.used] : []));
    const calls = logs.map(({ transactionHash }) => ({ method: "eth_getTransactionReceipt", params: [transactionHash] }));
    const receipts = calls.length === 0 ? [] : await askRpc(this.#rpc, calls);
    let next = 0;
    return seen.map((one, at) => {
      if ("answer" in one) return one.answer;
      const search = searches[at];
      const receipt = receipts[next++];
      return search === null || search === undefined ? undecided(null) : useOf(search, one.used, receipt);
    });
  }

  /** The newest finalized block, if this is the right chain: any other chain would say that the authorization was never used. */
  async #finalized(): Promise<Header> {
    const [id, block] = await askRpc(this.#rpc, [
      { method: "eth_chainId", params: [] },
      { method: "eth_getBlockByNumber", params: ["finalized", false] },
    ]);
    if (`eip155:${required(quantity, id)}` !== this.#network) throw new RpcFailure("wrong_chain");
    return required(Header, block);
  }
}

/** What to search for a payment; null if its texts are erased. */
function searchOf(doubt: Doubt, { number }: Header): Search | null {
  const [payload, terms] = [readAs(Payload, doubt.payload), readAs(Terms, doubt.requirements)];
  if (payload === null || terms === null) return null;
  const { from: payer, nonce, validAfter, validBefore } = payload.payload.authorization;
  const { found } = doubt;
  const from = found?.unusedAt != null ? found.unusedAt + 1 : (found?.searched ?? (found?.isOlder === true ? null : doubt.block));
  const to = Math.min(number, (from ?? number) + LIMITS.chainPages * LIMITS.chainPageBlocks - 1);
  const begins = BigInt(Math.floor((doubt.expiresAt - TIMING.evmLongest) / 1_000));
  return {
    doubt,
    token: terms.asset,
    payee: word(terms.payTo),
    amount: terms.amount,
    payer: word(payer),
    nonce,
    validBefore,
    from,
    to,
    // It cannot have been used before, nor before it came to us with the longest validity that counts.
    validAfter: Number(validAfter > begins ? validAfter : begins),
  };
}

/** The state first, then the events by pages, or the blocks between which the search begins. */
function callsOf(search: Search, head: Header): RpcCall[] {
  const { token, payer, nonce, from, to } = search;
  const state = { to: token, data: `${AUTHORIZATION_STATE}${payer.slice(2)}${nonce.slice(2)}` };
  const calls: RpcCall[] = [{ method: "eth_call", params: [state, numeral(head.number)] }];
  if (from === null) return [...calls, ...probesOf(head).map((number) => ({ method: "eth_getBlockByNumber", params: [numeral(number), false] }))];
  for (let first = from; first <= to; first += LIMITS.chainPageBlocks) {
    const range = { fromBlock: numeral(first), toBlock: numeral(Math.min(to, first + LIMITS.chainPageBlocks - 1)) };
    calls.push({ method: "eth_getLogs", params: [{ address: token, ...range, topics: [[USED, CANCELLED], payer, nonce] }] });
  }
  return calls;
}

function probesOf({ number }: Header): number[] {
  return Array.from({ length: PROBES }, (_, n) => Math.max(0, number - LIMITS.chainPageBlocks * 4 ** (n + 1)));
}

/**
 * What the answers about one authorization show: first its state at `head`, then the events of its pages, or the blocks between which the search begins. If one
 * of them cannot be read, or two contradict each other, they decide nothing.
 */
function seenOf(search: Search, [state, ...others]: readonly RpcResult[], head: Header, now: number): Seen {
  const { doubt, from } = search;
  const flag = read(Flag, state);
  if (flag === null) return { answer: undecided(doubt.found, faultOf(state)) };
  const isUsed = flag.endsWith("1");
  if (from === null) return { answer: isUsed ? beginning(search, others) : unused(head) };
  const event = eventOf(search, others);
  if (!event.ok) return { answer: undecided(doubt.found, event.reason) };
  if (event.value === null) return { answer: isUsed ? withoutEvent(from, search.to, head) : stillUnused(search, from, head, now) };
  if (!isUsed) return { answer: CONTRADICTION };
  return event.value.topics[0] === CANCELLED ? { answer: { kind: "void", proof: "cancelled" } } : { used: event.value };
}

/** Two answers that contradict each other: none of them counts, and neither does what was found before. */
const CONTRADICTION = undecided(null, "contradiction");

/** The one event of an authorization in these pages; null if they have none. The reason is what is wrong with them. */
function eventOf(search: Search, results: readonly RpcResult[]): Result<Log | null, string> {
  const events: Log[] = [];
  for (const result of results) {
    const page = read(Logs, result);
    if (page === null) return { ok: false, reason: faultOf(result) };
    events.push(...page);
  }
  const [event, another] = events;
  if (event === undefined) return { ok: true, value: null };
  return another === undefined && isWanted(search, event) ? { ok: true, value: event } : { ok: false, reason: "invalid_response" };
}

/** What is known of an authorization that has been used, if the blocks `from` … `to` have no event of it. */
function withoutEvent(from: number, to: number, head: Header): ChainAnswer {
  // It was unused at this block or a later one.
  if (from > head.number) return CONTRADICTION;
  if (to < head.number) return searchOn(to + 1);
  return undecided({ searched: null, unusedAt: null, isOlder: true }, "no_event");
}

/** What is known of an authorization that is unused at `head`: once its time is over by the chain's clock and by ours, no money can move any more. */
function stillUnused({ doubt, to, validBefore }: Search, from: number, head: Header, now: number): ChainAnswer {
  const { found, expiresAt } = doubt;
  const wasUnused = found?.unusedAt != null;
  // An older node answers.
  if (wasUnused && from > head.number + 1) return undecided(found, "old_answer");
  const hasExpired = BigInt(head.timestamp) >= validBefore && now >= expiresAt;
  if (!hasExpired) return unused(head);
  // Two readings must show this, with no event in between.
  return wasUnused && to === head.number ? { kind: "void", proof: "expired" } : { ...unused(head), more: true };
}

/** The search for the event goes on at once, at this block. */
function searchOn(searched: number): ChainAnswer {
  return { kind: "undecided", found: { searched, unusedAt: null }, more: true };
}

function unused({ number }: Header): Extract<ChainAnswer, { kind: "undecided" }> {
  return { kind: "undecided", found: { searched: null, unusedAt: number }, more: false };
}

/**
 * Begins the search for an authorization that was used before its first reading: at the nearest of these blocks that is older than it, otherwise at the first
 * one.
 */
function beginning({ doubt, validAfter }: Search, probes: readonly RpcResult[]): ChainAnswer {
  const blocks = probes.map((probe) => read(Header, probe));
  const older = blocks.flatMap((block) => (block !== null && block.timestamp <= validAfter ? [block.number] : []));
  // From the first block on it would take hours, so that is no answer to a probe that could not be read.
  const unread = blocks.indexOf(null);
  if (older.length === 0 && unread !== -1) return undecided(doubt.found, faultOf(probes[unread]));
  return searchOn(Math.max(0, ...older));
}

/** True if this is an event of the authorization that was asked for: a wrong one means that the RPC does not work correctly. */
function isWanted({ token, payer, nonce, from, to }: Search, { address, topics, blockNumber }: Log): boolean {
  const [kind, who, which] = topics;
  const isInRange = blockNumber >= (from ?? 0) && blockNumber <= to;
  return address === token && (kind === USED || kind === CANCELLED) && who === payer && which === nonce && isInRange;
}

/**
 * How an authorization was used. The money is ours if the next event of the token in that transaction is a transfer of exactly our amount from the payer to
 * our payee: each transfer follows one use, so it pays one payment [PY8].
 */
function useOf({ doubt, token, payer, payee, amount }: Search, use: Log, result: RpcResult | undefined): ChainAnswer {
  const receipt = read(Receipt, result);
  const events = receipt?.logs.filter(({ address }) => address === token).toSorted((a, b) => a.logIndex - b.logIndex) ?? [];
  const at = events.findIndex(({ logIndex, topics }) => logIndex === use.logIndex && String(topics) === String(use.topics));
  if (receipt?.transactionHash !== use.transactionHash || receipt.blockNumber !== use.blockNumber || at === -1) return undecided(doubt.found, faultOf(result));
  const next = events[at + 1];
  const isOurs = String(next?.topics) === String([TRANSFER, payer, payee]) && /^0x[0-9a-f]{64}$/.test(next?.data ?? "") && BigInt(next?.data ?? 0) === amount;
  return isOurs ? { kind: "settled", transaction: use.transactionHash } : { kind: "void", proof: "used_elsewhere" };
}

/** An address as a topic or argument. */
function word(address: string): string {
  return `0x${address.slice(2).padStart(64, "0")}`;
}

function numeral(number: number): string {
  return `0x${number.toString(16)}`;
}

/** The value of a result; null if it is not of this form. */
function read<T>(schema: z.ZodType<T>, result: RpcResult | undefined): T | null {
  return (result?.ok === true ? schema.safeParse(result.value).data : undefined) ?? null;
}

/** @throws {RpcFailure} if a result is not of this form */
function required<T>(schema: z.ZodType<T>, result: RpcResult | undefined): T {
  const value = read(schema, result);
  if (value === null) throw new RpcFailure(faultOf(result));
  return value;
}

function faultOf(result: RpcResult | undefined): string {
  return result?.ok === false ? result.reason : "invalid_response";
}
