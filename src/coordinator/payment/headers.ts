import { utf8ToBytes } from "@noble/hashes/utils.js";
import { toBase64 } from "../../receipt/bytes.ts";
import type { AppContext } from "../routes/app-env.ts";
import type { PaymentHeaders } from "./read-payment.ts";
import { type Offer, paymentRequired, requiredHeader } from "./requirement.ts";

/** The headers of a request that a payment may be in [PY3]. */
export function paymentHeaders(c: AppContext): PaymentHeaders {
  return { "PAYMENT-SIGNATURE": c.req.header("PAYMENT-SIGNATURE"), "X-PAYMENT": c.req.header("X-PAYMENT") };
}

/** A 402: what is wanted, in header and body, and why this was not it [PY4]. */
export function answer402(c: AppContext, offer: Offer, error: string): Response {
  c.header("PAYMENT-REQUIRED", header(JSON.stringify(requiredHeader(offer, error))));
  c.header("Cache-Control", "no-store");
  return c.json(paymentRequired(offer, error), 402);
}

/** Tells what became of a payment, under the names of both versions; `settlement` is JSON text of the facilitator's SettleResponse [PY4]. */
export function setSettlement(c: AppContext, settlement: string | null): void {
  if (settlement === null) return;
  const value = header(settlement);
  c.header("PAYMENT-RESPONSE", value);
  c.header("X-PAYMENT-RESPONSE", value);
}

function header(json: string): string {
  return toBase64(utf8ToBytes(json));
}
