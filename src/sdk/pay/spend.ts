// What the payment hooks of both chains share: the tokens and the most that they may spend, the choice of an offer within that, and the hook around a signer.
import { optionNames, wrong } from "../check.ts";
import { PaymentLimitError } from "../errors.ts";
import { isAmountWithin, parsePrice, type PaymentHook } from "../payment.ts";
import { isToken, type PaymentToken } from "./token.ts";
import { createPayment, paymentHeaders, type PaymentSigner, type PaymentTerms, readPaymentRequired } from "./x402.ts";

/** What a payment hook may spend. */
export type SpendLimit = {
  /** The only tokens that it pays in, of 6 decimals as USDC has. */
  tokens?: readonly PaymentToken[];
  /** The most for one payment, in US dollars: `0.1` (default) or `"$0.10"`. */
  maxPrice?: number | string;
};

/** The names of these options, checked against the type. */
export const SPEND_LIMIT = optionNames<SpendLimit>({ tokens: 0, maxPrice: 0 });

/** The most for one payment unless the user says otherwise, in US dollars. */
const DEFAULT_MAX_PRICE = 0.1;

/** Reads `maxPrice`. Throws InvalidOptionError. */
export function readMaxPrice(maxPrice: number | string = DEFAULT_MAX_PRICE): number {
  const parsed = parsePrice(maxPrice);
  if (parsed === null) throw wrong("maxPrice", 'must be US dollars, as 0.01 or "$0.01"', maxPrice);
  return Number(parsed) / 1e6;
}

/** The first exact offer in an allowed token that costs no more than `maxPrice`. Throws PaymentLimitError when there is none: nothing is signed then. */
export function chooseOffer(offers: readonly PaymentTerms[], tokens: readonly PaymentToken[], maxPrice: number): PaymentTerms {
  const allowed = offers.filter((offer) => offer.scheme === "exact" && tokens.some((token) => isToken(offer, token)));
  const chosen = allowed.find(({ amount }) => isAmountWithin(amount, maxPrice));
  if (chosen !== undefined) return chosen;
  const [dearest] = allowed;
  if (dearest !== undefined) throw new PaymentLimitError(`${dearest.amount} units`, maxPrice, { status: 402 });
  const asked = offers.map(({ amount, asset, network }) => `${amount} units of ${asset} on ${network}`).join(" or ");
  throw new PaymentLimitError(asked, maxPrice, { status: 402, reason: "token_not_allowed" });
}

/**
 * A payment hook of a signer. It signs once for a commit: a router that took the first payment and asks again gets no second one. The run is
 * then rejected with the router's own reason.
 */
export function hookOf(signer: PaymentSigner): PaymentHook {
  return async (required, { number, header }) => {
    if (number > 1) return {};
    return paymentHeaders(await createPayment(readPaymentRequired({ "payment-required": header }, required), signer));
  };
}
