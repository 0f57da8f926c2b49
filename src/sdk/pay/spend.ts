// The common part of the payment hooks of both chains: the tokens and the limit that they may spend, the choice of an offer, and the hook around a signer.
import { isJsonObject } from "../../protocol/json.ts";
import { isSameAddress } from "../../protocol/text.ts";
import { optionNames } from "../check.ts";
import { InvalidOptionError, PaymentLimitError } from "../errors.ts";
import { isAmountWithin, type PaymentHook } from "../payment.ts";
import { createPayment, paymentHeaders, type PaymentSigner, type PaymentTerms, type PaymentToken, readPaymentRequired } from "./x402.ts";

/** What a payment hook may spend. */
export type SpendLimit = {
  /** The only tokens that the hook pays with. They must have 6 decimals, as USDC has. */
  tokens?: readonly PaymentToken[];
  /** The most for one payment, in US dollars: `0.1` (default) or `"$0.10"`. */
  maxPrice?: number | string;
};

/** The names of these options, checked against the type. */
export const SPEND_LIMIT = optionNames<SpendLimit>({ tokens: 0, maxPrice: 0 });

/** The default limit for one payment, in US dollars. */
export const DEFAULT_MAX_PRICE = 0.1;

/** Checks the tokens of an option. Throws InvalidOptionError. */
export function checkTokens(value: unknown, address: RegExp): void {
  const isGood = (token: unknown): boolean =>
    isJsonObject(token) && typeof token.network === "string" && typeof token.asset === "string" && address.test(token.asset);
  if (Array.isArray(value) && value.length > 0 && value.every(isGood)) return;
  throw new InvalidOptionError("tokens", "must be a list of { network, asset } with addresses of this chain");
}

/** The first `exact` offer in an allowed token that costs at most `maxPrice`. Throws PaymentLimitError if there is none; then nothing is signed. */
export function chooseOffer(offers: readonly PaymentTerms[], tokens: readonly PaymentToken[], maxPrice: number): PaymentTerms {
  const allowed = offers.filter((offer) => offer.scheme === "exact" && tokens.some((token) => isToken(offer, token)));
  const chosen = allowed.find(({ amount }) => isAmountWithin(amount, maxPrice));
  if (chosen !== undefined) return chosen;
  const [first] = allowed;
  if (first !== undefined) throw new PaymentLimitError(`${first.amount} units`, maxPrice, { status: 402 });
  const asked = offers.map(({ amount, asset, network }) => `${amount} units of ${asset} on ${network}`).join(" or ");
  throw new PaymentLimitError(asked, maxPrice, { status: 402, reason: "token_not_allowed" });
}

/** True if an offer is in this token. */
function isToken(offer: PaymentToken, { network, asset }: PaymentToken): boolean {
  return offer.network === network && isSameAddress(offer.asset, asset);
}

/**
 * Makes a payment hook from a signer. It signs once per commit: if the coordinator refuses the first payment and asks again, it gets no second one, and the run
 * rejects with the coordinator's reason.
 */
export function hookOf(signer: PaymentSigner): PaymentHook {
  return async (required, { number, header }) => {
    if (number > 1) return {};
    return paymentHeaders(await createPayment(readPaymentRequired({ "payment-required": header }, required), signer));
  };
}
