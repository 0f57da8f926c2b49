// The list of the jobs that a client committed, with the tokens that cancel them. On a job's way: a job enters it when the router has accepted it.
import type { JobType } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/json.ts";
import { InvalidOptionError } from "./errors.ts";

/** A job that a client committed. `userId` and `cancelToken` are secrets. */
export type LocalJob = {
  /** UUID of the job. */
  jobId: string;
  jobType: JobType;
  /** When the router had accepted the job, by the clock of this machine; ISO 8601. */
  createdAt: string;
  /** The token that cancels the job; null if the router sent none. */
  cancelToken: string | null;
  /** The router that has the job. */
  baseUrl: string;
  /** The user who committed it. */
  userId: string;
};

/**
 * Where a client keeps the jobs that it committed. Without one it keeps the last 1,000 in memory, so another client or process does not know them.
 *
 * @example
 * const stored: LocalJob[] = [];
 * const jobList: JobList = { add: (job) => void stored.push(job), all: () => stored };
 * const router = new ComputeRouter({ jobList });
 */
export type JobList = {
  /** Keeps a job. If it throws, the job goes on, and the client does not report it: the job is already accepted and perhaps paid. */
  add: (job: LocalJob) => void | Promise<void>;
  /** The jobs that are kept, in any order. */
  all: () => readonly LocalJob[] | Promise<readonly LocalJob[]>;
};

/** The most jobs in memory. */
const KEPT = 1_000;

/** A list in memory, which forgets the oldest jobs. */
class MemoryJobList implements JobList {
  readonly #jobs = new Map<string, LocalJob>();

  add(job: LocalJob): void {
    this.#jobs.delete(job.jobId);
    this.#jobs.set(job.jobId, job);
    const [oldest] = this.#jobs.keys();
    if (this.#jobs.size > KEPT && oldest !== undefined) this.#jobs.delete(oldest);
  }

  all(): LocalJob[] {
    return [...this.#jobs.values()];
  }
}

/** Checks the option `jobList`. Throws InvalidOptionError. */
export function readJobList(given: JobList | undefined): JobList {
  if (given === undefined) return new MemoryJobList();
  if (isJsonObject(given) && typeof given.add === "function" && typeof given.all === "function") return given;
  throw new InvalidOptionError("jobList", "must have the functions add and all");
}

/** Keeps a job. A failure must not become that of the run, which has committed and perhaps paid its job. */
export async function keepJob(list: JobList, job: LocalJob): Promise<void> {
  try {
    await list.add(job);
  } catch {
    // The caller still has the job's id and its token.
  }
}

/** The token that cancels a job of this router; null if the list does not have it. */
export async function keptToken(list: JobList, baseUrl: string, jobId: string): Promise<string | null> {
  const jobs = await list.all();
  return jobs.find((job) => job.baseUrl === baseUrl && job.jobId.toLowerCase() === jobId.toLowerCase())?.cancelToken ?? null;
}
