import * as z from "zod";
import { JobType, Policy, ResolvedPolicy } from "./job.ts";

/** Query of `GET /v1/quote`: an absent or empty `policy` is `AUTO` [API3]. */
export const QuoteQuery = z.object({
  job_type: JobType,
  policy: z.preprocess((value) => (value === undefined || value === "" ? "AUTO" : value), Policy),
});
export type QuoteQuery = z.infer<typeof QuoteQuery>;

export const Quote = z
  .object({
    price: z
      .string()
      .regex(/^\$\d+\.\d{3}$/)
      .meta({ examples: ["$0.010"] }),
    endpoint: z.enum(["/v1/jobs/commit/fast", "/v1/jobs/commit/cheap"]),
    policy_resolved: ResolvedPolicy,
    network: z.string(),
    expires_at: z.null().meta({ description: "Reserved for dynamic pricing; always null." }),
  })
  .meta({ id: "Quote" });
/** What a job will cost and where to commit it [SPEC]. */
export type Quote = z.infer<typeof Quote>;
