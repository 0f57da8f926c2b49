import type { DispatchSettings } from "../../src/coordinator/dispatch/index.ts";
import { LIMITS } from "../../src/protocol/limits.ts";

/** The size of a hub's queue by the rules [LM1]. */
export const QUEUE_SIZE: DispatchSettings["queue"] = { jobs: LIMITS.queuedJobs, bytes: LIMITS.queuedPayloadBytes, jobsPerUser: LIMITS.queuedJobsPerUser };
