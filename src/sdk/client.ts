// ComputeRouter, the class that users call. It checks arguments and passes each call to run.ts, accepted-jobs.ts, trust.ts or the connection.
import type { Job, JobType, Policy, Receipt } from "../protocol/job.ts";
import type { ModelList } from "../protocol/models.ts";
import type { Health, Quote } from "../protocol/rest.ts";
import { MAX_WAIT_SECONDS } from "../protocol/times.ts";
import { type ReceiptCheck, verifyReceipt } from "../receipt/receipt.ts";
import { type Cancellation, cancelled, type JobHandle, type JobsPage, localJobs, readJob, readPart, routerJobs } from "./accepted-jobs.ts";
import { checkHeaderText, checkInteger, wrong } from "./check.ts";
import { Connection } from "./connection.ts";
import { InvalidOptionError } from "./errors.ts";
import { fallBack, mayFallBack } from "./fallback.ts";
import { type ChatMessage, checkJob, checkJobType, checkMessages, checkModel, checkText, type JobInput, takeAnswerOptions } from "./job-input.ts";
import { type JobStream, jobStream } from "./job-stream.ts";
import { keptToken, type Usage } from "./local-jobs.ts";
import { JobMap, readMap } from "./map.ts";
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
import { type Limit, untilAborted, untilDone } from "./retry.ts";
import {
  type CancelOptions,
  checkCall,
  checkPolicy,
  checkSignal,
  type CommitOptions,
  type GetOptions,
  type JobsOptions,
  type LlmOptions,
  type MapOptions,
  type MapResult,
  type QuoteOptions,
  readRunOptions,
  type RequestOptions,
  type RunOptions,
  type RunPlan,
  type StreamOptions,
  type WaitOptions,
} from "./run-options.ts";
import { askQuote, RouterRun } from "./run.ts";
import { isHealth, isModelList, isUuid } from "./shapes.ts";
import { Trust } from "./trust.ts";

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
   * @param options those of `run`; `model`, and others about the answer
   * @returns the result; `output` is the text
   * @throws UnexpectedOutputError if the worker returned no text; the error has the result. Otherwise as `run`
   * @example
   * const { output } = await router.llm("Tell me a story about a fox.", { maxTokens: 200 });
   */
  async llm(prompt: string, options?: LlmOptions): Promise<RunResult<string>> {
    const { members, rest } = takeAnswerOptions(checkCall("llm", options) ?? {});
    checkText("prompt", prompt);
    return withOutput(await this.run({ job_type: "LLM_INFER", prompt, ...members }, rest), isText, "a text");
  }

  /**
   * Lets an LLM continue a chat. Workers that know chats come first; another one gets the messages as one plain text.
   *
   * @param messages the chat so far, or one text of the user; at most 256 KiB of UTF-8 together
   * @param options those of `run`; `model`, and others about the answer
   * @returns the result; `output` is the text of the next message
   * @throws NoSuchModelError if no worker offers `model`; it names those that are online. Otherwise as `llm`
   * @example
   * const { output } = await router.chat([{ role: "user", content: "Who was Ada Lovelace?" }], { model: "auto", temperature: 0 });
   */
  async chat(messages: string | readonly ChatMessage[], options?: LlmOptions): Promise<RunResult<string>> {
    const { members, rest } = takeAnswerOptions(checkCall("chat", options) ?? {});
    const chat: readonly ChatMessage[] = typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
    if (typeof messages === "string") checkText("messages", messages);
    checkMessages("messages", chat);
    return withOutput(await this.run({ job_type: "LLM_INFER", messages: chat, ...members }, rest), isText, "a text");
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
    const { plan, runPlan, settings } = readMap(jobs, options, this.#settings);
    return new JobMap(jobs, plan, (job, key, signal) => {
      const own = runPlan(job, key, signal);
      const run = new RouterRun(this.#connection, settings, own);
      return { run: async () => this.#run(job, own, settings, run), resume: async (jobId) => run.resume(jobId, true) };
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
   * Runs a job as `run` does, or follows one by its id. What it returns has three forms, of which you may read any: `text`, the text of an LLM as it comes;
   * `result`, the verified result at the end; and the stream itself, which yields every event. If the connection breaks, the client opens it again after
   * the last event that arrived. If the router has no event stream, the client polls. It never uses a fallback.
   *
   * @param job the job, or the id of a job that was committed before
   * @param options those of `submit`, and `requireVerified`
   * @returns the stream; of the events `job` is the first and `done` the last. If you leave the loop early, the connection closes and the job continues
   * @throws as `run`: InvalidOptionError at the call, everything else from the loop and `result`; a failed job throws when it ends
   * @example
   * const stream = router.stream({ job_type: "LLM_INFER", prompt });
   * for await (const piece of stream.text) process.stdout.write(piece);
   * const { verified } = await stream.result;
   */
  stream(job: JobInput | string, options?: StreamOptions): JobStream {
    if (typeof job !== "string") checkJob(job);
    else if (!isUuid(job)) throw wrong("job", 'must be a job, as { job_type: "LLM_INFER", prompt: "hi" }, or the UUID of a committed job', job);
    const plan = readRunOptions(options, "stream", typeof job === "string" ? "LLM_INFER" : job.job_type, this.#settings);
    const run = new RouterRun(this.#connection, this.#settings, plan);
    return jobStream(run.stream(job), async (jobId) => run.resume(jobId, typeof job !== "string"));
  }

  /**
   * Commits a job and does not wait for its end. It never uses a fallback.
   *
   * @param job an LLM_INFER or a TASK
   * @param options policy, privacy, time limit and idempotency key
   * @returns the id of the job, for `waitFor`, `stream` or `get`, and the token with which `cancel` cancels it; both can be stored
   * @throws RouterConnectionError if the router did not accept the job within `timeout`; if the error has an `idempotencyKey`, the router may still have the
   *   job. JobTimeoutError if the router accepted it, but `jobList` did not keep it within `timeout`. Otherwise as `run`
   * @example
   * const { jobId } = await router.submit(job);
   * const result = await router.waitFor(jobId);
   */
  async submit(job: JobInput, options?: CommitOptions): Promise<JobHandle> {
    checkJob(job);
    const plan = readRunOptions(options, "submit", job.job_type, this.#settings);
    const { jobId, cancelToken } = await new RouterRun(this.#connection, this.#settings, plan).submit(job);
    return { jobId, cancelToken };
  }

  /**
   * Cancels a job. Its worker is told to stop, and its money goes by its state: nothing is charged if the job was waiting for a worker; a job that was paid
   * and not started is a credit; a job that a worker has started is charged. A job that has ended stays as it is.
   *
   * @param job a handle of `submit`, or the id of a job that this client or its `jobList` knows
   * @param options `cancelToken` if nothing else has it, and `signal`
   * @returns the job as it is now, whether it is cancelled, and what became of its money
   * @throws NotFoundError if the router does not know the job, or the token is not the job's
   * @throws InvalidOptionError if nothing has the token of the job
   * @example
   * const { cancelled, credit } = await router.cancel(await router.submit(job));
   */
  async cancel(job: string | JobHandle, options?: CancelOptions): Promise<Cancellation> {
    const given = checkCall("cancel", options);
    const { jobId, cancelToken: own }: { jobId: string; cancelToken?: string | null } = typeof job === "string" ? { jobId: job } : job;
    if (!isUuid(jobId)) throw wrong("job", "must be a handle of submit, or the UUID of a job", jobId);
    const limit = limitOf(given);
    const kept = async (): Promise<string | null> => untilDone(keptToken(this.#settings.jobList, this.baseUrl, jobId), limit);
    const token = checkHeaderText("cancelToken", given?.cancelToken ?? own ?? (await kept()) ?? undefined, 256);
    if (token === undefined) throw new InvalidOptionError("cancelToken", `must be given: this client does not know the token of job ${jobId}`);
    return cancelled(this.#connection, this.#settings, { jobId, cancelToken: token }, limit);
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
   * @param options `wait` is how long the router may wait for the end of the job before it answers, 0 to 25 seconds
   * @returns the job as REST returns it; its receipt is not checked (use {@link verifyReceipt})
   * @throws NotFoundError for an unknown job
   * @example
   * const { status, result } = await router.get(jobId, { wait: 10 });
   */
  async get(jobId: string, options?: GetOptions): Promise<Job> {
    const given = checkCall("get", options);
    const wait = checkInteger("wait", given?.wait, 0, MAX_WAIT_SECONDS);
    return readJob(this.#connection, this.#settings, jobId, limitOf(given), wait);
  }

  /**
   * Lists the jobs of this client's user, newest first: their ids, types, states and times. For a client with a `userToken` they are all jobs of the user;
   * for any other, those in its `jobList`, each looked up at the router.
   *
   * @param options `limit`, `before`, and `signal`
   * @returns the jobs, and `next`: the `before` of the older ones
   * @throws BadRequestError with the reason `user_token_required` if the token is not that of the user
   * @example
   * const { jobs, next } = await router.jobs({ limit: 50 });
   */
  async jobs(options?: JobsOptions): Promise<JobsPage> {
    const given = checkCall("jobs", options) ?? {};
    const list = this.#settings.userToken === undefined ? localJobs : routerJobs;
    return list(this.#connection, this.#settings, readPart(given), limitOf(given));
  }

  /**
   * Asks what a job would cost and where it would be committed.
   *
   * @param jobType `LLM_INFER` or `TASK`
   * @param policy default `AUTO`: FAST for LLM_INFER, CHEAP for TASK
   * @param options `model` of an LLM_INFER, and `signal`
   * @returns the quote; `price` is US dollars as `$0.010`; with `model`, `workers` is the number of connected workers that offer it
   * @example
   * const { price } = await router.quote("LLM_INFER");
   */
  async quote(jobType: JobType, policy?: Policy, options?: QuoteOptions): Promise<Quote> {
    const given = checkCall("quote", options);
    checkJobType("jobType", jobType);
    const asked = { jobType, policy: checkPolicy(policy), model: checkModel("model", given?.model) };
    return askQuote(this.#connection, this.#settings, asked, limitOf(given));
  }

  /**
   * Asks which models the connected workers offer.
   *
   * @param options `signal`
   * @returns the list in OpenAI's form, the models of most workers first, and `workers_online`, which counts workers without a named model too. Nobody
   *   checks what is behind a name
   * @example
   * const names = (await router.models()).data.map(({ id }) => id);
   */
  async models(options?: RequestOptions): Promise<ModelList> {
    const { requestTimeout, retry } = this.#settings;
    return this.#connection.get("/v1/models", requestTimeout, retry, limitOf(checkCall("models", options)), isModelList);
  }

  /**
   * Sums what the jobs of this client have used and cost so far.
   * @returns the jobs, tokens and US dollars of the jobs whose end this client has seen
   * @example
   * const { spent, completionTokens } = router.usage();
   */
  usage(): Usage {
    return this.#settings.usage.now;
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

  async #run(job: JobInput, plan: RunPlan, settings: ClientSettings, run = new RouterRun(this.#connection, settings, plan)): Promise<RunResult> {
    try {
      return await run.run(job);
    } catch (error) {
      if (!mayFallBack(error, plan, run.mayHaveEffect)) throw error;
      return fallBack(settings.fallback, job, plan, error);
    }
  }
}

function limitOf(options: RequestOptions | undefined): Limit {
  return untilAborted(checkSignal(options));
}
