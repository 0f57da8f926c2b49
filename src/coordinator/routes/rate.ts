import type { MiddlewareHandler } from "hono";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { errorFacts, logError } from "../log.ts";
import { SlidingCount } from "../rates/index.ts";
import type { AppEnv } from "./app-env.ts";
import { clientIp, isAtCloudflare } from "./client-ip.ts";
import { refuse } from "./refuse.ts";

/** Each rate: its setting, its period, and the platform's counter of the wrangler files that counts the same per location [LM2]. */
const RATED = {
  commits: { setting: "commitsPerMinute", period: TIMING.minute, counter: "COMMIT_RATE" },
  polls: { setting: "pollsPerTenSeconds", period: TIMING.tenSeconds, counter: "POLL_RATE" },
  trust: { setting: "trustPerMinute", period: TIMING.minute, counter: "TRUST_RATE" },
} as const;

/** What this isolate has counted. Shared by all requests, bounded, gone with the isolate. */
const counts = Object.fromEntries(Object.entries(RATED).map(([rate, { period }]) => [rate, new SlidingCount(period, LIMITS.countedClients)]));

/**
 * Lets so many requests of one client through and no more, before anything is read, asked or paid for [LM2, PY5].
 * The isolate counts for itself, exactly; at Cloudflare, where an instance runs in many, the platform counts per location too.
 */
export const rated = (rate: keyof typeof RATED): MiddlewareHandler<AppEnv> => {
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
