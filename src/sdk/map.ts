// Runs many jobs at the same time: a pool of runs that waits for rate limits and keeps the order of the list.
import { checkFunction, checkInteger, wrong } from "./check.ts";
import { JobTimeoutError, RateLimitedError } from "./errors.ts";
import { checkJob, type JobInput } from "./job-input.ts";
import { type ClientSettings, random128 } from "./options.ts";
import type { RunResult } from "./result.ts";
import { backoff, type Limit, sleep, untilAborted } from "./retry.ts";
import { checkCall, checkSignal, type MapOptions, type MapResult, readRunOptions, type RunPlan } from "./run-options.ts";

/** The pause after a 429 without `Retry-After`, in milliseconds. */
const DEFAULT_PAUSE = 5_000;

/** All tries of one job of a map. They know its price and its payment from each other. */
type MapRun = {
  /** Runs the job. A repetition is the same job. */
  run: () => Promise<RunResult>;
  /** Follows the job after it was accepted. */
  resume: (jobId: string) => Promise<RunResult>;
};

/** Begins the tries of one job. */
type StartRun = (job: JobInput, idempotencyKey: string, signal: AbortSignal) => MapRun;

/** The settings of one map. */
type MapPlan = {
  concurrency: number;
  signal: AbortSignal | undefined;
  onResult: (result: MapResult, index: number) => void;
  /** The first of the pauses that the map makes even if the router asks for none, in milliseconds. */
  retryDelay: number;
};

/** Jobs of a `map` that run at the same time: the default and the maximum. */
const CONCURRENCY = { usual: 4, most: 100 };

/** What a map needs: its own settings, those of its runs, and the plan of each run. */
type CheckedMap = { plan: MapPlan; settings: ClientSettings; runPlan: (job: JobInput, idempotencyKey: string, signal: AbortSignal) => RunPlan };

/** Checks the jobs and the options of a map. Throws InvalidOptionError. */
export function readMap(jobs: readonly JobInput[], options: MapOptions | undefined, client: ClientSettings): CheckedMap {
  const { concurrency, onResult, ...rest } = checkCall("map", options) ?? {};
  if (!Array.isArray(jobs)) throw wrong("jobs", "must be an array of jobs", jobs);
  jobs.forEach((job: JobInput, index) => checkJob(job, `jobs[${index}]`));
  const settings = { ...client, retry: { ...client.retry, leaves429: true } };
  const usual = { ...readRunOptions(rest, "run", "TASK", settings), longPoll: true };
  return {
    settings,
    runPlan: (job, idempotencyKey, signal) => ({ ...usual, signal, idempotencyKey, timeout: rest.timeout ?? settings.timeout[job.job_type] }),
    plan: {
      concurrency: checkInteger("concurrency", concurrency, 1, CONCURRENCY.most) ?? CONCURRENCY.usual,
      signal: checkSignal(rest),
      onResult: checkFunction("onResult", onResult) ?? (() => {}),
      retryDelay: settings.retry.delay,
    },
  };
}

/** Runs a list of jobs with limited concurrency. A 429 pauses all of them for as long as the router asks, because the router counts them together. */
export class JobMap {
  readonly #jobs: readonly JobInput[];
  readonly #plan: MapPlan;
  readonly #start: StartRun;
  /** Aborts with the caller's signal, and with what `onResult` throws. */
  readonly #stop = new AbortController();
  /** Abort with it. Each lane has a signal of its own, because Node 20 warns of more than ten listeners on one. */
  readonly #lanes: AbortController[] = [];
  readonly #results: MapResult[] = [];
  #next = 0;
  /** When the router may be asked again, on the clock of performance.now(). */
  #pausedUntil = 0;

  constructor(jobs: readonly JobInput[], plan: MapPlan, start: StartRun) {
    this.#jobs = jobs;
    this.#plan = plan;
    this.#start = start;
  }

  /** How each job ended, in the order of the list. Rejects with the signal's reason or with what `onResult` throws; both end the jobs that run, too. */
  async results(): Promise<MapResult[]> {
    const { concurrency, signal } = this.#plan;
    const onAbort = (): void => this.#end(signal?.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const lanes = Array.from({ length: Math.min(concurrency, this.#jobs.length) }, () => this.#lane(this.#newLimit()));
      // Every lane must be over before this call returns.
      await Promise.allSettled(lanes);
      this.#stop.signal.throwIfAborted();
      return this.#results;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  #newLimit(): Limit {
    const lane = new AbortController();
    this.#lanes.push(lane);
    return untilAborted(lane.signal);
  }

  #end(reason: unknown): void {
    for (const one of [this.#stop, ...this.#lanes]) one.abort(reason);
  }

  /** Runs one job after the other until no job is left. */
  async #lane(limit: Limit): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const index = this.#next++;
      const job = this.#jobs[index];
      if (job === undefined) return;
      const result = await this.#settled(job, limit);
      if (result === null) return;
      this.#results[index] = result;
      try {
        this.#plan.onResult(result, index);
      } catch (error) {
        this.#end(error);
      }
    }
  }

  /** How a job ended; null if the map was stopped first. */
  async #settled(job: JobInput, limit: Limit): Promise<MapResult | null> {
    try {
      return { status: "fulfilled", value: await this.#patiently(job, limit) };
    } catch (reason) {
      return this.#stop.signal.aborted ? null : { status: "rejected", reason };
    }
  }

  /** Runs a job and waits after every 429. The waits do not count towards the job's timeout, which would otherwise end before the job starts. */
  async #patiently(job: JobInput, limit: Limit): Promise<RunResult> {
    const { signal } = limit;
    const own = this.#start(job, random128(), signal);
    let jobId: string | null = null;
    for (let refused = 0; ; refused++) {
      while (performance.now() < this.#pausedUntil) await sleep(this.#pausedUntil - performance.now(), limit);
      try {
        return await (jobId === null ? own.run() : own.resume(jobId));
      } catch (error) {
        const isLate = error instanceof JobTimeoutError;
        // The router refused the polls of an accepted job until its time was over. The job may have ended long ago.
        const refusal: unknown = isLate ? error.cause : error;
        if (signal.aborted || !(refusal instanceof RateLimitedError)) throw error;
        if (isLate) jobId = error.jobId;
        this.#pause(refusal, refused);
      }
    }
  }

  /** Pauses all lanes after a 429. A map never gives up, so it must not follow a `Retry-After` of 0, or of a time that is over, without a pause of its own. */
  #pause({ retryAfter }: RateLimitedError, refused: number): void {
    const pause = Math.max(retryAfter ?? DEFAULT_PAUSE, backoff(this.#plan.retryDelay, refused));
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + pause);
  }
}
