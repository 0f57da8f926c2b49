import type { Challenge, Requirement } from "./challenge.ts";

/** `v2` carries the accepted terms, `v1` only scheme and network. */
export type Envelope = "v1" | "v2";

/** Both headers that a payment may come in. */
export type PaymentHeader = "PAYMENT-SIGNATURE" | "X-PAYMENT";

/** A payment as it travels, before base64. */
export type PaymentMessage = Readonly<Record<string, unknown>>;

/** Puts a signed payload into an envelope. */
export function wrap(envelope: Envelope, payload: unknown, claimed: Requirement, { resource }: Pick<Challenge, "resource">): PaymentMessage {
  const { scheme, network } = claimed;
  if (envelope === "v1") return { x402Version: 1, scheme, network, payload };
  return { x402Version: 2, ...(resource !== undefined && { resource }), accepted: claimed, payload };
}

/** A payment as the value of a header. */
export function encode(message: unknown): string {
  return Buffer.from(JSON.stringify(message)).toString("base64");
}

/** The result of a settlement from `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`; null without one. */
export function settlementOf(response: Response): { success: boolean; transaction: string; network: string; payer?: string; errorReason?: string } | null {
  const header = response.headers.get("payment-response") ?? response.headers.get("x-payment-response");
  return header === null ? null : (JSON.parse(Buffer.from(header, "base64").toString("utf8")) as ReturnType<typeof settlementOf>);
}
