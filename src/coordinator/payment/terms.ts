// The terms of a payment: price, token, payee, as a 402 states them. On a job's way: pay.
import type { PaymentRequired as X402Required, PaymentRequirements as X402Requirements } from "@x402/core/types";
import type { ResolvedPolicy } from "../../protocol/job.ts";
import { commitPrice, endpointOf } from "../../protocol/pricing.ts";
import type { PaymentRequired, PaymentRequirement } from "../../protocol/rest.ts";
import { isLoopback } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { mintOf, type PaymentSettings, type Settings } from "../config.ts";
import { extensionsOf, openAiAt } from "./discovery.ts";
import { feePayers } from "./facilitator.ts";

/** Decimals of USDC, on both instances. */
const DECIMALS = 6;

const DESCRIPTION = {
  FAST: "Commit a compute job to the FAST tier",
  CHEAP: "Commit a compute job to the CHEAP tier",
  chat: "A chat completion, as in OpenAI's API",
  completions: "A completion, as in OpenAI's API",
} as const satisfies Record<ResolvedPolicy | "chat" | "completions", string>;

const JSON_TYPE = "application/json";

/** What discovery services file the endpoint under: at most five words of at most 32 characters. */
const TAGS = ["inference", "llm", "summarize", "classify", "extract-json"];

/** The token of a payment, and what a payer must know to sign for it. */
export type Token = { address: string; extra: Record<string, unknown> };

/** What one commit endpoint costs, and how it is paid. `resource` is the URL of the endpoint as its payer sees it. */
export type Offer = { instance: Settings["instance"]; network: string; policy: ResolvedPolicy; payTo: string; token: Token; resource: string };

/** Payment requirements of x402 v2. The type of the library demands a network with a colon; our settings have checked that already. */
export type Requirements = Omit<X402Requirements, "network"> & { network: string };

/** The content of header `PAYMENT-REQUIRED`, for payers that do not read the body. */
type RequiredHeader = Omit<X402Required, "accepts"> & { accepts: Requirements[] };

/** A price like `$0.010` in atomic units of USDC. It moves the point in the text, because 0.0010 × 10^6 is not exact in binary. */
export function atomicAmount(price: string): string {
  const [, whole = "0", fraction = ""] = /^\$(\d+)(?:\.(\d+))?$/.exec(price) ?? [];
  return `${whole}${fraction.slice(0, DECIMALS).padEnd(DECIMALS, "0")}`.replace(/^0+(?=\d)/, "");
}

/** The token of an EVM instance, from its settings; its name and version are those of its EIP-712 domain. */
export function evmToken({ address, name, version }: NonNullable<PaymentSettings["asset"]>): Token {
  return { address, extra: { name, version } };
}

/** The token of an SVM instance; without a fee payer if the facilitator has not named one yet [PY12]. */
export function svmToken(mint: string, feePayer: string | null): Token {
  return { address: mint, extra: feePayer === null ? {} : { feePayer } };
}

/** The terms of a payment, exactly as in x402 v2. Clients send them back and compare all of them, so nothing may be added [PY4]. */
export function requirements({ network, policy, payTo, token }: Offer): Requirements {
  return {
    scheme: "exact",
    network,
    amount: atomicAmount(commitPrice(policy)),
    asset: token.address,
    payTo,
    maxTimeoutSeconds: TIMING.paymentValid / 1_000,
    extra: token.extra,
  };
}

/** The description of what is paid for, as in x402 v2. Discovery services list the endpoint with these texts. */
export function resourceInfo({ resource, policy }: Offer): PaymentRequired["resource"] {
  const description = DESCRIPTION[openAiAt(new URL(resource).pathname) ?? policy];
  return { url: resource, description, mimeType: JSON_TYPE, serviceName: "Compute Router", tags: TAGS };
}

/** The content of header `PAYMENT-REQUIRED` [PY4]. */
export function requiredHeader(offer: Offer, error: string): RequiredHeader {
  return { x402Version: 2, error, resource: resourceInfo(offer), accepts: [requirements(offer)], extensions: extensionsOf(offer.resource) };
}

/** The body of a 402: first the documented fields of this API, then those of x402 for clients that read the body [PY4]. */
export function paymentRequired(offer: Offer, error: string): PaymentRequired {
  const { scheme: _, network, amount, asset, payTo, maxTimeoutSeconds, extra } = requirements(offer);
  const resource = resourceInfo(offer);
  const requirement: PaymentRequirement = {
    scheme: "exact",
    price: commitPrice(offer.policy),
    network,
    payTo,
    // Absent on SVM, where the scheme resolves the token. The header has it even so, because x402 v2 requires it.
    ...(offer.instance === "evm" && { asset }),
    amount,
    maxTimeoutSeconds,
    extra,
    maxAmountRequired: amount,
    resource: resource.url,
    description: resource.description,
    mimeType: JSON_TYPE,
  };
  return { error, accepts: [requirement], x402Version: 2, resource };
}

/** The URL of an endpoint as its payer sees it: on the operator's host if one is set, since a request's host can be forged; otherwise on the request's. */
export function resourceUrl(endpoint: string, requestUrl: string, publicHost: string | null): string {
  if (publicHost === null) return new URL(endpoint, requestUrl).href;
  const isLocal = isLoopback(new URL(`https://${publicHost}`).hostname);
  return new URL(endpoint, `${isLocal ? "http" : "https"}://${publicHost}`).href;
}

/** What a commit endpoint costs, for a request to `requestUrl`. On SVM this may ask the facilitator for its fee payers [PY12]. */
export async function offerOf(settings: Settings, policy: ResolvedPolicy, requestUrl: string): Promise<Offer> {
  const { instance, network, payment, publicHost } = settings;
  const token = await tokenOf(settings);
  const { pathname } = new URL(requestUrl);
  const endpoint = openAiAt(pathname) === null ? endpointOf(policy) : pathname;
  return { instance, network, policy, payTo: payment.payTo, token, resource: resourceUrl(endpoint, requestUrl, publicHost) };
}

async function tokenOf(settings: Settings): Promise<Token> {
  const { asset } = settings.payment;
  if (asset !== null) return evmToken(asset);
  return svmToken(mintOf(settings.network), (await feePayers(settings))?.quoted ?? null);
}
