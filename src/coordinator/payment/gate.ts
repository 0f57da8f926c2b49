import type { MiddlewareHandler } from "hono";
import type { ResolvedPolicy } from "../../protocol/job.ts";
import { endpointOf } from "../pricing/policy.ts";
import type { AppContext, AppEnv } from "../routes/app-env.ts";
import { paymentRequired, resourceUrl } from "./requirement.ts";

/** Whether a request has paid; if not, what its 402 says. */
type Admission = { ok: true } | { ok: false; error: string };

/** The gate of one commit endpoint [PY1]: open while `TESTNET_MODE` is true, else a request must have paid before its body is looked at [PY5]. */
export const gate =
  (policy: ResolvedPolicy): MiddlewareHandler<AppEnv> =>
  async (c, next) => {
    const { testnetMode, payment, network, publicHost } = c.var.settings;
    if (testnetMode) return next();
    const admission = admit(c);
    if (admission.ok) return next();
    const resource = resourceUrl(endpointOf(policy), c.req.url, publicHost);
    return c.json(paymentRequired({ payment, network, policy, resource }, admission.error), 402);
  };

/** Looks at the payment of a request. Payments are not taken yet, so none is good; the reading and verifying of them goes here. */
function admit(_c: AppContext): Admission {
  return { ok: false, error: "payment_required" };
}
