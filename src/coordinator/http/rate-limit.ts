import type { MiddlewareHandler } from "hono";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { errorFacts, logError } from "../log.ts";
import { networkOf, SlidingWindow } from "../rates.ts";
import type { AppEnv } from "./context.ts";
import { refuse } from "./errors.ts";
import type { Settings } from "../config.ts";

/** Each rate: its setting, its period, and the platform's counter of the wrangler files that counts the same per location [LM2]. */
const RATED = {
  commits: { setting: "commitsPerMinute", period: TIMING.minute, counter: "COMMIT_RATE" },
  polls: { setting: "pollsPerTenSeconds", period: TIMING.tenSeconds, counter: "POLL_RATE" },
  trust: { setting: "trustPerMinute", period: TIMING.minute, counter: "TRUST_RATE" },
} as const;

/** What this isolate has counted. Shared by all requests, bounded, gone with the isolate. */
const counts = Object.fromEntries(Object.entries(RATED).map(([rate, { period }]) => [rate, new SlidingWindow(period, LIMITS.countedClients)]));

/**
 * Lets so many requests of one client through and no more, before anything is read, asked or paid for [LM2, PY5].
 * The isolate counts for itself, exactly; at Cloudflare, where an instance runs in many, the platform counts per location too.
 */
export const rateLimit = (rate: keyof typeof RATED): MiddlewareHandler<AppEnv> => {
  const { setting, period, counter } = RATED[rate];
  return async (c, next) => {
    const { settings } = c.var;
    if (!settings.rateLimits) return next();
    const client = clientIp(c.req.raw, settings);
    const pass = counts[rate]?.take(client, settings.rates[setting], Date.now());
    if (pass?.ok === false) return refuse(c, "rate_limited", pass.retryAfter / 1_000);
    if (isAtCloudflare(c.req.raw) && (await isOverAtLocation(c.env[counter], client))) return refuse(c, "rate_limited", period / 1_000);
    return next();
  };
};

/** Whether the platform's counter says no. One that is not bound or does not work says nothing. */
export async function isOverAtLocation(counter: unknown, client: string): Promise<boolean> {
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

/** Whether this code was deployed, not run by a local emulation. wrangler writes the value in at build time, so no request can claim it. */
const DEPLOYED = process.env.NODE_ENV === "production";

/** Of whom nobody tells the address: all of them share one count. */
const NOBODY = "local";

/** Whether Cloudflare's edge brought this request. Both must hold: deployed code that someone runs in a bare workerd has no `cf` on its requests. */
function isAtCloudflare(request: Request, deployed: boolean = DEPLOYED): boolean {
  return deployed && request.cf !== undefined;
}

/**
 * Who a request is counted under [LM2]. `CF-Connecting-IP` is the edge's word only at Cloudflare: a local emulation passes on what the client sent,
 * and its code cannot see the peer. Elsewhere the operator names the header that its proxy sets; without one all share one count.
 */
export function clientIp(request: Request, settings: Pick<Settings, "trustedIpHeader">, deployed: boolean = DEPLOYED): string {
  if (settings.trustedIpHeader !== null) {
    // A proxy appends what it saw; what stands before that came from outside.
    return networkOf(request.headers.get(settings.trustedIpHeader)?.split(",").at(-1) ?? "") || NOBODY;
  }
  const told = isAtCloudflare(request, deployed) ? request.headers.get("CF-Connecting-IP") : null;
  return told === null ? NOBODY : networkOf(told);
}
