import type { Job, JobStatus } from "../protocol/job.ts";
import type { Connection } from "./connection.ts";
import { type ComputeRouterError, InvalidOptionError, JobTimeoutError, UnavailableError } from "./errors.ts";
import { type Limit, sleep } from "./limit.ts";
import type { Settings } from "./options.ts";
import { askedPause, isTransient } from "./retry.ts";
import { isJob, isUuid } from "./shapes.ts";

/** One look at a job. `wait` (seconds) lets the router hold the answer until the job has ended. */
export async function lookAt(connection: Connection, settings: Settings, jobId: string, limit: Limit, wait?: number): Promise<Job> {
  // Anything else in the path, as `..`, would ask for something else.
  if (!isUuid(jobId)) throw new InvalidOptionError("jobId", "must be a UUID");
  const path = `/v1/jobs/${jobId}${wait === undefined ? "" : `?wait=${wait}`}`;
  const timeout = settings.requestTimeout + (wait ?? 0) * 1_000;
  const isThisJob = (body: unknown): body is Job => isJob(body) && body.id.toLowerCase() === jobId.toLowerCase();
  return connection.get(path, timeout, settings.retry, limit, isThisJob);
}

/** The polling of one job until it ends. */
export class Poll {
  readonly jobId: string;
  #status: JobStatus | null = null;
  #trouble: ComputeRouterError | undefined;

  constructor(jobId: string) {
    this.jobId = jobId;
  }

  /**
   * Polls at once and then every `pollInterval`; yields the job when its status has changed and returns it at its end. An accepted job outlives
   * an outage, so any 5xx or lost answer only delays the next poll.
   */
  async *changes(connection: Connection, settings: Settings, limit: Limit): AsyncGenerator<Job, Job, undefined> {
    for (;;) {
      const job = await this.#look(connection, settings, limit);
      if (job !== null && this.saw(job.status)) yield job;
      if (job?.status === "completed" || job?.status === "failed") return job;
      await sleep(Math.max(settings.pollInterval, askedPause(this.#trouble)), limit);
    }
  }

  /** Takes note of a status that was seen; says whether it is another one than before. */
  saw(status: JobStatus): boolean {
    const isNew = status !== this.#status;
    this.#status = status;
    return isNew;
  }

  /** What to say when the time is over. */
  timedOut(timeout: number): JobTimeoutError {
    return new JobTimeoutError(this.jobId, timeout, this.#status, this.#trouble);
  }

  async #look(connection: Connection, settings: Settings, limit: Limit): Promise<Job | null> {
    try {
      const job = await lookAt(connection, settings, this.jobId, limit);
      this.#trouble = undefined;
      return job;
    } catch (error) {
      limit.signal.throwIfAborted();
      if (!isTransient(error) && !(error instanceof UnavailableError)) throw error;
      this.#trouble = error;
      return null;
    }
  }
}
