// The middleware of the REST side: what wraps every request (its id, settings, CORS, common headers), and the rate limits. A request meets it before its route.
import type { MiddlewareHandler } from "hono";
import { LIMITS } from "../../protocol/limits.ts";
import { isLoopback } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { type Settings, settingsOf, warnOfPlaceholder } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { SlidingWindow } from "../rates/sliding-window.ts";
import { answerError, type AppContext, type AppEnv, refuse, refuseWith } from "./context.ts";
import { clientOf, dropBody, isAtCloudflare } from "./request.ts";

/** The `*` is for the headers that OpenAI's client adds in a browser. It does not cover `authorization`. */
const ALLOW_HEADERS = "authorization, content-type, x-payment, payment-signature, idempotency-key, prefer, x-user-token, x-cancel-token, last-event-id, *";
/** With `x-should-retry`, because OpenAI's client in a browser would otherwise buy the same job again [API9]. */
const EXPOSE_HEADERS =
  "payment-required, payment-response, x-payment-response, preference-applied, x-cancel-token, x-job-id, x-should-retry, retry-after, x-request-id";
const ALLOW_METHODS = "GET, HEAD, POST, DELETE, OPTIONS";
const PREFLIGHT_SECONDS = "86400";

/**
 * Wraps every request. It creates the request id (an id from the client is never echoed), reads the settings, answers CORS preflights, and adds
 * the common headers to every response, errors included [API1, API7].
 */
export const wrapRequest: MiddlewareHandler<AppEnv> = async (c, next) => {
  const requestId = crypto.randomUUID();
  c.set("requestId", requestId);
  if (c.req.method === "OPTIONS" && c.req.header("Access-Control-Request-Method") !== undefined) {
    c.res = new Response(null, {
      status: 204,
      headers: {
        "Access-Control-Allow-Methods": ALLOW_METHODS,
        "Access-Control-Allow-Headers": ALLOW_HEADERS,
        "Access-Control-Max-Age": PREFLIGHT_SECONDS,
      },
    });
  } else {
    try {
      const settings = settingsOf(c.env);
      c.set("settings", settings);
      warnOfPlaceholder(settings);
      const foreign = refusedLocally(c.req.raw, settings);
      if (!isValidHost(c.req.raw))
        c.res = refuseWith(c, 400, `Host: expected a host name of at most ${LIMITS.hostChars} characters, perhaps with a port, and a path that begins with /`);
      else if (foreign !== null) c.res = refuseWith(c, 403, foreign);
      else await next();
    } catch (thrown) {
      // Hono's own error handler only catches instances of Error.
      c.res = answerError(thrown, c);
    }
  }
  await dropBody(c.req.raw);
  // The headers of a 101 cannot be changed, and no page reads them.
  if (c.res.status === 101) return;
  const { headers } = c.res;
  headers.set("X-Request-Id", requestId);
  headers.set("Access-Control-Allow-Origin", "*");
  headers.set("Access-Control-Expose-Headers", EXPOSE_HEADERS);
  headers.set("X-Content-Type-Options", "nosniff");
  // Answers about jobs and payments must never be cached [API7], and caching the others would gain nothing.
  if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
};

/** A `Host` in ASCII. It has nothing else of a URL: workerd puts it before the path, so a slash in it would change the path. */
const HOST = /^[^\0-\x20/?#@\\\x7f-\uffff]*$/;

/** False for a `Host` that is no host name, and for one that is too long for a host name. Cloudflare refuses them; a bare workerd accepts them. */
function isValidHost({ url, headers }: Request): boolean {
  const host = headers.get("Host") ?? "";
  return URL.canParse(url) && host.length <= LIMITS.hostChars && HOST.test(host);
}

/**
 * Why a local coordinator does not answer a request; null if it does. A browser sends the requests of any page, even to
 * the machine that it runs on. So a page of another site must not give work to a local coordinator, and must not
 * register a worker there. The browser names that site in `Origin`, or in `Host` if the site gave its own name the
 * address 127.0.0.1. Requests that only read are answered for every page [API7]. Pages on other ports of the machine
 * belong to its owner. Programs that are not browsers send no `Origin`.
 */
function refusedLocally({ method, url, headers }: Request, { local, publicHost }: Pick<Settings, "local" | "publicHost">): string | null {
  if (!local) return null;
  const origin = headers.get("Origin");
  if (!isLoopback(hostnameOf(url))) return `this coordinator is local (PUBLIC_HOST=${publicHost}): it does not answer for other host names`;
  const acts = (method !== "GET" && method !== "HEAD") || headers.has("Upgrade");
  if (acts && origin !== null && !isLoopback(hostnameOf(origin))) return "this coordinator is local: it accepts only read requests from pages of other sites";
  return null;
}

/** The usual URL of a local coordinator, which need not be parsed to be understood. */
const LOCAL_URL = /^http:\/\/(127\.0\.0\.1|localhost)(?::\d{1,5})?\//;

/** The host name of a URL; empty for a text that is not a URL, such as the `Origin` `null` of a file. */
function hostnameOf(url: string): string {
  const usual = LOCAL_URL.exec(url)?.[1];
  if (usual !== undefined) return usual;
  return URL.canParse(url) ? new URL(url).hostname : "";
}

/** The counts of the clients of one rate in this isolate. All requests share them, their memory is bounded, and they end with the isolate. */
const counts = (period: number) => ({ period, clients: new SlidingWindow(period, LIMITS.countedClients) });

/** For each rate: its setting, its period, and the binding of the wrangler files by which Cloudflare counts the same requests per location [LM2]. */
const RATED = {
  commits: { setting: "commitsPerMinute", ...counts(TIMING.ratePeriod), counter: "COMMIT_RATE" },
  paidCommits: { setting: "paidCommitsPerMinute", ...counts(TIMING.ratePeriod), counter: "PAID_COMMIT_RATE" },
  failedPayments: { setting: "commitsPerMinute", ...counts(TIMING.ratePeriod), counter: null },
  polls: { setting: "pollsPerTenSeconds", ...counts(TIMING.pollRatePeriod), counter: "POLL_RATE" },
  trust: { setting: "trustPerMinute", ...counts(TIMING.ratePeriod), counter: "TRUST_RATE" },
  connects: { setting: "connectsPerMinute", ...counts(TIMING.ratePeriod), counter: "CONNECT_RATE" },
} as const;

/**
 * Limits the requests of one client, before the request is read, the hub is asked, or money moves [LM2, PY5].
 * Each isolate counts exactly, but only its own requests. On Cloudflare an instance runs in many isolates, so the platform counts per location too.
 */
export const rateLimit =
  (rate: keyof typeof RATED): MiddlewareHandler<AppEnv> =>
  async (c, next) =>
    (await refuseOverRate(c, rate)) ?? next();

/** The 429 of a client that is over a rate; null if it may go on. */
export async function refuseOverRate(c: AppContext, rate: keyof typeof RATED): Promise<Response | null> {
  const retryAfter = await countRequest(c, rate);
  return retryAfter === null ? null : refuse(c, "rate_limited", retryAfter);
}

/** Counts a request for a rate of its client. If the client is over it, returns in how many seconds it may come again, otherwise null. */
export async function countRequest(c: AppContext, rate: keyof typeof RATED): Promise<number | null> {
  const { setting, period, clients, counter } = RATED[rate];
  const settings = c.get("settings");
  if (!settings.rateLimits) return null;
  const client = clientOf(c.req.raw, settings);
  const pass = clients.take(client, settings.rates[setting], Date.now());
  if (!pass.ok) return pass.reason.retryAfter / 1_000;
  if (counter === null || !isAtCloudflare(c.req.raw)) return null;
  return (await takesTooMuchAtPlatform(c.env[counter], client)) ? period / 1_000 : null;
}

/** The 429 of a client that has used up a rate in this isolate; null if it has not. Nothing is counted. */
export function refuseIfUsedUp(c: AppContext, rate: keyof typeof RATED): Response | null {
  const { setting, clients } = RATED[rate];
  const settings = c.get("settings");
  if (!settings.rateLimits) return null;
  const pass = clients.look(clientOf(c.req.raw, settings), settings.rates[setting], Date.now());
  return pass.ok ? null : refuse(c, "rate_limited", pass.reason.retryAfter / 1_000);
}

/** The payments of each client that are being checked in this isolate. */
const checked = new Map<string, number>();

/**
 * Takes a place for a payment that is to be checked; null if as many are being checked, or have failed, as a client's payments may fail: otherwise any number
 * of them, sent at once, would be checked before the first one counts [LM2]. The function that it returns gives the place back, once.
 */
export function takeCheck(c: AppContext): (() => void) | null {
  const { setting, clients } = RATED.failedPayments;
  const settings = c.get("settings");
  if (!settings.rateLimits) return () => {};
  const client = clientOf(c.req.raw, settings);
  const others = checked.get(client) ?? 0;
  if (!clients.look(client, settings.rates[setting] - others, Date.now()).ok) return null;
  checked.set(client, others + 1);
  let isTaken = true;
  return () => {
    if (!isTaken) return;
    isTaken = false;
    const left = (checked.get(client) ?? 1) - 1;
    if (left > 0) checked.set(client, left);
    else checked.delete(client);
  };
}

/** True if Cloudflare's rate limiter rejects the request. A missing or failing binding allows it. */
export async function takesTooMuchAtPlatform(counter: unknown, client: string): Promise<boolean> {
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
