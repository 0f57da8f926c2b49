// A fake RPC node of both chains with stakes and balances, for the edge tests.
import { onTestFinished, vi } from "vitest";
import * as z from "zod";
import { base58 } from "@scure/base";

/** A path with a key in it, as in the URLs of RPC providers. */
export const RPC_URL = "https://node.test/v2/secret-api-key";
export const CONTRACT = "0x00000000000000000000000000000000000000ab";
export const MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU";

const STAKE_OF = "07177c9c";
const Call = z.discriminatedUnion("method", [
  z.object({
    id: z.number(),
    jsonrpc: z.literal("2.0"),
    method: z.literal("eth_call"),
    params: z.tuple([z.strictObject({ to: z.literal(CONTRACT), data: z.string().regex(new RegExp(`^0x${STAKE_OF}[0-9a-f]{64}$`)) }), z.literal("latest")]),
  }),
  z.object({
    id: z.number(),
    jsonrpc: z.literal("2.0"),
    method: z.literal("getTokenAccountsByOwner"),
    params: z.tuple([
      z.string(),
      z.strictObject({ mint: z.literal(MINT) }),
      z.strictObject({ encoding: z.literal("jsonParsed"), commitment: z.literal("finalized") }),
    ]),
  }),
]);
type Call = z.infer<typeof Call>;

/** The balance of an account in smallest units, and its token program. */
export type Holding = { amount: bigint; program?: "Token" | "Token2022"; decimals?: number; mint?: string; owner?: string };

const PROGRAMS = { Token: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", Token2022: "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb" } as const;

/** A local node for both chains. It has stakes and balances by worker key, and counts the questions. It ends with its test. */
export class StakeNode {
  readonly stakes = new Map<string, bigint>();
  readonly holdings = new Map<string, readonly Holding[]>();
  /** Wrong results to answer with, by worker key. */
  readonly garbage = new Map<string, unknown>();
  /** The number of questions in each request. */
  readonly requests: number[] = [];
  /** Runs before every answer: it may throw, wait, or return another answer. */
  before: ((signal: AbortSignal | null) => Promise<Response | void>) | null = null;
  underWay = 0;

  constructor() {
    const fetched = vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => this.#fetch(new Request(input).url, init));
    onTestFinished(() => fetched.mockRestore());
  }

  async #fetch(url: string, init: RequestInit | undefined): Promise<Response> {
    if (url !== RPC_URL || init?.redirect !== "manual") throw new Error(`${url} was asked`);
    const question: unknown = await new Response(init.body ?? null).json();
    const calls = z.array(Call).parse([question].flat());
    this.requests.push(calls.length);
    this.underWay++;
    try {
      const instead = await this.before?.(init.signal ?? null);
      if (instead) return instead;
      const answers = calls.map((call) => ({ jsonrpc: "2.0", id: call.id, result: this.#answer(call) }));
      // A batch may be answered in any order.
      return Response.json(Array.isArray(question) ? answers.toReversed() : answers[0]);
    } finally {
      this.underWay--;
    }
  }

  #answer(call: Call): unknown {
    if (call.method === "eth_call") {
      const key = call.params[0].data.slice(10);
      if (this.garbage.has(key)) return this.garbage.get(key);
      return `0x${(this.stakes.get(key) ?? 0n).toString(16).padStart(64, "0")}`;
    }
    const [address] = call.params;
    const named = (key: string) => base58.encode(Buffer.from(key, "hex")) === address;
    const bad = [...this.garbage].find(([key]) => named(key));
    if (bad !== undefined) return bad[1];
    const [, holdings = []] = [...this.holdings].find(([key]) => named(key)) ?? [];
    return { context: { slot: 1, apiVersion: "2.3.0" }, value: holdings.map((holding) => tokenAccount(address, holding)) };
  }
}

/** Returns an account in the form of `jsonParsed`. */
function tokenAccount(address: string, { amount, program = "Token", decimals = 9, mint = MINT, owner = address }: Holding): object {
  const tokenAmount = { amount: String(amount), decimals, uiAmount: null, uiAmountString: "0" };
  const info = { isNative: false, mint, owner, state: "initialized", tokenAmount };
  const name = program === "Token" ? "spl-token" : "spl-token-2022";
  const data = { program: name, parsed: { info, type: "account" }, space: 165 };
  return { pubkey: MINT, account: { lamports: 2_039_280, owner: PROGRAMS[program], data, executable: false, rentEpoch: 0, space: 165 } };
}

/** Never answers; rejects when the signal of the request aborts. */
export function hang(signal: AbortSignal | null): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(new Error("aborted"))));
}
