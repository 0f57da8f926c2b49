import type { JobType, Policy } from "../protocol/job.ts";
import type { Quote } from "../protocol/quote.ts";
import { Commit, type Committed } from "./commit.ts";
import type { Connection } from "./connection.ts";
import { PaymentLimitError, RouterConnectionError } from "./errors.ts";
import { followJob } from "./follow.ts";
import type { JobEvent } from "./job-event.ts";
import { commitBody, type JobInput } from "./job-input.ts";
import { type Limit, openLimit, untilAborted, within } from "./limit.ts";
import type { Settings } from "./options.ts";
import { Poll } from "./poll.ts";
import { isWithin } from "./price.ts";
import type { RunPlan } from "./run-options.ts";
import { routerResult, type RouterResult } from "./run-result.ts";
import { isQuote } from "./shapes.ts";

/** Asks for a quote. One for another policy than asked is malformed: it would send the job to the dearer endpoint. */
export async function askQuote(connection: Connection, settings: Settings, jobType: JobType, policy: Policy, limit: Limit): Promise<Quote> {
  const path = `/v1/quote?job_type=${jobType}&policy=${policy}`;
  const isAsked = (body: unknown): body is Quote => isQuote(body) && (policy === "AUTO" || body.policy_resolved === policy);
  return connection.get(path, settings.requestTimeout, settings.retry, limit, isAsked);
}

/** One job on its way through the router: quote, commit, poll. */
export class RouterRun {
  readonly #connection: Connection;
  readonly #settings: Settings;
  readonly #plan: RunPlan;
  #commit: Commit | undefined;
  #poll: Poll | undefined;

  constructor(connection: Connection, settings: Settings, plan: RunPlan) {
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
    return this.#within(async (limit) => {
      const { jobId, price } = await this.#send(job, limit);
      return this.#follow(jobId, price, limit);
    });
  }

  /** The first half: until the router has the job. */
  async submit(job: JobInput): Promise<Committed> {
    return this.#within((limit) => this.#send(job, limit));
  }

  /** The second half, for a job that was submitted before. */
  async resume(jobId: string): Promise<RouterResult> {
    return this.#within((limit) => this.#follow(jobId, null, limit));
  }

  /** The whole way, or the second half for the id of a job, told as it goes. */
  async *stream(job: JobInput | string): AsyncGenerator<JobEvent, void, undefined> {
    const { limit, release } = openLimit(this.#plan.timeout, untilAborted(this.#plan.signal), () => this.#timedOut());
    try {
      const { jobId, price } = typeof job === "string" ? { jobId: job, price: null } : await this.#send(job, limit);
      yield { type: "job", jobId, price };
      const poll = new Poll(jobId);
      this.#poll = poll;
      for await (const event of followJob(this.#connection, this.#settings, poll, limit)) {
        yield event.type === "done" ? { type: "done", result: routerResult(event.job, price, this.#plan.requireVerified) } : event;
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
    return commit.send(limit);
  }

  async #follow(jobId: string, price: string | null, limit: Limit): Promise<RouterResult> {
    const poll = new Poll(jobId);
    this.#poll = poll;
    const changes = poll.changes(this.#connection, this.#settings, limit);
    let step = await changes.next();
    for (; step.done !== true; step = await changes.next()) this.#plan.onUpdate(step.value);
    return routerResult(step.value, price, this.#plan.requireVerified);
  }

  async #within<T>(work: (limit: Limit) => Promise<T>): Promise<T> {
    return within(this.#plan.timeout, untilAborted(this.#plan.signal), () => this.#timedOut(), work);
  }

  /** What a timeout means depends on how far the run has come. */
  #timedOut(): Error {
    const { timeout } = this.#plan;
    if (this.#poll !== undefined) return this.#poll.timedOut(timeout);
    const silence = new RouterConnectionError(`the router accepted no job within ${timeout} ms`, { reason: "timeout" });
    return this.#commit?.marked(silence) ?? silence;
  }
}
