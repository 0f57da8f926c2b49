import type { MiddlewareHandler } from "hono";
import { LIMITS } from "../../protocol/limits.ts";
import { settingsOf, warnOfPlaceholder } from "../config.ts";
import type { AppEnv } from "./context.ts";
import { answerError, refuseWith } from "./errors.ts";
import { refusedLocally } from "./local-door.ts";

/** The `*` is for the headers that OpenAI's client adds in a browser. It does not cover `authorization`. */
const ALLOW_HEADERS = "authorization, content-type, x-payment, payment-signature, idempotency-key, prefer, x-user-token, x-cancel-token, last-event-id, *";
const EXPOSE_HEADERS = "payment-required, payment-response, x-payment-response, preference-applied, x-cancel-token, x-job-id, retry-after, x-request-id";
const ALLOW_METHODS = "GET, HEAD, POST, DELETE, OPTIONS";
const PREFLIGHT_SECONDS = "86400";

/**
 * Wraps every request. It creates the request id (an id from the client is never echoed), reads the settings, answers CORS preflights, and adds
 * the common headers to every response, errors included [API1, API7].
 */
export const commonHeaders: MiddlewareHandler<AppEnv> = async (c, next) => {
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
      if (!isValidHost(c.req.raw)) c.res = refuseWith(c, 400, `Host: expected a host name of at most ${LIMITS.hostChars} characters`);
      else if (foreign !== null) c.res = refuseWith(c, 403, foreign);
      else await next();
    } catch (thrown) {
      // Hono's own error handler only catches instances of Error.
      c.res = answerError(thrown, c);
    }
  }
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

/** False for a `Host` that is no host name, and for one that is longer than any. Cloudflare refuses both; a bare workerd accepts both. */
function isValidHost({ url, headers }: Request): boolean {
  return URL.canParse(url) && (headers.get("Host")?.length ?? 0) <= LIMITS.hostChars;
}
