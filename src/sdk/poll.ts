// Waits for the end of a job that the router has: one request for its state, and the polling until it has ended. This is the last step of a job's way.
import type { Job, JobStatus } from "../protocol/job.ts";
import { MAX_WAIT_SECONDS } from "../protocol/limits.ts";
import { isTerminal } from "../protocol/text.ts";
import { wrong } from "./check.ts";
import type { Connection } from "./connection.ts";
import { type ComputeRouterError, JobTimeoutError, UnavailableError } from "./errors.ts";
import type { ClientSettings } from "./options.ts";
import { type Settlement, settlementIn } from "./payment.ts";
import { expectShape } from "./response.ts";
import { askedPause, isTransient, type Limit, NO_RETRY, retrying, sleep } from "./retry.ts";
import { isJobWithId, isUuid } from "./shapes.ts";

/** A job as a poll found it, with what its `PAYMENT-RESPONSE` says. */
export type SeenJob = { job: Job; settlement: Settlement };

/** Reads a job once. `wait` (seconds) lets the router hold the answer until the job has ended. */
export async function lookAt(connection: Connection, settings: ClientSettings, jobId: string, limit: Limit, wait?: number): Promise<SeenJob> {
  // Other text in the path, as `..`, would request something else.
  if (!isUuid(jobId)) throw wrong("jobId", "must be a UUID", jobId);
  const path = `/v1/jobs/${jobId}${wait === undefined ? "" : `?wait=${wait}`}`;
  const timeout = settings.requestTimeout + (wait ?? 0) * 1_000;
  const request = { method: "GET", path, timeout } as const;
  return retrying(settings.retry, limit, async () => {
    const answer = await connection.exchange(request, limit);
    return { job: expectShape(answer, request, isJobWithId(jobId)), settlement: settlementIn(answer.headers) };
  });
}

/** How long the answer to the last poll may take beyond its `wait`, in milliseconds. */
const LAST_ANSWER = 2_000;

/** The polling of one job until it ends. */
export class Poll {
  readonly jobId: string;
  #status: JobStatus | null = null;
  #trouble: ComputeRouterError | undefined;
  #settlement: Settlement = null;

  constructor(jobId: string) {
    this.jobId = jobId;
  }

  /**
   * Polls at once and then every `pollInterval`. It yields the job when its status has changed and returns the job at its end. An accepted job survives an
   * outage, so a 5xx or a lost answer only delays the next poll. With `held` the router may hold each answer until the job has ended.
   */
  async *changes(connection: Connection, settings: ClientSettings, limit: Limit, held = false): AsyncGenerator<Job, Job, undefined> {
    for (;;) {
      const left = Math.floor((limit.endsAt - performance.now()) / 1_000);
      const job = await this.#look(connection, settings, limit, held ? Math.min(Math.max(left, 0), MAX_WAIT_SECONDS) : undefined);
      if (job !== null && this.saw(job.status)) yield job;
      if (job !== null && isTerminal(job.status)) return job;
      await sleep(Math.max(settings.pollInterval, askedPause(this.#trouble)), limit);
    }
  }

  /** What the last answer said about the payment of the job. */
  get settlement(): Settlement {
    return this.#settlement;
  }

  /** Asks once more for the settlement of a job that has ended: an event stream does not have it. If the answer fails, it stays unknown. */
  async askSettlement(connection: Connection, settings: ClientSettings, limit: Limit): Promise<void> {
    await this.#look(connection, { ...settings, retry: NO_RETRY }, limit).catch(() => null);
  }

  /** Records a status. True if it differs from the last one. */
  saw(status: JobStatus): boolean {
    const isNew = status !== this.#status;
    this.#status = status;
    return isNew;
  }

  /** The error for when the time is over. */
  timedOut(timeout: number): JobTimeoutError {
    return new JobTimeoutError(this.jobId, timeout, this.#status, this.#trouble);
  }

  /**
   * Polls once more after the time is over. Returns the job if it has ended or ends until `end` (on the clock of performance.now()); null if it has not, or if
   * the polls fail. A router that does not hold its answers is asked again every `pollInterval`.
   */
  async last(connection: Connection, settings: ClientSettings, outer: Limit, end: number): Promise<Job | null> {
    const oneTry = { ...settings, retry: NO_RETRY, requestTimeout: Math.min(settings.requestTimeout, LAST_ANSWER) };
    for (;;) {
      const left = Math.max(0, end - performance.now());
      const job = await this.#look(connection, oneTry, outer, Math.ceil(left / 1_000));
      if (job !== null) this.saw(job.status);
      if (job !== null && isTerminal(job.status)) return job;
      const pause = Math.max(settings.pollInterval, askedPause(this.#trouble));
      if (performance.now() + pause > end) return null;
      await sleep(pause, outer);
    }
  }

  async #look(connection: Connection, settings: ClientSettings, limit: Limit, wait?: number): Promise<Job | null> {
    try {
      const { job, settlement } = await lookAt(connection, settings, this.jobId, limit, wait);
      this.#trouble = undefined;
      this.#settlement = settlement;
      return job;
    } catch (error) {
      limit.signal.throwIfAborted();
      if (!isTransient(error) && !(error instanceof UnavailableError)) throw error;
      this.#trouble = error;
      return null;
    }
  }
}
