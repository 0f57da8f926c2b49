// RouterRun: one job and its requests to the router. On a job's way: quote → commit → poll or stream, to the end.
import type { Job, JobType, Policy } from "../protocol/job.ts";
import type { Quote } from "../protocol/rest.ts";
import { TIMING } from "../protocol/times.ts";
import { cancelSoon, Poll } from "./accepted-jobs.ts";
import { Commit, type Committed } from "./commit.ts";
import type { Connection } from "./connection.ts";
import { ComputeRouterError, JobTimeoutError, PaymentLimitError, RouterConnectionError } from "./errors.ts";
import { commitBody, type JobInput } from "./job-input.ts";
import { followJob, type JobEvent } from "./job-stream.ts";
import { keepJob, keptToken } from "./local-jobs.ts";
import type { ClientSettings } from "./options.ts";
import { isWithin, movedBefore, type Settlement } from "./payment.ts";
import { moneyOf, routerResult, type RouterResult } from "./result.ts";
import { type Limit, openLimit, untilAborted, within } from "./retry.ts";
import type { RunPlan } from "./run-options.ts";
import { isQuote } from "./shapes.ts";

/** How long after its tick the router may end a job and its answer may arrive, in milliseconds. */
const TICK_MARGIN = 500;
/** How long a run may continue after its timeout to learn how its job ends, in milliseconds. */
const LAST_POLL = 6_000;

/** Asks for a quote. A quote for another policy counts as malformed, because it would send the job to the more expensive endpoint. */
export async function askQuote(
  connection: Connection,
  settings: ClientSettings,
  { jobType, policy, model }: { jobType: JobType; policy: Policy; model?: string | undefined },
  limit: Limit,
): Promise<Quote> {
  const path = `/v1/quote?job_type=${jobType}&policy=${policy}${model === undefined ? "" : `&model=${encodeURIComponent(model)}`}`;
  const isAsked = (body: unknown): body is Quote => isQuote(body) && (policy === "AUTO" || body.policy_resolved === policy);
  return connection.get(path, settings.requestTimeout, { ...settings.retry, waitsOut429: true }, limit, isAsked);
}

/** One job on its way through the router: quote, commit, poll. A run that failed may be repeated: it is the same job then. */
export class RouterRun {
  readonly #connection: Connection;
  readonly #settings: ClientSettings;
  readonly #plan: RunPlan;
  #commit: Commit | undefined;
  #poll: Poll | undefined;
  #price: string | null = null;
  /** The job that this run has committed; null until the router has accepted it. */
  #committed: Committed | null = null;
  #settlement: Settlement = null;
  /** The latest time at which the router got the job, on the clock of performance.now(). */
  #since = 0;
  /** The error with which the timeout ended the run. */
  #expired: Error | undefined;
  /** Ends what {@link RouterRun.#cancelOnAbort} began. */
  #release = (): void => {};

  constructor(connection: Connection, settings: ClientSettings, plan: RunPlan) {
    this.#connection = connection;
    this.#settings = { ...settings, retry: { ...settings.retry, onRateLimit: plan.onRateLimit } };
    this.#plan = plan;
  }

  /** True if the router may have the job, even if the run failed. */
  get mayHaveEffect(): boolean {
    return this.#commit?.mayHaveEffect ?? false;
  }

  /** The whole way of a job, within the plan's timeout. */
  async run(job: JobInput): Promise<RouterResult> {
    return this.#toEnd(async (limit) => this.#follow((await this.#send(job, limit)).jobId, limit));
  }

  /** The first half of the way: until the router has the job. */
  async submit(job: JobInput): Promise<Committed> {
    return this.#within((limit) => this.#send(job, limit)).finally(() => this.#release());
  }

  /** The second half, for a job that was submitted before. With `own` it is a job of this call, so an abort cancels it. */
  async resume(jobId: string, own = false): Promise<RouterResult> {
    const { jobList, baseUrl } = this.#settings;
    if (own) this.#cancelOnAbort(jobId, () => this.#committed?.cancelToken ?? keptToken(jobList, baseUrl, jobId));
    return this.#toEnd((limit) => this.#follow(jobId, limit));
  }

  /** The events of the whole way, or of the second half if `job` is an id. */
  async *stream(job: JobInput | string): AsyncGenerator<JobEvent, void, undefined> {
    const { limit, ended, release } = openLimit(this.#plan.timeout, untilAborted(this.#plan.signal), () => this.#timedOut());
    try {
      // A payment hook may ignore its signal, and a list of jobs has none.
      const jobId = typeof job === "string" ? job : (await Promise.race([this.#send(job, limit), ended])).jobId;
      yield { type: "job", jobId, price: this.#price };
      const poll = this.#pollOf(jobId);
      try {
        for await (const event of followJob(poll, limit)) {
          if (event.type !== "done") yield event;
          else {
            const isUnknown = this.#commit?.isPaid === true && this.#settlement === null;
            if (event.job.status === "failed" || isUnknown) await poll.askSettlement(limit);
            yield { type: "done", result: this.#resultOf(event.job) };
          }
        }
      } catch (error) {
        yield { type: "done", result: await this.#orLast(error) };
      }
    } finally {
      this.#release();
      release();
    }
  }

  async #send(job: JobInput, limit: Limit): Promise<Committed> {
    const { policy, privacy, idempotencyKey, cancelOnAbort, signal } = this.#plan;
    const { baseUrl, jobList, maxPrice, userId } = this.#settings;
    const userToken = privacy === "PRIVATE" ? this.#settings.userToken : undefined;
    const body = commitBody(job, userId, privacy);
    const quote = await askQuote(this.#connection, this.#settings, { jobType: job.job_type, policy }, limit);
    if (maxPrice !== undefined && !isWithin(quote.price, maxPrice)) throw new PaymentLimitError(quote.price, maxPrice);
    const call = { body, idempotencyKey, userToken, cancelOn: cancelOnAbort ? signal : undefined };
    const commit = new Commit(this.#connection, this.#settings, quote, call, this.#commit);
    this.#commit = commit;
    const committed = await commit.send(limit);
    // Before the list of jobs, which may take its time: nobody else knows the job yet.
    const { jobId, cancelToken } = committed;
    this.#committed = committed;
    this.#cancelOnAbort(jobId, () => cancelToken);
    this.#price = committed.price;
    this.#settlement = committed.settlement;
    if (commit.isPaid) this.#settings.usage.paid(jobId, committed.price);
    await keepJob(jobList, { jobId, jobType: job.job_type, createdAt: new Date().toISOString(), cancelToken, baseUrl, userId });
    return committed;
  }

  /**
   * From now on until the end of the run, the caller's abort cancels the job, unless the plan says otherwise. `find` is called then: a list of jobs may take
   * its time to give the token, and a job that nobody cancels does not need it.
   */
  #cancelOnAbort(jobId: string, find: () => string | null | Promise<string | null>): void {
    const { signal, cancelOnAbort } = this.#plan;
    if (signal === undefined || !cancelOnAbort) return;
    const cancel = async (): Promise<void> => {
      const cancelToken = await find();
      if (cancelToken !== null) cancelSoon(this.#connection, this.#settings, { jobId, cancelToken });
    };
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      signal.removeEventListener("abort", end);
      // Without a token the job goes on, as if nobody had cancelled it.
      if (signal.aborted) cancel().catch(() => {});
    };
    signal.addEventListener("abort", end);
    // The end of the run may come before the event: a browser runs the promises that one listener of a time-out settles before it calls the next listener.
    this.#release = end;
    if (signal.aborted) end();
  }

  async #follow(jobId: string, limit: Limit): Promise<RouterResult> {
    const changes = this.#pollOf(jobId).changes(limit, this.#plan.longPoll);
    let step = await changes.next();
    for (; step.done !== true; step = await changes.next()) this.#plan.onUpdate(step.value);
    return this.#resultOf(step.value);
  }

  #resultOf(job: Job): RouterResult {
    const atEnd = this.#poll?.settlement;
    const isUnknown = job.status === "failed" && atEnd === undefined;
    const settlement = isUnknown ? movedBefore(this.#settlement) : (atEnd ?? this.#settlement);
    // Until the router says whether the money of a failed job is a credit, its price counts as unclear.
    this.#settings.usage.add(job, moneyOf(job, isUnknown ? undefined : settlement));
    return routerResult(job, this.#price, settlement, this.#plan.requireVerified);
  }

  #pollOf(jobId: string): Poll {
    this.#poll = new Poll(this.#connection, this.#settings, jobId);
    this.#since = performance.now();
    return this.#poll;
  }

  /**
   * Polls a last time if `error` is the timeout and the job is about to end. Reason: the router ends a job that no worker took at its first tick after 30 s.
   * On the clock of this machine that is a moment after a run of 30 s has timed out. So such a run would never learn that no worker took its job.
   * Rejects with `error` in all other cases, or with the failure of the job. An error that does not name the job gets the key of its commit, because the router
   * has the job.
   */
  async #orLast(error: unknown): Promise<RouterResult> {
    const poll = this.#poll;
    const isNamed = error instanceof ComputeRouterError && "jobId" in error;
    if (poll === undefined || error !== this.#expired) throw isNamed ? error : (this.#commit?.marked(error) ?? error);
    const end = this.#since + TIMING.claimWindow + TIMING.retryTick + TICK_MARGIN;
    if (end - performance.now() > LAST_POLL) throw error;
    const job = await poll.last(untilAborted(this.#plan.signal), end);
    if (job === null) throw poll.timedOut(this.#plan.timeout);
    this.#plan.onUpdate(job);
    return this.#resultOf(job);
  }

  async #toEnd(work: (limit: Limit) => Promise<RouterResult>): Promise<RouterResult> {
    return this.#within(work)
      .catch((error: unknown) => this.#orLast(error))
      .finally(() => this.#release());
  }

  async #within<T>(work: (limit: Limit) => Promise<T>): Promise<T> {
    return within(this.#plan.timeout, untilAborted(this.#plan.signal), () => this.#timedOut(), work);
  }

  /** The error of a timeout. It depends on how far the run has come. */
  #timedOut(): Error {
    const { timeout } = this.#plan;
    const silence = new RouterConnectionError(`the router did not accept the job within ${timeout} ms`, { reason: "timeout" });
    // The list of jobs may still be busy with an accepted job. Then there was no poll, but the caller must get the id: nobody else has it.
    const accepted = this.#committed === null ? undefined : new JobTimeoutError(this.#committed.jobId, timeout, null, undefined);
    this.#expired = this.#poll?.timedOut(timeout) ?? accepted ?? this.#commit?.marked(silence) ?? silence;
    return this.#expired;
  }
}
