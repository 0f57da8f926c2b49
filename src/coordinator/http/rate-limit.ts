// Rate limits per client. They come first on every route that has one, before a commit is read or paid.
import type { MiddlewareHandler } from "hono";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import type { Settings } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { networkOf, SlidingWindow, UNKNOWN_CLIENT } from "../rates.ts";
import type { AppContext, AppEnv } from "./context.ts";
import { refuse } from "./errors.ts";

/** For each rate: its setting, its period, and the binding of the wrangler files that lets Cloudflare count the same per location [LM2]. */
const RATED = {
  commits: { setting: "commitsPerMinute", period: TIMING.minute, counter: "COMMIT_RATE" },
  paidCommits: { setting: "paidCommitsPerMinute", period: TIMING.minute, counter: "PAID_COMMIT_RATE" },
  polls: { setting: "pollsPerTenSeconds", period: TIMING.tenSeconds, counter: "POLL_RATE" },
  trust: { setting: "trustPerMinute", period: TIMING.minute, counter: "TRUST_RATE" },
  connects: { setting: "connectsPerMinute", period: TIMING.minute, counter: "CONNECT_RATE" },
} as const;

/** The counts of this isolate. All requests share them, their memory is bounded, and they end with the isolate. */
const counts = Object.fromEntries(Object.entries(RATED).map(([rate, { period }]) => [rate, new SlidingWindow(period, LIMITS.countedClients)]));

/**
 * Limits the requests of one client, before the request is read, the hub is asked, or money moves [LM2, PY5].
 * Each isolate counts exactly, but only its own requests. At Cloudflare an instance runs in many isolates, so the platform counts per location too.
 */
export const rateLimit =
  (rate: keyof typeof RATED): MiddlewareHandler<AppEnv> =>
  async (c, next) =>
    (await overRate(c, rate)) ?? next();

/** The 429 of a client that is over a rate; null if it may go on. */
export async function overRate(c: AppContext, rate: keyof typeof RATED): Promise<Response | null> {
  const { setting, period, counter } = RATED[rate];
  // Hono builds a new `c.var` at each use.
  const settings = c.get("settings");
  if (!settings.rateLimits) return null;
  const client = clientIp(c.req.raw, settings);
  const pass = counts[rate]?.take(client, settings.rates[setting], Date.now());
  if (pass?.ok === false) return refuse(c, "rate_limited", pass.reason.retryAfter / 1_000);
  if (isAtCloudflare(c.req.raw) && (await isRejectedByPlatform(c.env[counter], client))) return refuse(c, "rate_limited", period / 1_000);
  return null;
}

/**
 * Returns the client that a request is counted for: an IPv4 address or an IPv6 /64 [LM2]. `CF-Connecting-IP` can be trusted only at Cloudflare:
 * a local emulation passes on what the client sent and cannot see the client's address. Elsewhere the operator names the header that its
 * proxy sets; without that setting all clients share one count.
 */
export function clientIp(request: Request, settings: Pick<Settings, "trustedIpHeader">, deployed: boolean = DEPLOYED): string {
  if (settings.trustedIpHeader !== null) {
    // A proxy appends the address that it saw. The entries before it came from outside and prove nothing.
    return networkOf(request.headers.get(settings.trustedIpHeader)?.split(",").at(-1) ?? "") || UNKNOWN_CLIENT;
  }
  const address = isAtCloudflare(request, deployed) ? request.headers.get("CF-Connecting-IP") : null;
  return address === null ? UNKNOWN_CLIENT : networkOf(address);
}

/** True if Cloudflare's rate limiter rejects the request. A missing or failing binding allows it. */
export async function isRejectedByPlatform(counter: unknown, client: string): Promise<boolean> {
  if (!isRateLimit(counter)) return false;
  try {
    return !(await counter.limit({ key: client })).success;
  } catch (error) {
    logError("rate_unreadable", errorFacts(error));
    return false;
  }
}

function isRateLimit(binding: unknown): binding is RateLimit {
  return typeof binding === "object" && binding !== null && "limit" in binding;
}

/** True in deployed code, false in a local emulation. wrangler sets the value at build time, so no request can influence it. */
const DEPLOYED = process.env.NODE_ENV === "production";

/** True if the request came through Cloudflare's edge. Deployed code is not enough: if someone runs it in a bare workerd, its requests have no `cf`. */
function isAtCloudflare(request: Request, deployed: boolean = DEPLOYED): boolean {
  return deployed && request.cf !== undefined;
}
