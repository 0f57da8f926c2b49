/**
 * The client side of x402 v2: parse what a 402 asks for, create a payment, and put it into headers. This module knows no chain; the signer does.
 * @module
 */
import { isJsonObject } from "../../protocol/json.ts";
import { solanaUsdc } from "../../protocol/pricing.ts";
import { toBase64 } from "../../receipt/bytes.ts";
import { checkNames, optionNames } from "../check.ts";
import { ProtocolError } from "../errors.ts";
import { decodePaymentHeader, readMaxAmount } from "../payment.ts";

/** A token on a chain. */
export type PaymentToken = {
  /** CAIP-2 id of the chain, as `eip155:10143`. */
  network: string;
  /** Address of the token contract, or of the mint. */
  asset: string;
};

/** USDC on the Monad testnet: the default token of the EVM instance. */
export const MONAD_TESTNET_USDC = { network: "eip155:10143", asset: "0x534b2f3A21130d7a60830c2Df862319e593943A3" } as const satisfies PaymentToken;

/** USDC on the devnet of Solana: the default token of the SVM instance. */
export const SOLANA_DEVNET_USDC = {
  network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
  asset: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
} as const satisfies PaymentToken;

/** One way to pay: an entry of `accepts` in x402 v2. */
export type PaymentTerms = {
  /** Payment scheme; the router offers `exact`. */
  scheme: string;
  /** CAIP-2 id of the chain. */
  network: string;
  /** Atomic units of the token. */
  amount: string;
  /** Address of the token. */
  asset: string;
  /** Address that gets the money. */
  payTo: string;
  /** How long the payment must stay valid, in seconds. */
  maxTimeoutSeconds: number;
  /** Fields of the scheme, as the token's name and version on the EVM. */
  extra: Record<string, unknown>;
};

/** What a 402 asks for. */
export type RequiredPayment = {
  /** The reason of the 402. */
  error: string | null;
  /** What is paid for, as the router describes it. It is sent back with the payment. */
  resource: unknown;
  /** The offers; at least one. */
  accepts: readonly PaymentTerms[];
};

/** A payment before it is encoded as base64. */
export type Payment = {
  x402Version: 2;
  /** As in the 402. */
  resource?: unknown;
  /** The chosen terms, unchanged. */
  accepted: PaymentTerms;
  /** The signed part. Its shape depends on the scheme. */
  payload: Record<string, unknown>;
};

/** Chooses one of the offers and signs a payment for it. If it throws, `createPayment` rejects with that error. */
export type PaymentSigner = (offers: readonly PaymentTerms[]) => Promise<{ accepted: PaymentTerms; payload: Record<string, unknown> }>;

/** Headers of an answer: a `Headers`, or an object with names in any case. */
export type HeadersLike = { get(name: string): string | null } | Readonly<Record<string, string | null | undefined>>;

/**
 * Parses what a 402 asks for, from its header `PAYMENT-REQUIRED`, or from its body if there is no such header.
 *
 * @param headers of the 402
 * @param body of the 402, parsed as JSON
 * @returns the offers, the reason and the resource
 * @throws ProtocolError if neither states how to pay
 * @example
 * const response = await fetch(url, { method: "POST", body });
 * if (response.status === 402) console.log(readPaymentRequired(response.headers, await response.json()).accepts);
 */
export function readPaymentRequired(headers: HeadersLike, body?: unknown): RequiredPayment {
  const header = headerOf(headers, "payment-required");
  const wire = header === null ? body : decodePaymentHeader(header);
  if (!isJsonObject(wire) || !Array.isArray(wire.accepts)) throw new ProtocolError("the 402 does not say how to pay", { status: 402 });
  // Entries of a header stay unchanged, because servers compare them as a whole. Entries of a body have fields that x402 v2 terms do not have.
  const accepts = wire.accepts.map((entry: unknown) => (header === null ? termsOfBody(entry) : entry)).filter(isTerms);
  if (accepts.length === 0) throw new ProtocolError("the 402 has no well-formed offer", { status: 402 });
  return { error: typeof wire.error === "string" ? wire.error : null, resource: wire.resource, accepts };
}

/**
 * Creates a payment: the signer chooses an offer and signs it. Nothing is sent.
 *
 * @param required the result of {@link readPaymentRequired}
 * @param signer for example `evmSigner(account)` or `svmSigner(signer)`
 * @returns the payment, for {@link paymentHeaders}
 * @throws what the signer throws, for example PaymentLimitError
 * @example
 * const payment = await createPayment(readPaymentRequired(response.headers), evmSigner(account));
 */
export async function createPayment(required: RequiredPayment, signer: PaymentSigner): Promise<Payment> {
  const { accepted, payload } = await signer(required.accepts);
  return { x402Version: 2, ...(isJsonObject(required.resource) && { resource: required.resource }), accepted, payload };
}

/**
 * The headers that carry a payment: `PAYMENT-SIGNATURE` as in x402 v2, and the same value in `X-PAYMENT` for servers that only know that name.
 *
 * @param payment the result of {@link createPayment}
 * @returns two headers with one value: base64 of the payment as JSON
 * @example
 * await fetch(url, { method: "POST", body, headers: paymentHeaders(payment) });
 */
export function paymentHeaders(payment: Payment): { "PAYMENT-SIGNATURE": string; "X-PAYMENT": string } {
  const value = toBase64(new TextEncoder().encode(JSON.stringify(payment)));
  return { "PAYMENT-SIGNATURE": value, "X-PAYMENT": value };
}

/** Options of `spendControlsFor`. */
export type SpendOptions = {
  /** Address of the token; default: that of the instance. */
  asset?: string;
  /** The most for one payment, in US dollars: `0.1` (default) or `"$0.10"`. */
  maxPrice?: number | string;
};

/**
 * Spend controls for the clients of the package @x402/core, version 2.23 and later. These clients refuse tokens that they do not know, and they know none on
 * `eip155:10143`.
 *
 * @param instance the instance to pay
 * @param options token and the highest price
 * @returns the argument of `new x402Client().setSpendControls(…)`
 * @throws InvalidOptionError for a wrong option
 * @example
 * const client = new x402Client().setSpendControls(spendControlsFor("evm", { maxPrice: 0.02 }));
 */
export function spendControlsFor(
  instance: "evm" | "svm",
  options?: SpendOptions,
): { allowedAssets: { network: `${string}:${string}`; asset: string; maxAmountPerPayment: string }[] } {
  const { asset, maxPrice = 0.1 } = checkNames("options of spendControlsFor", options, optionNames<SpendOptions>({ asset: 0, maxPrice: 0 })) ?? {};
  const most = readMaxAmount(maxPrice);
  const token = instance === "evm" ? MONAD_TESTNET_USDC : SOLANA_DEVNET_USDC;
  return { allowedAssets: [{ network: token.network, asset: asset ?? token.asset, maxAmountPerPayment: String(most) }] };
}

function headerOf(headers: HeadersLike, name: string): string | null {
  if (typeof headers.get === "function") return headers.get(name);
  const value: unknown = Object.entries(headers).find(([known]) => known.toLowerCase() === name)?.[1];
  return typeof value === "string" ? value : null;
}

function termsOfBody(entry: unknown): unknown {
  if (!isJsonObject(entry)) return undefined;
  // The 402 body of the SVM instance names no token: it is the USDC of the network.
  const { scheme, network, amount = entry.maxAmountRequired, asset = solanaUsdc(network), payTo, maxTimeoutSeconds = 300, extra = {} } = entry;
  return { scheme, network, amount, asset, payTo, maxTimeoutSeconds, extra };
}

function isTerms(value: unknown): value is PaymentTerms {
  if (!isJsonObject(value)) return false;
  const { scheme, network, amount, asset, payTo, maxTimeoutSeconds, extra } = value;
  const areTexts = [scheme, network, amount, asset, payTo].every((text) => typeof text === "string");
  return areTexts && Number.isSafeInteger(maxTimeoutSeconds) && Number(maxTimeoutSeconds) > 0 && isJsonObject(extra);
}
