// One job on its way through the router: quote, commit, then poll or stream to the end.
import type { Job, JobType, Policy } from "../protocol/job.ts";
import { TIMING } from "../protocol/limits.ts";
import type { Quote } from "../protocol/rest.ts";
import { Commit, type Committed } from "./commit.ts";
import type { Connection } from "./connection.ts";
import { PaymentLimitError, RouterConnectionError } from "./errors.ts";
import { followJob, type JobEvent } from "./job-stream.ts";
import { commitBody, type JobInput } from "./job-input.ts";
import type { ClientSettings } from "./options.ts";
import { isWithin } from "./payment.ts";
import { Poll } from "./poll.ts";
import { routerResult, type RouterResult } from "./result.ts";
import { type Limit, openLimit, untilAborted, within } from "./retry.ts";
import type { RunPlan } from "./run-options.ts";
import { isQuote } from "./shapes.ts";

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
