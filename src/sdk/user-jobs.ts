// The jobs of a client's user: from the router if the user has a token, otherwise from the local list, each with its present state. After a job's way.
import { LIMITS } from "../protocol/limits.ts";
import type { JobPage, JobSummary } from "../protocol/rest.ts";
import { checkInteger, wrong } from "./check.ts";
import type { Connection } from "./connection.ts";
import { NotFoundError } from "./errors.ts";
import type { LocalJob } from "./local-jobs.ts";
import type { ClientSettings } from "./options.ts";
import { lookAt } from "./poll.ts";
import type { Limit } from "./retry.ts";
import type { JobsOptions } from "./run-options.ts";
import { isJobPage } from "./shapes.ts";

/** A part of the jobs of a user, newest first. `next` is `before` for the older ones; null if there are none. */
export type JobsPage = JobPage & {
  /** `router`: all jobs of the user. `local`: those that this client, or its `jobList`, knows; jobs that the router has deleted are left out. */
  source: "router" | "local";
};

/** How many jobs of the local list are looked at at the same time. */
const LOOKS = 4;

/** Checks the options of `jobs`. Throws InvalidOptionError. */
export function readPart({ limit, before }: JobsOptions): { limit: number; before: string | undefined } {
  if (before !== undefined && (typeof before !== "string" || before === "")) throw wrong("before", "must be the `next` of a page, or an ISO 8601 time", before);
  return { limit: checkInteger("limit", limit, 1, LIMITS.jobsPerPage) ?? LIMITS.jobsListed, before };
}

/** A part of the jobs of a user with a token [JB14]. */
export async function routerJobs(connection: Connection, settings: ClientSettings, part: ReturnType<typeof readPart>, limit: Limit): Promise<JobsPage> {
  const { requestTimeout, retry, userId, userToken } = settings;
  const query = new URLSearchParams({ user_id: userId, limit: String(part.limit), ...(part.before !== undefined && { before: part.before }) });
  const headers = new Headers(userToken === undefined ? {} : { "x-user-token": userToken });
  return { ...(await connection.get(`/v1/jobs?${query.toString()}`, requestTimeout, retry, limit, isJobPage, headers)), source: "router" };
}

/** A part of the local list. Each job is looked up at the router. */
export async function localJobs(connection: Connection, settings: ClientSettings, part: ReturnType<typeof readPart>, limit: Limit): Promise<JobsPage> {
  const { baseUrl, jobList, userId } = settings;
  const own = (await jobList.all()).filter((job) => job.baseUrl === baseUrl && job.userId === userId);
  const { before = "~" } = part;
  // A time is before its cursors, so the jobs of exactly that time are not older than it.
  const older = own.filter((job) => cursorOf(job) < before).toSorted((a, b) => (cursorOf(a) < cursorOf(b) ? 1 : -1));
  const shown = older.slice(0, part.limit);
  const found: (JobSummary | null)[] = [];
  let next = 0;
  const look = async (): Promise<void> => {
    for (let at = next++; at < shown.length; at = next++) {
      const job = shown[at];
      if (job !== undefined) found[at] = await summaryOf(connection, settings, job, limit);
    }
  };
  await Promise.all(Array.from({ length: LOOKS }, look));
  const last = older.length > shown.length ? shown.at(-1) : undefined;
  return { jobs: found.filter((job) => job !== null), next: last === undefined ? null : cursorOf(last), source: "local" };
}

/** The place of a job in the list, in the form of the router's. All times have the same length, so texts compare as times do. */
function cursorOf({ createdAt, jobId }: LocalJob): string {
  return `${createdAt},${jobId}`;
}

async function summaryOf(connection: Connection, settings: ClientSettings, { jobId, jobType }: LocalJob, limit: Limit): Promise<JobSummary | null> {
  try {
    const { id, status, created_at, completed_at } = (await lookAt(connection, settings, jobId, limit)).job;
    return { id, job_type: jobType, status, created_at, completed_at };
  } catch (error) {
    if (error instanceof NotFoundError) return null;
    throw error;
  }
}
