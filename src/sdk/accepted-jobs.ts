// Jobs that the router has: read one, wait for its end, cancel it, and list those of a user. On a job's way: everything after the commit, except the stream.
import type { Job, JobStatus } from "../protocol/job.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Credit, JobPage, JobSummary } from "../protocol/rest.ts";
import { isTerminal } from "../protocol/text.ts";
import { MAX_WAIT_SECONDS } from "../protocol/times.ts";
import { checkInteger, wrong } from "./check.ts";
import { type Connection, expectShape } from "./connection.ts";
import { type ComputeRouterError, JobTimeoutError, NotFoundError } from "./errors.ts";
import type { LocalJob } from "./local-jobs.ts";
import type { ClientSettings } from "./options.ts";
import { type Settlement, settlementIn } from "./payment.ts";
import { moneyOf } from "./result.ts";
import { askedPause, isOutage, type Limit, NO_RETRY, retrying, sleep, untilAborted, untilDone } from "./retry.ts";
import type { JobsOptions } from "./run-options.ts";
import { isJobPage, isJobWithId, isUuid } from "./shapes.ts";

/** A job as a poll found it, with what its `PAYMENT-RESPONSE` says. */
type SeenJob = { job: Job; settlement: Settlement };

/** Reads a job once. With `wait` (seconds) the router answers as soon as the job has ended. */
async function lookAt(connection: Connection, settings: ClientSettings, jobId: string, limit: Limit, wait?: number): Promise<SeenJob> {
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

/** Reads a job once for the user, and counts it if it has ended. */
export async function readJob(connection: Connection, settings: ClientSettings, jobId: string, limit: Limit, wait?: number): Promise<Job> {
  const { job, settlement } = await lookAt(connection, settings, jobId, limit, wait);
  if (isTerminal(job.status)) settings.usage.add(job, moneyOf(job, settlement));
  return job;
}

/** How long the answer to the last poll may take beyond its `wait`, in milliseconds. */
const LAST_ANSWER = 2_000;

/** The polling of one job until it ends. */
export class Poll {
  readonly connection: Connection;
  readonly settings: ClientSettings;
  readonly jobId: string;
  #status: JobStatus | null = null;
  #trouble: ComputeRouterError | undefined;
  #settlement: Settlement | undefined;

  constructor(connection: Connection, settings: ClientSettings, jobId: string) {
    this.connection = connection;
    this.settings = settings;
    this.jobId = jobId;
  }

  /**
   * Polls at once and then every `pollInterval`. It yields the job when its status has changed and returns the job at its end. An accepted job survives an
   * outage, so a 5xx or a lost answer only delays the next poll. With `longPoll` the router answers each poll only when the job has ended.
   */
  async *changes(limit: Limit, longPoll = false): AsyncGenerator<Job, Job, undefined> {
    for (;;) {
      const left = Math.floor((limit.endsAt - performance.now()) / 1_000);
      const job = await this.#look(this.settings, limit, longPoll ? Math.min(Math.max(left, 0), MAX_WAIT_SECONDS) : undefined);
      if (job !== null && this.saw(job.status)) yield job;
      if (job !== null && isTerminal(job.status)) return job;
      await sleep(Math.max(this.settings.pollInterval, askedPause(this.#trouble)), limit);
    }
  }

  /** What the last answer said about the payment of the job; null if the job has ended without a settlement, undefined if no answer has said anything. */
  get settlement(): Settlement | undefined {
    return this.#settlement;
  }

  /** Asks once more for the settlement of a job that has ended: an event stream does not have it. If the answer fails, it stays unknown. */
  async askSettlement(limit: Limit): Promise<void> {
    await this.#look({ ...this.settings, retry: NO_RETRY }, limit).catch(() => null);
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
   * the polls fail. A router that ignores `wait` is asked again every `pollInterval`.
   */
  async last(outer: Limit, end: number): Promise<Job | null> {
    const { settings } = this;
    const oneTry = { ...settings, retry: NO_RETRY, requestTimeout: Math.min(settings.requestTimeout, LAST_ANSWER) };
    for (;;) {
      const left = Math.max(0, end - performance.now());
      const job = await this.#look(oneTry, outer, Math.ceil(left / 1_000));
      if (job !== null) this.saw(job.status);
      if (job !== null && isTerminal(job.status)) return job;
      const pause = Math.max(settings.pollInterval, askedPause(this.#trouble));
      if (performance.now() + pause > end) return null;
      await sleep(pause, outer);
    }
  }

  async #look(settings: ClientSettings, limit: Limit, wait?: number): Promise<Job | null> {
    try {
      const { job, settlement } = await lookAt(this.connection, settings, this.jobId, limit, wait);
      this.#trouble = undefined;
      // Before the end, an answer without a settlement only means that there is none yet.
      if (settlement !== null || isTerminal(job.status)) this.#settlement = settlement;
      return job;
    } catch (error) {
      limit.signal.throwIfAborted();
      if (!isOutage(error)) throw error;
      this.#trouble = error;
      return null;
    }
  }
}

/**
 * A committed job, for `cancel`, `waitFor`, `stream` and `get`. It is plain data, so it can be stored as JSON. Everyone who has `cancelToken` can cancel the
 * job: keep it secret, as a `userId`.
 */
export type JobHandle = {
  /** UUID of the job. */
  jobId: string;
  /** The token that cancels the job; null if the router sent none, because it is older. */
  cancelToken: string | null;
};

/** What became of a job that was cancelled. */
export type Cancellation = {
  /** True if the job is cancelled; false if it had ended before. */
  cancelled: boolean;
  /** The job as it is now: `failed` with the error `cancelled`, or as it had ended before. */
  job: Job;
  /** True if money has moved for this job, false if the router says that none has; null if it says nothing: the job was free, or nothing is settled. */
  charged: boolean | null;
  /** The payer's balance, if the money of this job was credited to it or taken from it; otherwise null. */
  credit: Credit | null;
};

/** `result.error` of a job that its seeker cancelled [JB13]. */
const CANCELLED = "cancelled";

/** A job and the token that cancels it. */
type CancelableJob = { jobId: string; cancelToken: string };

/** Cancels a job and asks what became of its money. Throws NotFoundError if the token is not the job's. */
export async function cancelled(connection: Connection, settings: ClientSettings, target: CancelableJob, limit: Limit): Promise<Cancellation> {
  const job = await cancelJob(connection, settings, target, limit);
  // The job is cancelled. If its payment cannot be read now, it is not known.
  const seen = await lookAt(connection, { ...settings, retry: NO_RETRY }, target.jobId, limit).catch(() => null);
  limit.signal.throwIfAborted();
  const isCancelled = job.status === "failed" && job.result?.["error"] === CANCELLED;
  const money = { charged: seen?.settlement?.charged ?? null, credit: seen?.settlement?.credit ?? null };
  settings.usage.add(job, money);
  return { cancelled: isCancelled, job, ...money };
}

/** Cancels a job in the background, for a caller that has left. A failure is not reported: the job then ends as if nobody had cancelled it. */
export function cancelSoon(connection: Connection, settings: ClientSettings, target: CancelableJob): void {
  cancelJob(connection, settings, target, untilAborted()).catch(() => {});
}

/** Cancels a job and returns it as it is then [JB13]. Throws NotFoundError if the token is not the job's. */
async function cancelJob(connection: Connection, settings: ClientSettings, { jobId, cancelToken }: CancelableJob, limit: Limit): Promise<Job> {
  const timeout = settings.requestTimeout;
  // A cancel counts as a commit, so a burst of them is refused for a minute [JB13]. Nobody else waits for that: a `map` that has ended handles no 429 any more.
  return retrying({ ...settings.retry, leaves429: false, waitsOut429: true }, limit, async () => {
    // A repeated cancel changes nothing and has the same answer.
    const request = { method: "DELETE", path: `/v1/jobs/${jobId}`, headers: new Headers({ "x-cancel-token": cancelToken }), timeout } as const;
    return expectShape(await connection.exchange(request, limit), request, isJobWithId(jobId));
  });
}

/** A part of the jobs of a user, newest first. `next` is `before` for the older ones; null if there are none. */
export type JobsPage = JobPage & {
  /** `router`: all jobs of the user. `local`: those that this client, or its `jobList`, knows; jobs that the router has deleted are left out. */
  source: "router" | "local";
};

/** How many jobs of the local list are looked at at the same time. */
const LOOKS = 4;

/** Checks the options of `jobs`. Throws InvalidOptionError. */
export function readPart({ limit, before }: JobsOptions): { limit: number; before: string | undefined } {
  return { limit: checkInteger("limit", limit, 1, LIMITS.jobsPerPage) ?? LIMITS.jobsListed, before: before === undefined ? undefined : readCursor(before) };
}

/**
 * Reads a time as `2026-10-01T12:00:00.000Z`, or that with a comma and the id of a job. The time gets its milliseconds, because places in the list are compared
 * as texts: "12:00:00.500Z" would be before "12:00:00Z".
 */
function readCursor(before: unknown): string {
  const [time = "", id, ...more] = typeof before === "string" ? before.split(",") : [];
  const isTime = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(time) && !Number.isNaN(Date.parse(time));
  const isCursor = isTime && more.length === 0 && (id === undefined || isUuid(id));
  if (!isCursor) throw wrong("before", "must be the `next` of a page, or an ISO 8601 time in UTC", before);
  return [new Date(time).toISOString(), ...(id === undefined ? [] : [id])].join(",");
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
  const own = (await untilDone(jobList.all(), limit)).filter((job) => job.baseUrl === baseUrl && job.userId === userId);
  const { before = "~" } = part;
  // As text, a time sorts before the cursors of that time, so jobs of exactly that time do not count as older.
  const older = newestFirst(own).filter((job) => cursorOf(job) < before);
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

/** Each job once, with its newest entry: a list that only appends has one of each run with the same idempotency key. */
function newestFirst(jobs: readonly LocalJob[]): LocalJob[] {
  const entries = jobs.toSorted((a, b) => (cursorOf(a) < cursorOf(b) ? 1 : -1));
  const seen = new Set<string>();
  return entries.filter(({ jobId }) => !seen.has(jobId) && seen.add(jobId));
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
