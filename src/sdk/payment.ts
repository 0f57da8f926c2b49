// Payment of a commit from the client's side: what a hook is asked and may return, and the limit that prices must keep.
import type { PaymentRequired } from "../protocol/rest.ts";
import { isJsonObject } from "../protocol/text.ts";
import { fromBase64 } from "../receipt/bytes.ts";
import { InvalidOptionError, PaymentLimitError, type PaymentOption } from "./errors.ts";

/** Body of a 402: what the router wants to be paid, and why it answers so. */
export type PaymentChallenge = { error: string; accepts: PaymentOption[] } & Partial<Omit<PaymentRequired, "error" | "accepts">>;

/** What a payment hook hears besides the challenge. */
export type PaymentAttempt = {
  /** 1 for the first payment, 2 when the router refused that one with another 402 (and so did not charge it). */
  number: number;
  /** The `PAYMENT-REQUIRED` header as sent (base64 JSON, x402 v2); null if there was none. */
  header: string | null;
  /** Aborts with the run. */
  signal: AbortSignal;
};

/**
 * Makes a payment: resolves to the headers to repeat the commit with, `X-PAYMENT` or `PAYMENT-SIGNATURE`, or to an empty object for "no".
 * What it throws is what `run` rejects with.
 */
export type PaymentHook = (required: PaymentChallenge, attempt: PaymentAttempt) => Promise<Record<string, string>>;

/**
 * Throws PaymentLimitError if anything offered costs more than `maxPrice` US dollars: a hook may choose any offer, from the body or from the
 * header, and signs the amount, so a harmless `price` next to another amount must not pass.
 */
export function checkOffers(challenge: PaymentChallenge, header: string | null, maxPrice: number): void {
  for (const { price, amount, maxAmountRequired } of challenge.accepts) {
    if (!isWithin(price, maxPrice)) throw new PaymentLimitError(price, maxPrice, { status: 402 });
    for (const asked of [amount, maxAmountRequired]) {
      if (asked !== undefined && !isAmountWithin(asked, maxPrice)) throw new PaymentLimitError(`${asked} units`, maxPrice, { status: 402 });
    }
  }
  if (header === null) return;
  for (const amount of headerAmounts(header)) {
    if (!isAmountWithin(amount, maxPrice)) throw new PaymentLimitError(`${String(amount)} units`, maxPrice, { status: 402 });
  }
}

/** Checks what a hook returned. An empty object is "no": null. */
export function readPaymentHeaders(value: unknown): Headers | null {
  if (!isJsonObject(value)) throw new InvalidOptionError("payment", "must resolve to an object of headers");
  if (Object.keys(value).length === 0) return null;
  const headers = new Headers();
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== "string") throw new InvalidOptionError("payment", `resolved to a header ${name} that is not a string`);
    try {
      headers.set(name, text);
    } catch {
      throw new InvalidOptionError("payment", `resolved to a header ${name} that cannot be sent`);
    }
  }
  return headers;
}

/** The amounts a `PAYMENT-REQUIRED` header asks for; one unreadable amount for an unreadable header. */
function headerAmounts(header: string): unknown[] {
  const bytes = fromBase64(header);
  if (bytes === null) return [undefined];
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    const accepts = isJsonObject(value) && Array.isArray(value.accepts) ? value.accepts : [undefined];
    return accepts.map((offer: unknown) => (isJsonObject(offer) ? offer.amount : undefined));
  } catch {
    return [undefined];
  }
}

/** Decimals of USDC, the token of both instances; a token with more would only make the check stricter. */
const TOKEN_DECIMALS = 6;

/** Reads `$0.010`, `0.01` or a number of US dollars as millionths of a dollar; null for anything else. */
export function parsePrice(price: unknown): bigint | null {
  const text = typeof price === "number" ? price.toFixed(TOKEN_DECIMALS) : price;
  if (typeof text !== "string") return null;
  const match = /^\$?(\d{1,12})(?:\.(\d{1,6}))?$/.exec(text);
  return match === null ? null : BigInt(`${match[1]}${(match[2] ?? "").padEnd(TOKEN_DECIMALS, "0")}`);
}

/** Whether `price` can be read and is at most `max` US dollars. */
export function isWithin(price: unknown, max: number): boolean {
  const asked = parsePrice(price);
  const limit = parsePrice(max);
  return asked !== null && limit !== null && asked <= limit;
}

/** Whether an amount in atomic units of the token can be read and is at most `max` US dollars. */
export function isAmountWithin(amount: unknown, max: number): boolean {
  const limit = parsePrice(max);
  return typeof amount === "string" && /^\d{1,78}$/.test(amount) && limit !== null && BigInt(amount) <= limit;
}
