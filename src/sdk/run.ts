import type { Job, JobStatus, JobType, Policy } from "../protocol/job.ts";
import { MAX_WAIT_SECONDS, TIMING } from "../protocol/limits.ts";
import type { Quote } from "../protocol/rest.ts";
import { Commit, type Committed } from "./commit.ts";
import type { Connection } from "./connection.ts";
import { type ComputeRouterError, JobTimeoutError, PaymentLimitError, RouterConnectionError, UnavailableError } from "./errors.ts";
import { followJob, type JobEvent } from "./job-stream.ts";
import { commitBody, type JobInput } from "./job-input.ts";
import { askedPause, isTransient, type Limit, NO_RETRY, openLimit, sleep, untilAborted, within } from "./retry.ts";
import type { ClientSettings } from "./options.ts";
import { isWithin, routerResult, type RouterResult } from "./result.ts";
import type { RunPlan } from "./run-options.ts";
import { isJob, isQuote, isUuid } from "./shapes.ts";
import { wrong } from "./check.ts";

/** How much later than its tick the router may give a job up, and its answer arrive, in milliseconds. */
const TICK_MARGIN = 500;
/** The longest that a run may outlast its timeout to hear how its job ends, in milliseconds. */
const LAST_LOOK = 6_000;

/** Asks for a quote. One for another policy than asked is malformed: it would send the job to the dearer endpoint. */
export async function askQuote(connection: Connection, settings: ClientSettings, jobType: JobType, policy: Policy, limit: Limit): Promise<Quote> {
  const path = `/v1/quote?job_type=${jobType}&policy=${policy}`;
  const isAsked = (body: unknown): body is Quote => isQuote(body) && (policy === "AUTO" || body.policy_resolved === policy);
  return connection.get(path, settings.requestTimeout, settings.retry, limit, isAsked);
}

/** One job on its way through the router: quote, commit, poll. */
export class RouterRun {
  readonly #connection: Connection;
  readonly #settings: ClientSettings;
  readonly #plan: RunPlan;
  #commit: Commit | undefined;
  #poll: Poll | undefined;
  #price: string | null = null;
  /** When the router had the job at the latest, on the clock of performance.now(). */
  #since = 0;
  /** What ended the run when its time was over. */
  #expired: Error | undefined;

  constructor(connection: Connection, settings: ClientSettings, plan: RunPlan) {
    this.#connection = connection;
    this.#settings = settings;
    this.#plan = plan;
  }

  /** Whether the router may have the job, whatever the run came to. */
  get mayCount(): boolean {
    return this.#commit?.mayCount ?? false;
  }

  /** The whole way, within the plan's timeout. */
  async run(job: JobInput): Promise<RouterResult> {
    return this.#toEnd(async (limit) => {
      const { jobId } = await this.#send(job, limit);
      return this.#follow(jobId, limit);
    });
  }

  /** The first half: until the router has the job. */
  async submit(job: JobInput): Promise<Committed> {
    return this.#within((limit) => this.#send(job, limit));
  }

  /** The second half, for a job that was submitted before. */
  async resume(jobId: string): Promise<RouterResult> {
    return this.#toEnd((limit) => this.#follow(jobId, limit));
  }

  /** The whole way, or the second half for the id of a job, told as it goes. */
  async *stream(job: JobInput | string): AsyncGenerator<JobEvent, void, undefined> {
    const { limit, release } = openLimit(this.#plan.timeout, untilAborted(this.#plan.signal), () => this.#timedOut());
    try {
      const { jobId } = typeof job === "string" ? { jobId: job } : await this.#send(job, limit);
      yield { type: "job", jobId, price: this.#price };
      const poll = this.#pollOf(jobId);
      try {
        for await (const event of followJob(this.#connection, this.#settings, poll, limit)) {
          yield event.type === "done" ? { type: "done", result: this.#resultOf(event.job) } : event;
        }
      } catch (error) {
        yield { type: "done", result: await this.#orLast(error) };
      }
    } finally {
      release();
    }
  }

  async #send(job: JobInput, limit: Limit): Promise<Committed> {
    const { policy, privacy, idempotencyKey } = this.#plan;
    const { maxPrice, userId, userToken } = this.#settings;
    const body = commitBody(job, userId, privacy);
    const quote = await askQuote(this.#connection, this.#settings, job.job_type, policy, limit);
    if (maxPrice !== undefined && !isWithin(quote.price, maxPrice)) throw new PaymentLimitError(quote.price, maxPrice);
    const commit = new Commit(this.#connection, this.#settings, quote, { body, idempotencyKey, userToken: privacy === "PRIVATE" ? userToken : undefined });
    this.#commit = commit;
    const committed = await commit.send(limit);
    this.#price = committed.price;
    return committed;
  }

  async #follow(jobId: string, limit: Limit): Promise<RouterResult> {
    const changes = this.#pollOf(jobId).changes(this.#connection, this.#settings, limit, this.#plan.held);
    let step = await changes.next();
    for (; step.done !== true; step = await changes.next()) this.#plan.onUpdate(step.value);
    return this.#resultOf(step.value);
  }

  #resultOf(job: Job): RouterResult {
    return routerResult(job, this.#price, this.#plan.requireVerified);
  }

  #pollOf(jobId: string): Poll {
    this.#poll = new Poll(jobId);
    this.#since = performance.now();
    return this.#poll;
  }

  /**
   * The result after all, where `error` is that the time is over and the job ends about now. The router gives a job up when nobody has taken it
   * for 30 s, at its next tick, and by the clock of this machine that is a moment after a run of 30 s has ended: that nobody took the job would
   * never be heard. Rejects with `error` otherwise, or with the failure of the job.
   */
  async #orLast(error: unknown): Promise<RouterResult> {
    const poll = this.#poll;
    if (poll === undefined || error !== this.#expired) throw error;
    const end = this.#since + TIMING.claimWindow + TIMING.retryTick + TICK_MARGIN;
    if (end - performance.now() > LAST_LOOK) throw error;
    const job = await poll.last(this.#connection, this.#settings, untilAborted(this.#plan.signal), end);
    if (job === null) throw poll.timedOut(this.#plan.timeout);
    this.#plan.onUpdate(job);
    return this.#resultOf(job);
  }

  async #toEnd(work: (limit: Limit) => Promise<RouterResult>): Promise<RouterResult> {
    return this.#within(work).catch((error: unknown) => this.#orLast(error));
  }

  async #within<T>(work: (limit: Limit) => Promise<T>): Promise<T> {
    return within(this.#plan.timeout, untilAborted(this.#plan.signal), () => this.#timedOut(), work);
  }

  /** What a timeout means depends on how far the run has come. */
  #timedOut(): Error {
    const { timeout } = this.#plan;
    const silence = new RouterConnectionError(`the router accepted no job within ${timeout} ms`, { reason: "timeout" });
    this.#expired = this.#poll?.timedOut(timeout) ?? this.#commit?.marked(silence) ?? silence;
    return this.#expired;
  }
}

/** One look at a job. `wait` (seconds) lets the router hold the answer until the job has ended. */
export async function lookAt(connection: Connection, settings: ClientSettings, jobId: string, limit: Limit, wait?: number): Promise<Job> {
  // Anything else in the path, as `..`, would ask for something else.
  if (!isUuid(jobId)) throw wrong("jobId", "must be a UUID", jobId);
  const path = `/v1/jobs/${jobId}${wait === undefined ? "" : `?wait=${wait}`}`;
  const timeout = settings.requestTimeout + (wait ?? 0) * 1_000;
  const isThisJob = (body: unknown): body is Job => isJob(body) && body.id.toLowerCase() === jobId.toLowerCase();
  return connection.get(path, timeout, settings.retry, limit, isThisJob);
}

/** How long the answer to the last look may take beyond the time that it asked to be held, in milliseconds. */
const LAST_ANSWER = 2_000;

function hasEnded({ status }: Job): boolean {
  return status === "completed" || status === "failed";
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
   * an outage, so any 5xx or lost answer only delays the next poll. With `held` the router may hold each answer until the job has ended.
   */
  async *changes(connection: Connection, settings: ClientSettings, limit: Limit, held = false): AsyncGenerator<Job, Job, undefined> {
    for (;;) {
      const left = Math.floor((limit.endsAt - performance.now()) / 1_000);
      const job = await this.#look(connection, settings, limit, held ? Math.min(Math.max(left, 0), MAX_WAIT_SECONDS) : undefined);
      if (job !== null && this.saw(job.status)) yield job;
      if (job !== null && hasEnded(job)) return job;
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

  /**
   * The last look, when the time is over: the end of the job if it has ended by now or does so until `end` (on the clock of performance.now()),
   * else null, also in trouble. Routers that do not hold their answers are asked again every `pollInterval`.
   */
  async last(connection: Connection, settings: ClientSettings, outer: Limit, end: number): Promise<Job | null> {
    const oneTry = { ...settings, retry: NO_RETRY, requestTimeout: Math.min(settings.requestTimeout, LAST_ANSWER) };
    for (;;) {
      const left = Math.max(0, end - performance.now());
      const job = await this.#look(connection, oneTry, outer, Math.ceil(left / 1_000));
      if (job !== null) this.saw(job.status);
      if (job !== null && hasEnded(job)) return job;
      const pause = Math.max(settings.pollInterval, askedPause(this.#trouble));
      if (performance.now() + pause > end) return null;
      await sleep(pause, outer);
    }
  }

  async #look(connection: Connection, settings: ClientSettings, limit: Limit, wait?: number): Promise<Job | null> {
    try {
      const job = await lookAt(connection, settings, this.jobId, limit, wait);
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
