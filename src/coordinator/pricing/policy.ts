import type { JobType, Policy, ResolvedPolicy } from "../../protocol/job.ts";
import type { Quote } from "../../protocol/quote.ts";

/** What `AUTO` stands for, by job type [SPEC]. */
const AUTO = { LLM_INFER: "FAST", TASK: "CHEAP" } as const satisfies Record<JobType, ResolvedPolicy>;

const ENDPOINTS = { FAST: "/v1/jobs/commit/fast", CHEAP: "/v1/jobs/commit/cheap" } as const satisfies Record<ResolvedPolicy, Quote["endpoint"]>;

/** The policy that a job of this type is run under [SPEC]. */
export function resolvePolicy(policy: Policy, jobType: JobType): ResolvedPolicy {
  return policy === "AUTO" ? AUTO[jobType] : policy;
}

/** The commit path of a policy [SPEC]. */
export function endpointOf(policy: ResolvedPolicy): Quote["endpoint"] {
  return ENDPOINTS[policy];
}
