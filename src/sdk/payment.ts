// Payment of a commit on the client's side: what a payment hook gets and may return, and the limit for prices. On a job's way: pay.
import { isJsonObject, readJson } from "../protocol/json.ts";
import { ALREADY_USED } from "../protocol/pricing.ts";
import type { Credit, PaymentRequired } from "../protocol/rest.ts";
import { fromBase64 } from "../receipt/bytes.ts";
import { wrong } from "./check.ts";
import { InvalidOptionError, PaymentLimitError, type PaymentOption } from "./errors.ts";

/** Decimals of USDC, the token of both instances. For a token with more decimals the check of a price is only stricter. */
const TOKEN_DECIMALS = 6;

/** Body of a 402: the ways to pay, and the reason of the answer. */
export type PaymentChallenge = { error: string; accepts: PaymentOption[] } & Partial<Omit<PaymentRequired, "error" | "accepts">>;

/** What a payment hook gets besides the challenge. */
export type PaymentAttempt = {
  /** 1 for the first payment; 2 after the router refused that one with another 402, which proves that it did not charge it. */
  number: number;
  /** The `PAYMENT-REQUIRED` header as sent (base64 JSON, x402 v2); null if there was none. */
  header: string | null;
  /** Aborts with the run. */
  signal: AbortSignal;
};

/**
 * Makes a payment for a commit that got 402.
 *
 * @param required the body of the 402
 * @param attempt number of the payment, header of the 402, and the run's signal
 * @returns the headers for the repeated commit, `X-PAYMENT` or `PAYMENT-SIGNATURE`, as a plain object; an empty one to decline
 * @throws anything; `run` rejects with it
 * @example
 * const payment: PaymentHook = async (required) => {
 *   const header = await wallet.sign(required.accepts[0]);
 *   return { "X-PAYMENT": header };
 * };
 */
export type PaymentHook = (required: PaymentChallenge, attempt: PaymentAttempt) => Promise<Record<string, string>>;

/**
 * Throws PaymentLimitError if any offer costs more than `maxPrice` US dollars. A hook may choose any offer, from the body or from the header, and signs its
 * amount. Therefore a low `price` beside a higher amount must not pass.
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

/** The most that any offer asks for, in atomic units of the token, because a hook may choose any. Null if an amount is malformed. */
export function highestAmount({ accepts }: PaymentChallenge, header: string | null): bigint | null {
  const inBody = accepts.flatMap(({ price, amount, maxAmountRequired }) => {
    const amounts = [amount, maxAmountRequired].filter((asked) => asked !== undefined);
    return [parsePrice(price), ...amounts.map(parseAmount)];
  });
  const asked = [...inBody, ...(header === null ? [] : headerAmounts(header).map(parseAmount))];
  let most = 0n;
  for (const amount of asked) {
    if (amount === null) return null;
    if (amount > most) most = amount;
  }
  return most;
}

/** True if a hook returned a plain empty object, with which it declines to pay. */
export function isDeclined(value: unknown): boolean {
  return isPlainObject(value) && Object.keys(value).length === 0;
}

/** Checks the headers that a hook returned; null if the hook declines. */
export function readPaymentHeaders(value: unknown): Headers | null {
  if (!isPlainObject(value)) throw new InvalidOptionError("payment", "must resolve to a plain object of headers");
  if (isDeclined(value)) return null;
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

/** False for `Headers` and `Map` too: they have no members of their own, so they would look empty although they carry a payment. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  return isJsonObject(value) && !(Symbol.iterator in value);
}

/** The amounts that a `PAYMENT-REQUIRED` header asks for. A malformed header gives one malformed amount. */
function headerAmounts(header: string): unknown[] {
  const value = decodePaymentHeader(header);
  const accepts = isJsonObject(value) && Array.isArray(value.accepts) ? value.accepts : [undefined];
  return accepts.map((offer: unknown) => (isJsonObject(offer) ? offer.amount : undefined));
}

/** What `PAYMENT-RESPONSE` says of a job: whether money has moved for it, and whether it concerns a balance. Null if there is no such header. */
export type Settlement = { charged: boolean; credit: Credit | null } | null;

/** Reads the settlement from the headers of an answer about a job. */
export function settlementIn(headers: Headers): Settlement {
  const value = paymentResponseIn(headers);
  if (!isJsonObject(value)) return null;
  const { extensions } = value;
  const credit = isJsonObject(extensions) ? extensions.credit : undefined;
  return { charged: value.success === true, credit: isCredit(credit) ? credit : null };
}

/** True if the facilitator said of the payment only that it was used before: its money may have moved [PY8]. */
export function isUsedBefore(headers: Headers): boolean {
  const value = paymentResponseIn(headers);
  return isJsonObject(value) && ALREADY_USED.includes(value.errorReason);
}

function paymentResponseIn(headers: Headers): unknown {
  const header = headers.get("payment-response") ?? headers.get("x-payment-response");
  return header === null ? undefined : decodePaymentHeader(header);
}

/**
 * What the settlement in a 201 still says after the job has failed, if nothing newer is known. Money that has moved does not move back, but it may be a credit
 * now, with another balance. Money that had not moved may have moved since.
 */
export function movedBefore(settlement: Settlement): Settlement | undefined {
  return settlement?.charged === true ? { charged: true, credit: null } : undefined;
}

function isCredit(value: unknown): value is Credit {
  return isJsonObject(value) && isAmount(value.amount) && typeof value.asset === "string" && isAmount(value.balance);
}

function isAmount(value: unknown): value is string {
  return typeof value === "string" && /^\d{1,78}$/.test(value);
}

/** An amount of USDC in atomic units as US dollars, with three decimals or more: `$0.010`. */
export function inDollars(amount: string): string {
  const digits = amount.padStart(TOKEN_DECIMALS + 1, "0");
  const decimals = digits.slice(-TOKEN_DECIMALS).replace(/0{1,3}$/, "");
  return `$${digits.slice(0, -TOKEN_DECIMALS)}.${decimals}`;
}

/** Decodes an x402 header (base64 of JSON); undefined if it is malformed. */
export function decodePaymentHeader(header: string): unknown {
  const bytes = fromBase64(header.trim());
  const json = bytes === null ? null : readJson(new TextDecoder().decode(bytes));
  return json?.ok === true ? json.value : undefined;
}

/** Parses `$0.010`, `0.01` or a number of US dollars to millionths of a dollar; null for anything else. */
export function parsePrice(price: unknown): bigint | null {
  const text = typeof price === "number" ? price.toFixed(TOKEN_DECIMALS) : price;
  if (typeof text !== "string") return null;
  const match = /^\$?(\d{1,12})(?:\.(\d{1,6}))?$/.exec(text);
  return match === null ? null : BigInt(`${match[1]}${(match[2] ?? "").padEnd(TOKEN_DECIMALS, "0")}`);
}

/** Checks an option `maxPrice` and returns it in atomic units of the token. Throws InvalidOptionError. */
export function readMaxAmount(maxPrice: number | string): bigint {
  const parsed = parsePrice(maxPrice);
  if (parsed === null) throw wrong("maxPrice", 'must be US dollars, such as 0.01 or "$0.01"', maxPrice);
  return parsed;
}

/** Checks an option `maxPrice` and returns it in US dollars. Throws InvalidOptionError. */
export function readMaxPrice(maxPrice: number | string): number {
  return Number(readMaxAmount(maxPrice)) / 10 ** TOKEN_DECIMALS;
}

/** True if `price` is well-formed and at most `max` US dollars. */
export function isWithin(price: unknown, max: number): boolean {
  const asked = parsePrice(price);
  const limit = parsePrice(max);
  return asked !== null && limit !== null && asked <= limit;
}

/** True if an amount in atomic units of the token is well-formed and at most `max` US dollars. */
export function isAmountWithin(amount: unknown, max: number): boolean {
  const asked = parseAmount(amount);
  const limit = parsePrice(max);
  return asked !== null && limit !== null && asked <= limit;
}

/** Parses an amount in atomic units of the token; null if it is malformed. */
function parseAmount(amount: unknown): bigint | null {
  return isAmount(amount) ? BigInt(amount) : null;
}
