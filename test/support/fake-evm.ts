// A fake EVM node with authorizations and transfers, for tests of the chain reader.
import { onTestFinished, vi } from "vitest";

type Call = { id: number; method: string; params: readonly unknown[] };
type Event = { address?: string; topics: readonly string[]; data?: string };
type Transaction = { block: number; hash: string; events: readonly Event[] };

export const RPC_URL = "https://node.test/v2/secret-api-key";
export const TOKEN = "0x00000000000000000000000000000000000000aa";
export const PAYEE = "0x00000000000000000000000000000000000000bb";
export const PAYER = "0x00000000000000000000000000000000000000cc";
export const OTHER = "0x00000000000000000000000000000000000000dd";
const USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const CANCELLED = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";
const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

const hexOf = (value: number | bigint) => `0x${value.toString(16)}`;
const word = (value: string | number | bigint) => `0x${(typeof value === "string" ? value.slice(2) : value.toString(16)).padStart(64, "0")}`;

export const nonceOf = (n: number): string => word(n + 1);
export const used = (nonce: string, from = PAYER): Event => ({ topics: [USED, word(from), nonce] });
export const cancelled = (nonce: string, from = PAYER): Event => ({ topics: [CANCELLED, word(from), nonce] });
export const transfer = (amount: number, to = PAYEE, from = PAYER): Event => ({ topics: [TRANSFER, word(from), word(to)], data: word(amount) });

/** An EVM node for the requests about authorizations; its blocks come once a second. It counts what it is asked, and ends with its test. */
export class FakeEvm {
  chainId = 10_143;
  finalized = 10_000;
  readonly transactions: Transaction[] = [];
  /** The calls of each request. */
  readonly requests: Call[][] = [];
  /** Another result for a call; undefined for the true one. */
  lie: (call: Call, truth: unknown) => unknown = (_, truth) => truth;
  /** Another answer than a result. */
  before: (() => Promise<Response | undefined>) | null = null;

  constructor() {
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => this.#fetch(new Request(input).url, init));
    onTestFinished(() => fetched.mockRestore());
  }

  /** A block's time in seconds. */
  timeOf(block: number): number {
    return 1_800_000_000 + block;
  }

  mine(block: number, ...events: Event[]): string {
    const hash = word(block * 1_000 + this.transactions.length + 7);
    this.transactions.push({ block, hash, events });
    return hash;
  }

  async #fetch(url: string, init: RequestInit | undefined): Promise<Response> {
    if (url !== RPC_URL || init?.redirect !== "manual") throw new Error(`${url} was asked`);
    const question = (await new Response(init.body ?? null).json()) as Call | Call[];
    const calls = [question].flat();
    this.requests.push(calls);
    const instead = await this.before?.();
    if (instead !== undefined) return instead;
    const answers = calls.map((call) => {
      const result = this.lie(call, this.#answer(call));
      return result instanceof Error
        ? { jsonrpc: "2.0", id: call.id, error: { code: -32_000, message: result.message } }
        : { jsonrpc: "2.0", id: call.id, result };
    });
    return Response.json(Array.isArray(question) ? answers.toReversed() : answers[0]);
  }

  #answer({ method, params: [first, second] }: Call): unknown {
    switch (method) {
      case "eth_chainId":
        return hexOf(this.chainId);
      case "eth_getBlockByNumber": {
        const number = first === "finalized" ? this.finalized : Number(first);
        return { number: hexOf(number), timestamp: hexOf(this.timeOf(number)), hash: word(number) };
      }
      case "eth_call": {
        const { to, data } = first as { to: string; data: string };
        if (to !== TOKEN || !data.startsWith("0xe94a0102")) return "0x";
        const nonce = `0x${data.slice(74)}`;
        const isUsed = this.transactions.some(({ block, events }) => block <= Number(second) && events.some(({ topics }) => topics[2] === nonce));
        return word(isUsed ? 1 : 0);
      }
      case "eth_getLogs": {
        const { fromBlock, toBlock, address, topics } = first as { fromBlock: string; toBlock: string; address: string; topics: [string[], string, string] };
        const isWanted = (log: { address: string; topics: readonly string[] }) =>
          log.address === address && topics[0].includes(log.topics[0] ?? "") && topics[1] === log.topics[1] && topics[2] === log.topics[2];
        const inRange = this.transactions.filter(({ block }) => block >= Number(fromBlock) && block <= Number(toBlock));
        return inRange.flatMap((transaction) => this.#logs(transaction)).filter(isWanted);
      }
      case "eth_getTransactionReceipt": {
        const transaction = this.transactions.find(({ hash }) => hash === first);
        if (transaction === undefined) return null;
        return { status: "0x1", transactionHash: transaction.hash, blockNumber: hexOf(transaction.block), logs: this.#logs(transaction) };
      }
      default:
        throw new Error(`${method} was called`);
    }
  }

  #logs({ block, hash, events }: Transaction) {
    return events.map(({ address = TOKEN, topics, data = "0x" }, at) => ({
      ...{ address, topics, data, blockNumber: hexOf(block), transactionHash: hash, logIndex: hexOf(at + 3), removed: false },
    }));
  }
}
