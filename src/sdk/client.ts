import type { Health, Quote } from "../protocol/rest.ts";
import type { Job, JobType, Policy, Receipt } from "../protocol/job.ts";
import { LIMITS, MAX_WAIT_SECONDS } from "../protocol/limits.ts";

import { type ReceiptCheck, verifyReceipt } from "../receipt/receipt.ts";
import { checkFunction, checkInteger, wrong } from "./check.ts";
import { Connection } from "./connection.ts";
import { fallBack, mayFallBack } from "./fallback.ts";
import type { JobEvent } from "./job-stream.ts";
import { checkJob, checkJobType, checkText, type JobInput } from "./job-input.ts";
import { type Limit, untilAborted } from "./retry.ts";
import { JobMap } from "./map.ts";
import { type ClientOptions, readOptions, type ClientSettings } from "./options.ts";
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
import { lookAt } from "./poll.ts";
import { askQuote, RouterRun } from "./run.ts";

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

import { isHealth, isUuid } from "./shapes.ts";
import { Trust } from "./trust.ts";

/** Jobs of a `map` that are under way at once: by default, and at most. */
const CONCURRENCY = { usual: 4, most: 100 };

/** A client of one router. Holds no connection and needs no closing. Throws InvalidOptionError for an option that cannot be used. */
export class ComputeRouter {
  /** Address of the router, without a last slash. */
  readonly baseUrl: string;
  /** Owner of this client's jobs and pairings; a secret. Give it to the next client to keep the pairings. */
  readonly userId: string;
  /** Pairing of this client's user with workers. */
  readonly trust: Trust;
  readonly #connection: Connection;
  readonly #settings: ClientSettings;

  constructor(options?: ClientOptions) {
    this.#settings = readOptions(options);
    this.#connection = new Connection(this.#settings.baseUrl, this.#settings.fetch);
    this.baseUrl = this.#settings.baseUrl;
    this.userId = this.#settings.userId;
    this.trust = new Trust(this.#connection, this.#settings);
  }

  /**
   * Runs a job to its end and checks the receipt of the result; `verified` says whether it holds.
   * Throws JobFailedError (NoEligibleWorkerError, NoTrustedWorkerError), JobTimeoutError, ReceiptError (with `requireVerified`),
   * PaymentRequiredError, PaymentLimitError, FallbackError (router and fallback failed), and the errors of every call: BadRequestError,
   * ConflictError, RateLimitedError, UnavailableError, RouterConnectionError, ProtocolError, InvalidOptionError.
   */
  async run(job: JobInput, options?: RunOptions): Promise<RunResult> {
    checkJob(job);
    return this.#run(job, readRunOptions(options, "run", job.job_type, this.#settings), this.#settings);
  }

  /** Text generation. Throws as `run` does, and UnexpectedOutputError, which has the result all the same, for a worker that gave no text. */
  async llm(prompt: string, options?: LlmOptions): Promise<RunResult<string>> {
    const { maxTokens, ...rest } = checkCall("llm", options) ?? {};
    checkText("prompt", prompt);
    checkInteger("maxTokens", maxTokens, 1, LIMITS.maxTokens);
    return withOutput(await this.run({ job_type: "LLM_INFER", prompt, ...(maxTokens !== undefined && { max_tokens: maxTokens }) }, rest), isText, "a text");
  }

  /**
   * Runs a list of jobs, at most `concurrency` of them at once, and resolves to how each ended, in the order of the list and in the form of
   * `Promise.allSettled`: one that fails stops no other. A 429 is waited out, however long the router says. `timeout` is for each job.
   * Throws InvalidOptionError, before anything is sent, for a list with a job that cannot be run; and the signal's reason, or what `onResult` throws.
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

  /** A short summary of a text, and the number of its words. */
  async summarize(text: string, options?: RunOptions): Promise<RunResult<Summary>> {
    checkText("text", text);
    return withOutput(await this.run({ job_type: "TASK", task_type: "summarize", input: text }, options), isSummary, "a summary and its word_count");
  }

  /** The sentiment of a text. */
  async classify(text: string, options?: RunOptions): Promise<RunResult<Classification>> {
    checkText("text", text);
    return withOutput(await this.run({ job_type: "TASK", task_type: "classify", input: text }, options), isClassification, "a sentiment and a confidence");
  }

  /** The JSON found in a text. */
  async extractJson(text: string, options?: RunOptions): Promise<RunResult<Extraction>> {
    checkText("text", text);
    return withOutput(await this.run({ job_type: "TASK", task_type: "extract_json", input: text }, options), isExtraction, "a list and its count");
  }

  /**
   * Runs a job as `run` does, or follows one by its id, and yields what happens: the text of an LLM as it is written, and the result at the end.
   * A connection that breaks is taken up again where it broke; where the router has no streams to give the job is polled. Never falls back.
   * Throws as `run` does, for a failed job when its end has come.
   */
  stream(job: JobInput | string, options?: StreamOptions): AsyncGenerator<JobEvent, void, undefined> {
    if (typeof job !== "string") checkJob(job);
    else if (!isUuid(job)) throw wrong("jobId", "must be a UUID", job);
    const plan = readRunOptions(options, "stream", typeof job === "string" ? "LLM_INFER" : job.job_type, this.#settings);
    return new RouterRun(this.#connection, this.#settings, plan).stream(job);
  }

  /** Commits a job and does not wait for its end. Never falls back. Throws as `run` does up to that point. */
  async submit(job: JobInput, options?: CommitOptions): Promise<{ jobId: string }> {
    checkJob(job);
    const plan = readRunOptions(options, "submit", job.job_type, this.#settings);
    const { jobId } = await new RouterRun(this.#connection, this.#settings, plan).submit(job);
    return { jobId };
  }

  /** Waits for the end of a job that was submitted, or whose run timed out. Resolves and throws as `run` does; never falls back. */
  async waitFor(jobId: string, options?: WaitOptions): Promise<RouterResult> {
    const plan = readRunOptions(options, "waitFor", "LLM_INFER", this.#settings);
    return new RouterRun(this.#connection, this.#settings, plan).resume(jobId);
  }

  /** A job as it is now, or, with `wait` (0 to 25 seconds), as soon as it has ended. Throws NotFoundError for an unknown one. */
  async get(jobId: string, options?: GetOptions): Promise<Job> {
    const given = checkCall("get", options);
    const wait = checkInteger("wait", given?.wait, 0, MAX_WAIT_SECONDS);
    return lookAt(this.#connection, this.#settings, jobId, limitOf(given), wait);
  }

  /** What a job would cost, and where it would be committed. */
  async quote(jobType: JobType, policy?: Policy, options?: RequestOptions): Promise<Quote> {
    const given = checkCall("quote", options);
    checkJobType("jobType", jobType);
    return askQuote(this.#connection, this.#settings, jobType, checkPolicy(policy), limitOf(given));
  }

  /** How the router is: its chain, and how many workers are online. */
  async health(options?: RequestOptions): Promise<Health> {
    const given = checkCall("health", options);
    const { requestTimeout, retry } = this.#settings;
    return this.#connection.get("/v1/health", requestTimeout, retry, limitOf(given), isHealth);
  }

  /** Checks a receipt against the `result` of its job. Works offline; does not know which job you meant, so compare `receipt.job_id`. */
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
