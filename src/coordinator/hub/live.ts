import { type LiveJob, statusOf } from "../dispatch/index.ts";
import { jobJson } from "../store/job-view.ts";

/** JSON text of a Job that has not ended [JB1]. */
export function liveJob(job: LiveJob): string {
  return jobJson({ id: job.id, status: statusOf(job), result: null, receipt: null, createdAt: job.createdAt, completedAt: null });
}
