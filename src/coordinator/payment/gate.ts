import type { MiddlewareHandler } from "hono";
import type { ResolvedPolicy } from "../../protocol/job.ts";
import type { AppEnv } from "../routes/app-env.ts";
import { answer402, paymentHeaders } from "./headers.ts";
import { offerOf } from "./offer.ts";
import { bringsPayment } from "./read-payment.ts";

/**
 * The gate of one commit endpoint [PY1]: open while `TESTNET_MODE` is true, else a request without a payment is told what to pay before its body
 * is looked at [PY5]. One that brings a payment goes on; whether it is good is seen where the job is known.
 */
export const gate =
  (policy: ResolvedPolicy): MiddlewareHandler<AppEnv> =>
  async (c, next) => {
    const { settings } = c.var;
    if (settings.testnetMode || bringsPayment(paymentHeaders(c))) return next();
    return answer402(c, await offerOf(settings, policy, c.req.url), "payment_required");
  };
