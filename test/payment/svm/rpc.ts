// The Solana JSON-RPC of the lab's SVM.
import { setTimeout as delay } from "node:timers/promises";
import { type Address, getBase58Decoder, getBase58Encoder, type Signature } from "@solana/kit";
import { getTokenDecoder } from "@solana-program/token";
import { type Listener, listen, readText, sendJson } from "../loopback.ts";
import type { Landed, Ledger } from "./ledger.ts";
import type { TransactionError } from "./transaction-error.ts";

/** Of the devnet, which the SVM instance runs on. */
const GENESIS_HASH = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";
const DECIMALS = 6;

type Params = readonly unknown[];
type Method = (params: Params) => unknown;

/** How the RPC behaves. */
export type RpcOptions = {
  /** 0 takes a free one. */
  port: number;
  /** How long a landed transaction stays unknown to `getSignatureStatuses`. */
  confirmMs: number;
  /** How long each answer takes. */
  latencyMs: number;
};

/** A JSON-RPC error, with the code that Solana's own servers use. */
class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;
  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Puts the ledger behind a Solana JSON-RPC with the methods that x402's exact scheme and @solana/kit call. @throws when the port is taken */
export function startRpc(ledger: Ledger, options: RpcOptions): Promise<Listener> {
  const methods = methodsOf(ledger, options);
  return listen(options.port, async (request, response) => {
    if (request.method !== "POST") return sendJson(response, 405, { error: "POST" });
    let body: unknown;
    try {
      body = JSON.parse(await readText(request));
    } catch {
      return sendJson(response, 200, { jsonrpc: "2.0", id: null, error: { code: -32_700, message: "Parse error" } });
    }
    if (options.latencyMs > 0) await delay(options.latencyMs);
    sendJson(response, 200, Array.isArray(body) ? body.map((call) => answer(methods, call)) : answer(methods, body));
  });
}

function answer(methods: Readonly<Record<string, Method>>, call: unknown): unknown {
  const { id = null, method = "", params = [] } = (call ?? {}) as { id?: unknown; method?: string; params?: Params };
  try {
    const run = Object.hasOwn(methods, method) ? methods[method] : undefined;
    if (run === undefined) throw new RpcError(-32_601, `Method not found: ${method}`);
    return { jsonrpc: "2.0", id, result: run(params) };
  } catch (error) {
    const code = error instanceof RpcError ? error.code : -32_602;
    const message = error instanceof Error ? error.message : String(error);
    return { jsonrpc: "2.0", id, error: { code, message, ...(error instanceof RpcError && error.data !== undefined && { data: error.data }) } };
  }
}

function methodsOf(ledger: Ledger, { confirmMs }: RpcOptions): Record<string, Method> {
  const inContext = (value: unknown): unknown => ({ context: { apiVersion: "2.3.0", slot: ledger.slot }, value });
  const isConfirmed = (landed: Landed): boolean => ledger.now() - landed.at >= confirmMs;
  return {
    getHealth: () => "ok",
    getGenesisHash: () => GENESIS_HASH,
    getSlot: () => ledger.slot,
    getBlockHeight: () => ledger.slot,
    getBlockTime: ([slot]) => Math.floor(ledger.timeOf(Number(slot)) / 1000),
    isBlockhashValid: ([blockhash]) => inContext(ledger.isBlockhashValid(String(blockhash))),
    getSignaturesForAddress: ([address, config]) => {
      const { limit = 1_000, before } = (config ?? {}) as { limit?: number; before?: string };
      const all = ledger.history(address as Address).filter(isConfirmed);
      const first = before === undefined ? 0 : all.findIndex(({ signature }) => signature === before) + 1;
      return all.slice(first, first + limit).map(({ signature, slot, error, at }) => ({
        ...{ signature, slot, err: error, memo: null, blockTime: Math.floor(at / 1000), confirmationStatus: "finalized" },
      }));
    },
    getLatestBlockhash: () => inContext(ledger.latestBlockhash()),
    getBalance: ([address]) => inContext(lamportsOf(ledger, address)),
    getAccountInfo: ([address]) => inContext(accountInfo(ledger, address)),
    getMultipleAccounts: ([addresses]) => inContext((addresses as unknown[]).map((address) => accountInfo(ledger, address))),
    getTokenAccountBalance: ([address]) => inContext(tokenAmount(ledger, address)),
    simulateTransaction: ([transaction, config]) => {
      const { sigVerify = false, replaceRecentBlockhash = false } = (config ?? {}) as { sigVerify?: boolean; replaceRecentBlockhash?: boolean };
      const simulated = ledger.simulate(bytesOf(transaction, config), { sigVerify, replaceBlockhash: replaceRecentBlockhash });
      return inContext({
        err: simulated.error,
        logs: simulated.logs,
        accounts: null,
        unitsConsumed: simulated.units,
        returnData: null,
        innerInstructions: null,
      });
    },
    sendTransaction: ([transaction, config]) => {
      const { skipPreflight = false } = (config ?? {}) as { skipPreflight?: boolean };
      const bytes = bytesOf(transaction, config);
      if (!skipPreflight) {
        const { error, logs } = ledger.simulate(bytes, { sigVerify: true, replaceBlockhash: false });
        if (error !== null) throw preflightError(error, logs);
      }
      // What the chain would never take up is accepted all the same: the node only passes it on.
      ledger.post(bytes);
      return signatureOf(bytes);
    },
    getSignatureStatuses: ([signatures]) => inContext((signatures as Signature[]).map((signature) => status(ledger.landed(signature), isConfirmed))),
    getTransaction: ([signature]) => {
      const landed = ledger.landed(signature as Signature);
      if (landed === undefined || !isConfirmed(landed)) return null;
      return {
        slot: landed.slot,
        blockTime: Math.floor(landed.at / 1000),
        version: 0,
        meta: {
          ...{ err: landed.error, fee: 5_000, logMessages: landed.logs, innerInstructions: [] },
          ...{ preTokenBalances: landed.balances.before, postTokenBalances: landed.balances.after },
        },
        transaction: [Buffer.from(landed.bytes).toString("base64"), "base64"],
      };
    },
  };
}

function status(landed: Landed | undefined, isConfirmed: (landed: Landed) => boolean): unknown {
  if (landed === undefined || !isConfirmed(landed)) return null;
  const outcome = landed.error === null ? { Ok: null } : { Err: landed.error };
  return { slot: landed.slot, confirmations: null, err: landed.error, status: outcome, confirmationStatus: "finalized" };
}

function accountInfo(ledger: Ledger, address: unknown): unknown {
  const account = ledger.account(address as Address);
  if (!account.exists) return null;
  const { data, executable, lamports, programAddress } = account;
  return { data: [Buffer.from(data).toString("base64"), "base64"], executable, lamports, owner: programAddress, rentEpoch: 0, space: data.length };
}

function lamportsOf(ledger: Ledger, address: unknown): bigint {
  const account = ledger.account(address as Address);
  return account.exists ? account.lamports : 0n;
}

function existing(ledger: Ledger, address: unknown) {
  const account = ledger.account(address as Address);
  if (!account.exists) throw new RpcError(-32_602, "Invalid param: could not find account");
  return account;
}

function tokenAmount(ledger: Ledger, address: unknown): unknown {
  const { amount } = getTokenDecoder().decode(existing(ledger, address).data);
  const uiAmount = Number(amount) / 10 ** DECIMALS;
  return { amount: String(amount), decimals: DECIMALS, uiAmount, uiAmountString: String(uiAmount) };
}

function preflightError(error: TransactionError, logs: readonly string[]): RpcError {
  const text = typeof error === "string" ? error : JSON.stringify(error);
  return new RpcError(-32_002, `Transaction simulation failed: ${text}`, { err: error, logs, accounts: null, unitsConsumed: 0, returnData: null });
}

function bytesOf(transaction: unknown, config: unknown): Uint8Array {
  if (typeof transaction !== "string") throw new RpcError(-32_602, "Invalid params: the transaction must be a string");
  const { encoding } = (config ?? {}) as { encoding?: string };
  return encoding === "base64" ? Buffer.from(transaction, "base64") : new Uint8Array(getBase58Encoder().encode(transaction));
}

/** The first signature stands right after the number of signatures, which is below 128 in any transaction that fits a packet. */
function signatureOf(bytes: Uint8Array): Signature {
  return getBase58Decoder().decode(bytes.subarray(1, 65)) as Signature;
}
