import type { MiddlewareHandler } from "hono";
import { settingsOf, warnOfPlaceholder } from "../config.ts";
import type { AppEnv } from "./context.ts";
import { answerError } from "./errors.ts";

const ALLOW_HEADERS = "content-type, x-payment, payment-signature, idempotency-key, prefer, x-user-token, last-event-id";
const EXPOSE_HEADERS = "payment-required, payment-response, x-payment-response, preference-applied, retry-after, x-request-id";
const ALLOW_METHODS = "GET, HEAD, POST, OPTIONS";
const PREFLIGHT_SECONDS = "86400";

/**
 * Around everything: gives the request an id of our own (a client's is never echoed), answers CORS preflights,
 * and puts the headers that every answer has on whatever comes out, errors too [API1, API7].
 */
export const commonHeaders: MiddlewareHandler<AppEnv> = async (c, next) => {
  c.set("requestId", crypto.randomUUID());
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
      await next();
    } catch (thrown) {
      // Hono's own error handler takes instances of Error only.
      c.res = answerError(thrown, c);
    }
  }
  // A switch of protocols cannot be copied, and no page reads its headers.
  if (c.res.status === 101) return;
  const { headers } = c.res;
  headers.set("X-Request-Id", c.var.requestId);
  headers.set("Access-Control-Allow-Origin", "*");
  headers.set("Access-Control-Expose-Headers", EXPOSE_HEADERS);
  headers.set("X-Content-Type-Options", "nosniff");
  // Jobs and payments must never be cached [API7]; of the other answers under /v1 none is worth it.
  if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
};
