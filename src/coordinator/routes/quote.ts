import { describeIssues } from "../../protocol/issues.ts";
import { type Quote, QuoteQuery } from "../../protocol/quote.ts";
import { endpointOf, quotePrice, resolvePolicy } from "../pricing/index.ts";
import type { AppContext } from "./app-env.ts";
import { refuseWith } from "./refuse.ts";

/** `GET /v1/quote` [SPEC, API3]. */
export function quote(c: AppContext): Response {
  const given = { job_type: c.req.query("job_type"), policy: c.req.query("policy") };
  const query = QuoteQuery.safeParse(given);
  if (!query.success) return refuseWith(c, 400, describeIssues(query.error, given));
  const policy = resolvePolicy(query.data.policy, query.data.job_type);
  const body: Quote = {
    price: quotePrice(policy, query.data.job_type),
    endpoint: endpointOf(policy),
    policy_resolved: policy,
    network: c.var.settings.network,
    expires_at: null,
  };
  return c.json(body);
}
