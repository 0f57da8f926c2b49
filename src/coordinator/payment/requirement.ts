import type { PaymentRequired, PaymentRequirement } from "../../protocol/payment.ts";
import type { ResolvedPolicy } from "../../protocol/job.ts";
import type { PaymentSettings } from "../config.ts";
import { commitPrice } from "../pricing/prices.ts";

/** Decimals of USDC, on both instances. */
const DECIMALS = 6;

/** How long a signed payment must stay good, seconds. */
const MAX_TIMEOUT_SECONDS = 300;

const DESCRIPTION = {
  FAST: "Commit a compute job to the FAST tier",
  CHEAP: "Commit a compute job to the CHEAP tier",
} as const satisfies Record<ResolvedPolicy, string>;

/** A price as `$0.010` in atomic units of a token: by moving the point in the text, since 0.0010 × 10^6 is not exact in binary. */
export function atomicAmount(price: string, decimals: number = DECIMALS): string {
  const [, whole = "0", fraction = ""] = /^\$(\d+)(?:\.(\d+))?$/.exec(price) ?? [];
  return `${whole}${fraction.slice(0, decimals).padEnd(decimals, "0")}`.replace(/^0+(?=\d)/, "");
}

/** What a commit under `policy` costs and how to pay it: the body of a 402 [PY4]. `resource` is the URL of the endpoint. */
export function paymentRequired(
  terms: { payment: PaymentSettings; network: string; policy: ResolvedPolicy; resource: string },
  error: string,
): PaymentRequired {
  const { payment, network, policy, resource } = terms;
  const price = commitPrice(policy);
  const amount = atomicAmount(price);
  const description = DESCRIPTION[policy];
  const requirement: PaymentRequirement = {
    scheme: "exact",
    price,
    network,
    payTo: payment.payTo,
    ...(payment.asset === null ? {} : { asset: payment.asset.address }),
    amount,
    maxTimeoutSeconds: MAX_TIMEOUT_SECONDS,
    extra: payment.asset === null ? {} : { name: payment.asset.name, version: payment.asset.version },
    maxAmountRequired: amount,
    resource,
    description,
    mimeType: "application/json",
  };
  return { error, accepts: [requirement], x402Version: 2, resource: { url: resource, description, mimeType: "application/json" } };
}

/** The URL of an endpoint as its payer sees it: on the operator's host when one is set (a request's own can be forged), else the request's. */
export function resourceUrl(endpoint: string, requestUrl: string, publicHost: string | null): string {
  if (publicHost === null) return new URL(endpoint, requestUrl).href;
  const { hostname } = new URL(`https://${publicHost}`);
  const local = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  return new URL(endpoint, `${local ? "http" : "https"}://${publicHost}`).href;
}
