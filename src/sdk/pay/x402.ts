import { isJsonObject, readJson } from "../../protocol/text.ts";
import { fromBase64, toBase64 } from "../../receipt/bytes.ts";
import { parsePrice } from "../payment.ts";
import { checkNames, optionNames, wrong } from "../check.ts";
import { ProtocolError } from "../errors.ts";
import { defaultAsset, MONAD_TESTNET_USDC, SOLANA_DEVNET_USDC } from "./token.ts";

/**
 * The client side of x402 v2: read what a 402 asks for, make a payment of it, put the payment into headers. Knows no chain; a signer does.
 * @module
 */

export { MONAD_TESTNET_USDC, SOLANA_DEVNET_USDC, type PaymentToken } from "./token.ts";

/** One way to pay: an entry of `accepts` in x402 v2. */
export type PaymentTerms = {
  scheme: string;
  /** CAIP-2 id. */
  network: string;
  /** Atomic units of the token. */
  amount: string;
  asset: string;
  payTo: string;
  maxTimeoutSeconds: number;
  extra: Record<string, unknown>;
};

/** What a 402 asks for. */
export type RequiredPayment = {
  /** Why the router answers so. */
  error: string | null;
  /** What is paid for, as the router describes it: it goes back with the payment. */
  resource: unknown;
  /** At least one. */
  accepts: readonly PaymentTerms[];
};

/** A payment as it travels, before base64. */
export type Payment = {
  x402Version: 2;
  resource?: unknown;
  /** The terms that were chosen, word for word. */
  accepted: PaymentTerms;
  /** What was signed; its shape is the scheme's. */
  payload: Record<string, unknown>;
};

/** Chooses one of the offers and signs for it. What it throws is what `createPayment` rejects with. */
export type PaymentSigner = (offers: readonly PaymentTerms[]) => Promise<{ accepted: PaymentTerms; payload: Record<string, unknown> }>;

/** Headers of an answer: a `Headers`, or an object with names in any case. */
export type HeadersLike = { get(name: string): string | null } | Readonly<Record<string, string | null | undefined>>;

/**
 * Reads what a 402 asks for: from its header `PAYMENT-REQUIRED`, or from its parsed body where there is no such header.
 * Throws ProtocolError when neither says it.
 */
export function readPaymentRequired(headers: HeadersLike, body?: unknown): RequiredPayment {
  const header = headerOf(headers, "payment-required");
  const wire = header === null ? body : decode(header);
  if (!isJsonObject(wire) || !Array.isArray(wire.accepts)) throw new ProtocolError("the 402 does not say how to pay", { status: 402 });
  // Entries of a header go back word for word: servers compare them whole. Those of a body have fields that no x402 v2 terms have.
  const accepts = wire.accepts.map((entry: unknown) => (header === null ? termsOfBody(entry) : entry)).filter(isTerms);
  if (accepts.length === 0) throw new ProtocolError("the 402 offers no way to pay that can be read", { status: 402 });
  return { error: typeof wire.error === "string" ? wire.error : null, resource: wire.resource, accepts };
}

/** Makes a payment: the signer chooses an offer and signs for it. Nothing is sent. */
export async function createPayment(required: RequiredPayment, signer: PaymentSigner): Promise<Payment> {
  const { accepted, payload } = await signer(required.accepts);
  return { x402Version: 2, ...(isJsonObject(required.resource) && { resource: required.resource }), accepted, payload };
}

/** The headers that bring a payment: `PAYMENT-SIGNATURE` as in x402 v2, and the same in `X-PAYMENT` for those who only know that. */
export function paymentHeaders(payment: Payment): { "PAYMENT-SIGNATURE": string; "X-PAYMENT": string } {
  const value = toBase64(new TextEncoder().encode(JSON.stringify(payment)));
  return { "PAYMENT-SIGNATURE": value, "X-PAYMENT": value };
}

/** What `spendControlsFor` may be told. */
export type SpendOptions = {
  /** The token, where it is not the instance's default. */
  asset?: string;
  /** The most for one payment, in US dollars: `0.1` (default) or `"$0.10"`. */
  maxPrice?: number | string;
};

/**
 * What x402's own clients of 2.23 and later need to hear before they pay an instance, for `new x402Client().setSpendControls(…)`: they refuse
 * tokens that they do not know, and they know none on `eip155:10143`. Throws InvalidOptionError.
 */
export function spendControlsFor(
  instance: "evm" | "svm",
  options?: SpendOptions,
): { allowedAssets: { network: `${string}:${string}`; asset: string; maxAmountPerPayment: string }[] } {
  const { asset, maxPrice = 0.1 } = checkNames("options of spendControlsFor", options, optionNames<SpendOptions>({ asset: 0, maxPrice: 0 })) ?? {};
  const most = parsePrice(maxPrice);
  if (most === null) throw wrong("maxPrice", 'must be US dollars, as 0.01 or "$0.01"', maxPrice);
  const token = instance === "evm" ? MONAD_TESTNET_USDC : SOLANA_DEVNET_USDC;
  return { allowedAssets: [{ network: token.network, asset: asset ?? token.asset, maxAmountPerPayment: String(most) }] };
}

function headerOf(headers: HeadersLike, name: string): string | null {
  if (typeof headers.get === "function") return headers.get(name);
  const value: unknown = Object.entries(headers).find(([known]) => known.toLowerCase() === name)?.[1];
  return typeof value === "string" ? value : null;
}

function decode(header: string): unknown {
  const bytes = fromBase64(header.trim());
  const json = bytes === null ? null : readJson(new TextDecoder().decode(bytes));
  return json?.ok === true ? json.value : undefined;
}

function termsOfBody(entry: unknown): unknown {
  if (!isJsonObject(entry)) return undefined;
  const { scheme, network, amount = entry.maxAmountRequired, asset = defaultAsset(network), payTo, maxTimeoutSeconds = 300, extra = {} } = entry;
  return { scheme, network, amount, asset, payTo, maxTimeoutSeconds, extra };
}

function isTerms(value: unknown): value is PaymentTerms {
  if (!isJsonObject(value)) return false;
  const { scheme, network, amount, asset, payTo, maxTimeoutSeconds, extra } = value;
  const areTexts = [scheme, network, amount, asset, payTo].every((text) => typeof text === "string");
  return areTexts && Number.isSafeInteger(maxTimeoutSeconds) && Number(maxTimeoutSeconds) > 0 && isJsonObject(extra);
}
