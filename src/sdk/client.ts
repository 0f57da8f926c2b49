// ComputeRouter, the class that users call. It checks arguments and passes each call to the run, the poll or the connection.
import type { Job, JobType, Policy, Receipt } from "../protocol/job.ts";
import { LIMITS, MAX_WAIT_SECONDS } from "../protocol/limits.ts";
import type { Health, Quote } from "../protocol/rest.ts";
import { type ReceiptCheck, verifyReceipt } from "../receipt/receipt.ts";
import { checkFunction, checkInteger, wrong } from "./check.ts";
import { Connection } from "./connection.ts";
import { fallBack, mayFallBack } from "./fallback.ts";
import { checkJob, checkJobType, checkText, type JobInput } from "./job-input.ts";
import type { JobEvent } from "./job-stream.ts";
import { JobMap } from "./map.ts";
import { type ClientOptions, readOptions, type ClientSettings } from "./options.ts";
import { lookAt } from "./poll.ts";
import {
  type Classification,
  type Extraction,
  isClassification,
  isExtraction,
  isSummary,
  isText,
  type RouterResult,
  type RunResult,
  type Summary,
  withOutput,
} from "./result.ts";
import { type Limit, untilAborted } from "./retry.ts";
import {
  checkCall,
  checkPolicy,
  checkSignal,
  type CommitOptions,
  type GetOptions,
  type LlmOptions,
  type MapOptions,
  type MapResult,
  readRunOptions,
  type RequestOptions,
  type RunOptions,
  type RunPlan,
  type StreamOptions,
  type WaitOptions,
} from "./run-options.ts";
import { askQuote, RouterRun } from "./run.ts";
import { isHealth, isUuid } from "./shapes.ts";
import { Trust } from "./trust.ts";

/** Jobs of a `map` that run at the same time: the default and the maximum. */
const CONCURRENCY = { usual: 4, most: 100 };

/**
 * A client of one router. It keeps no connection open, so you need not close it. Every call can throw InvalidOptionError, before the client sends anything;
 * BadRequestError, RateLimitedError, UnavailableError, RouterConnectionError or ProtocolError, depending on the router's answer; and the reason of an aborted
 * `signal`.
 *
 * @example
 * const router = new ComputeRouter({ baseUrl: "http://127.0.0.1:4010" });
 * const { output, verified } = await router.classify("I love it");
 */
export class ComputeRouter {
  /** Address of the router, without a final slash. */
  readonly baseUrl: string;
  /** Owner of this client's jobs and pairings; a secret. Pass it to the next client to keep the pairings. */
  readonly userId: string;
  /** Pairing of this client's user with workers. */
  readonly trust: Trust;
  readonly #connection: Connection;
  readonly #settings: ClientSettings;

  /**
   * @param options all are optional
   * @throws InvalidOptionError for an option that does not exist or cannot be used
   */
  constructor(options?: ClientOptions) {
    this.#settings = readOptions(options);
    this.#connection = new Connection(this.#settings.baseUrl, this.#settings.fetch);
    this.baseUrl = this.#settings.baseUrl;
    this.userId = this.#settings.userId;
    this.trust = new Trust(this.#connection, this.#settings);
  }

  /**
   * Runs a job to its end and checks the receipt of the result.
   *
   * @param job an LLM_INFER or a TASK
   * @param options policy, privacy, time limit, and more; by default those of the client
   * @returns the result; `verified` is true if its receipt is valid, and `source` tells whether the router or a fallback produced it
   * @throws JobFailedError, or its subclasses NoEligibleWorkerError and NoTrustedWorkerError, if the job ended without a result
   * @throws JobTimeoutError if the job did not end in time; it continues, and `waitFor(error.jobId)` waits for it again
   * @throws ReceiptError if `requireVerified` is set and the receipt is not valid
   * @throws PaymentRequiredError if the job must be paid for and was not; PaymentLimitError if it costs more than `maxPrice`
   * @throws ConflictError if the idempotency key was used for another job
   * @throws FallbackError if the router could not be reached and every fallback failed too
   * @example
   * const result = await router.run({ job_type: "TASK", task_type: "summarize", input: text }, { policy: "FAST", requireVerified: true });
   */
  async run(job: JobInput, options?: RunOptions): Promise<RunResult> {
    checkJob(job);
    return this.#run(job, readRunOptions(options, "run", job.job_type, this.#settings), this.#settings);
  }

  /**
   * Generates text with an LLM.
   *
   * @param prompt at most 256 KiB of UTF-8
   * @param options those of `run`, and `maxTokens`
   * @returns the result; `output` is the text
   * @throws UnexpectedOutputError if the worker returned no text; the error has the result. Otherwise as `run`
   * @example
   * const { output } = await router.llm("Tell me a story about a fox.", { maxTokens: 200 });
   */
  async llm(prompt: string, options?: LlmOptions): Promise<RunResult<string>> {
    const { maxTokens, ...rest } = checkCall("llm", options) ?? {};
    checkText("prompt", prompt);
    checkInteger("maxTokens", maxTokens, 1, LIMITS.maxTokens);
    return withOutput(await this.run({ job_type: "LLM_INFER", prompt, ...(maxTokens !== undefined && { max_tokens: maxTokens }) }, rest), isText, "a text");
  }

  /**
   * Runs a list of jobs, at most `concurrency` of them at the same time. A failed job does not stop the others. After a 429 the client waits as long as the
   * router asks, and then continues.
   *
   * @param jobs the jobs; all are checked before the first is sent
   * @param options those of `run`, for each job (also `timeout`); `concurrency`; and `onResult`, which is called when a job ends
   * @returns how each job ended, in the order of the list and in the form of `Promise.allSettled`
   * @throws InvalidOptionError if the list has an invalid job; the reason of the signal; what `onResult` throws
   * @example
   * const results = await router.map(texts.map((input) => ({ job_type: "TASK", task_type: "classify", input })), { concurrency: 8 });
   */
  async map(jobs: readonly JobInput[], options?: MapOptions): Promise<MapResult[]> {
    const { concurrency, onResult, ...rest } = checkCall("map", options) ?? {};
    if (!Array.isArray(jobs)) throw wrong("jobs", "must be an array of jobs", jobs);
    jobs.forEach((job: JobInput, index) => checkJob(job, `jobs[${index}]`));
    const settings = { ...this.#settings, retry: { ...this.#settings.retry, leaves429: true } };
    const usual = { ...readRunOptions(rest, "run", "TASK", settings), held: true };
    const planOf = (job: JobInput, signal: AbortSignal, idempotencyKey: string): RunPlan => {
      return { ...usual, signal, idempotencyKey, timeout: rest.timeout ?? settings.timeout[job.job_type] };
    };
    const plan = {
      concurrency: checkInteger("concurrency", concurrency, 1, CONCURRENCY.most) ?? CONCURRENCY.usual,
      signal: checkSignal(rest),
      onResult: (checkFunction("onResult", onResult) ? onResult : undefined) ?? (() => {}),
    };
    return new JobMap(jobs, plan, {
      run: async (job, key, signal) => this.#run(job, planOf(job, signal, key), settings),
      resume: async (jobId, job, key, signal) => new RouterRun(this.#connection, settings, planOf(job, signal, key)).resume(jobId),
    }).results();
  }

  /**
   * Summarizes a text and counts its words.
   *
   * @param text at most 256 KiB of UTF-8
   * @param options those of `run`
   * @returns the result; `output` is `{ summary, word_count }`
   * @throws UnexpectedOutputError for an output of another shape; the error has the result. Otherwise as `run`
   * @example
   * const { output } = await router.summarize(article);
   * console.log(output.summary);
   */
  async summarize(text: string, options?: RunOptions): Promise<RunResult<Summary>> {
    checkText("text", text);
    return withOutput(await this.run({ job_type: "TASK", task_type: "summarize", input: text }, options), isSummary, "a summary and its word_count");
  }

  /**
   * Classifies the sentiment of a text.
   *
   * @param text at most 256 KiB of UTF-8
   * @param options those of `run`
   * @returns the result; `output` is `{ sentiment, confidence }`, the confidence from 0 to 1
   * @throws UnexpectedOutputError for an output of another shape; the error has the result. Otherwise as `run`
   * @example
   * const { output } = await router.classify("I love it");
   * console.log(output.sentiment, output.confidence);
   */
  async classify(text: string, options?: RunOptions): Promise<RunResult<Classification>> {
    checkText("text", text);
    return withOutput(await this.run({ job_type: "TASK", task_type: "classify", input: text }, options), isClassification, "a sentiment and a confidence");
  }

  /**
   * Finds the JSON in a text.
   *
   * @param text at most 256 KiB of UTF-8
   * @param options those of `run`
   * @returns the result; `output` is `{ extracted, count }`
   * @throws UnexpectedOutputError for an output of another shape; the error has the result. Otherwise as `run`
   * @example
   * const { output } = await router.extractJson('The answer is {"a": 1}.');
   * console.log(output.extracted); // [{ a: 1 }]
   */
  async extractJson(text: string, options?: RunOptions): Promise<RunResult<Extraction>> {
    checkText("text", text);
    return withOutput(await this.run({ job_type: "TASK", task_type: "extract_json", input: text }, options), isExtraction, "a list and its count");
  }

  /**
   * Runs a job as `run` does, or follows one by its id, and yields its events: the text of an LLM while it is generated, and the result at the end.
   * If the connection breaks, the client opens it again after the last event that arrived. If the router has no event stream, the client polls. It never
   * uses a fallback.
   *
   * @param job the job, or the id of a job that was committed before
   * @param options those of `submit`, and `requireVerified`
   * @returns the events; `job` is the first and `done` the last. If you leave the loop early, the connection closes and the job continues
   * @throws as `run`: InvalidOptionError at the call, everything else from the loop; a failed job throws when it ends
   * @example
   * for await (const event of router.stream({ job_type: "LLM_INFER", prompt })) {
   *   if (event.type === "delta") process.stdout.write(event.delta);
   * }
   */
  stream(job: JobInput | string, options?: StreamOptions): AsyncGenerator<JobEvent, void, undefined> {
    if (typeof job !== "string") checkJob(job);
    else if (!isUuid(job)) throw wrong("job", 'must be a job, as { job_type: "LLM_INFER", prompt: "hi" }, or the UUID of a committed job', job);
    const plan = readRunOptions(options, "stream", typeof job === "string" ? "LLM_INFER" : job.job_type, this.#settings);
    return new RouterRun(this.#connection, this.#settings, plan).stream(job);
  }

  /**
   * Commits a job and does not wait for its end. It never uses a fallback.
   *
   * @param job an LLM_INFER or a TASK
   * @param options policy, privacy, time limit and idempotency key
   * @returns the id of the job, for `waitFor`, `stream` or `get`
   * @throws RouterConnectionError if the router did not accept the job within `timeout`; if the error has an `idempotencyKey`, the router may still have the
   *   job. Otherwise as `run`
   * @example
   * const { jobId } = await router.submit(job);
   * const result = await router.waitFor(jobId);
   */
  async submit(job: JobInput, options?: CommitOptions): Promise<{ jobId: string }> {
    checkJob(job);
    const plan = readRunOptions(options, "submit", job.job_type, this.#settings);
    const { jobId } = await new RouterRun(this.#connection, this.#settings, plan).submit(job);
    return { jobId };
  }

  /**
   * Waits for the end of a job that was submitted, or whose run timed out. It never uses a fallback.
   *
   * @param jobId UUID of the job
   * @param options time limit, `onUpdate` and `requireVerified`
   * @returns the result, as `run` returns it; `price` is null, because there was no quote
   * @throws NotFoundError for an unknown job. Otherwise as `run`
   * @example
   * const result = await router.waitFor(jobId, { onUpdate: (job) => console.log(job.status) });
   */
  async waitFor(jobId: string, options?: WaitOptions): Promise<RouterResult> {
    const plan = readRunOptions(options, "waitFor", "LLM_INFER", this.#settings);
    return new RouterRun(this.#connection, this.#settings, plan).resume(jobId);
  }

  /**
   * Reads a job as it is now. With `wait` the router answers as soon as the job has ended.
   *
   * @param jobId UUID of the job
   * @param options `wait` is how long the router may hold its answer, 0 to 25 seconds
   * @returns the job as REST returns it; its receipt is not checked (use {@link verifyReceipt})
   * @throws NotFoundError for an unknown job
   * @example
   * const { status, result } = await router.get(jobId, { wait: 10 });
   */
  async get(jobId: string, options?: GetOptions): Promise<Job> {
    const given = checkCall("get", options);
    const wait = checkInteger("wait", given?.wait, 0, MAX_WAIT_SECONDS);
    return (await lookAt(this.#connection, this.#settings, jobId, limitOf(given), wait)).job;
  }

  /**
   * Asks what a job would cost and where it would be committed.
   *
   * @param jobType `LLM_INFER` or `TASK`
   * @param policy default `AUTO`: FAST for LLM_INFER, CHEAP for TASK
   * @param options `signal`
   * @returns the quote; `price` is US dollars as `$0.010`
   * @example
   * const { price } = await router.quote("LLM_INFER");
   */
  async quote(jobType: JobType, policy?: Policy, options?: RequestOptions): Promise<Quote> {
    const given = checkCall("quote", options);
    checkJobType("jobType", jobType);
    return askQuote(this.#connection, this.#settings, jobType, checkPolicy(policy), limitOf(given));
  }

  /**
   * Asks for the state of the router.
   *
   * @param options `signal`
   * @returns its chain, the number of workers that are online, and its time
   * @example
   * const { workers_online } = await router.health();
   */
  async health(options?: RequestOptions): Promise<Health> {
    const given = checkCall("health", options);
    const { requestTimeout, retry } = this.#settings;
    return this.#connection.get("/v1/health", requestTimeout, retry, limitOf(given), isHealth);
  }

  /**
   * Checks a receipt against the `result` of its job. It works offline. It does not know which job you asked for, so compare `receipt.job_id`.
   *
   * @param receipt `receipt` of the job
   * @param result `result` of the job
   * @returns `{ ok: true }`, or `{ ok: false, reason }` with `invalid_key`, `hash_mismatch` or `bad_signature`
   * @example
   * const { receipt, result } = await router.get(jobId);
   * if (receipt !== null) console.log(router.verifyReceipt(receipt, result));
   */
  verifyReceipt(receipt: Receipt, result: unknown): ReceiptCheck {
    return verifyReceipt(receipt, result);
  }

  async #run(job: JobInput, plan: RunPlan, settings: ClientSettings): Promise<RunResult> {
    const run = new RouterRun(this.#connection, settings, plan);
    try {
      return await run.run(job);
    } catch (error) {
      if (!mayFallBack(error, plan, run.mayCount)) throw error;
      return fallBack(settings.fallback, job, plan, error);
    }
  }
}

function limitOf(options: RequestOptions | undefined): Limit {
  return untilAborted(checkSignal(options));
}
