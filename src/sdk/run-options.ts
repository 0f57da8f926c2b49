// The options of each call: types, defaults and checks.
import type { Job, JobType, Policy, PrivacyClass } from "../protocol/job.ts";
import { LIMITS } from "../protocol/limits.ts";
import { checkBoolean, checkChoice, checkFunction, checkHeaderText, checkInteger, checkNames, optionNames, wrong } from "./check.ts";
import type { ComputeRouterError } from "./errors.ts";
import type { AnswerOptions } from "./job-input.ts";
import { type ClientSettings, random128 } from "./options.ts";
import type { RunResult } from "./result.ts";

/** Who may run a job: any capable worker (`PUBLIC`), or only workers that are paired with the client's user (`PRIVATE`). */
export type Privacy = PrivacyClass;

/** Options of every call. */
export type RequestOptions = {
  /** Aborts the call, which then rejects with the signal's reason at once. If the call committed a job, see `cancelOnAbort`. */
  signal?: AbortSignal;
};

/** Options of the calls that commit a job and can be aborted. */
type AbortOptions = RequestOptions & {
  /**
   * True if an abort cancels the job, also one whose commit is under way; false if the job continues. Default: that of the client, true. The call does not
   * wait for that. A job whose worker has started is still charged.
   */
  cancelOnAbort?: boolean;
};

/** Options of `submit`. */
export type CommitOptions = AbortOptions & {
  /** `FAST`, `CHEAP` or `AUTO` (default: FAST for LLM_INFER, CHEAP for TASK). */
  policy?: Policy;
  /** Default `PUBLIC`. */
  privacy?: Privacy;
  /** Milliseconds; default: that of the client. */
  timeout?: number;
  /** If the same user commits the same job with the same key within 24 h, the router returns the first job. Default: random. */
  idempotencyKey?: string;
  /** Called before the client waits because of a 429, with the milliseconds until it tries again. If it throws, the call rejects with that error. */
  onRateLimit?: (wait: number) => void;
};

/** Options of `waitFor`. */
export type WaitOptions = RequestOptions & {
  /** Milliseconds; default: that of the client for LLM_INFER. */
  timeout?: number;
  /** Called with the job when its status has changed. If it throws, the call rejects with that error. */
  onUpdate?: (job: Job) => void;
  /** Throw ReceiptError for a result without a valid receipt; default: that of the client. */
  requireVerified?: boolean;
};

/** Options of `run`. With a fallback, `timeout` applies to the router and again to each provider. */
export type RunOptions = CommitOptions & WaitOptions;

/** Options of `get`. */
export type GetOptions = RequestOptions & {
  /** How many seconds the router may wait for the end of the job before it answers, 0 to 25; default 0. */
  wait?: number;
};

/** Options of `stream`. For a job that was committed before, only `timeout`, `requireVerified` and `signal` apply. */
export type StreamOptions = Pick<WaitOptions, "timeout" | "requireVerified"> & CommitOptions;

/** Options of `llm` and `chat`. */
export type LlmOptions = RunOptions & AnswerOptions;

/** Options of `quote`. */
export type QuoteOptions = RequestOptions & {
  /** The model of an LLM_INFER. The quote then says how many connected workers offer it. */
  model?: string;
};

/** Options of `jobs`. */
export type JobsOptions = RequestOptions & {
  /** The most jobs, 1 to 100; default 20. */
  limit?: number;
  /** Only jobs before this: the `next` of a page, or a time (ISO 8601 in UTC, with milliseconds). */
  before?: string;
};

/** Options of `cancel`. */
export type CancelOptions = RequestOptions & {
  /** The token of the job. Default: that of the handle, then that of the client's `jobList`. */
  cancelToken?: string;
};

/** Options of `map`. Those of `run` apply to each job. */
export type MapOptions = Omit<RunOptions, "idempotencyKey" | "onUpdate" | "onRateLimit"> & {
  /** How many jobs run at the same time, 1 to 100; default 4. A job that no worker can start within 30 s fails with `no_eligible_worker`. */
  concurrency?: number;
  /** Called when a job of the list has ended, with its result and its index. If it throws, the call rejects with that error. */
  onResult?: (result: MapResult, index: number) => void;
};

/** How one job of a `map` ended, in the form of `Promise.allSettled`. */
export type MapResult = PromiseSettledResult<RunResult>;

/** Options of `trust.waitForWorker`. */
export type PairingWaitOptions = RequestOptions & {
  /** Milliseconds between two requests; default 10,000, because the router accepts ten pairing requests per minute and address. */
  interval?: number;
  /**
   * Called after each request that has found no worker: with the error if the request failed and the wait goes on, otherwise with null. If it throws, the call
   * rejects with that error.
   */
  onPoll?: (outage: ComputeRouterError | null) => void;
};

/** The options of a run, checked and complete. */
export type RunPlan = {
  policy: Policy;
  privacy: Privacy;
  signal: AbortSignal | undefined;
  timeout: number;
  idempotencyKey: string;
  onUpdate: (job: Job) => void;
  onRateLimit: (wait: number) => void;
  requireVerified: boolean;
  /** True if the abort of `signal` cancels the job. */
  cancelOnAbort: boolean;
  /** True if each poll may wait at the router until the job ends, so that one request replaces many. */
  longPoll: boolean;
};

const COMMIT = { signal: 0, cancelOnAbort: 0, policy: 0, privacy: 0, timeout: 0, idempotencyKey: 0, onRateLimit: 0 } as const;
const RUN = { ...COMMIT, onUpdate: 0, requireVerified: 0 } as const;
const ANSWER = {
  maxTokens: 0,
  model: 0,
  temperature: 0,
  topP: 0,
  stop: 0,
  seed: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  responseFormat: 0,
} as const;

/** The calls that take options, with the names of these options. */
const CALLS = {
  run: optionNames<RunOptions>(RUN),
  llm: optionNames<LlmOptions>({ ...ANSWER, ...RUN }),
  chat: optionNames<LlmOptions>({ ...ANSWER, ...RUN }),
  map: optionNames<MapOptions>({ concurrency: 0, onResult: 0, signal: 0, cancelOnAbort: 0, policy: 0, privacy: 0, timeout: 0, requireVerified: 0 }),
  stream: optionNames<StreamOptions>({ ...COMMIT, requireVerified: 0 }),
  submit: optionNames<CommitOptions>(COMMIT),
  waitFor: optionNames<WaitOptions>({ signal: 0, timeout: 0, onUpdate: 0, requireVerified: 0 }),
  get: optionNames<GetOptions>({ signal: 0, wait: 0 }),
  cancel: optionNames<CancelOptions>({ signal: 0, cancelToken: 0 }),
  jobs: optionNames<JobsOptions>({ signal: 0, limit: 0, before: 0 }),
  models: optionNames<RequestOptions>({ signal: 0 }),
  "trust.waitForWorker": optionNames<PairingWaitOptions>({ signal: 0, interval: 0, onPoll: 0 }),
  quote: optionNames<QuoteOptions>({ signal: 0, model: 0 }),
  health: optionNames<RequestOptions>({ signal: 0 }),
  "trust.create": optionNames<RequestOptions>({ signal: 0 }),
  "trust.claim": optionNames<RequestOptions>({ signal: 0 }),
  "trust.list": optionNames<RequestOptions>({ signal: 0 }),
};

/** Checks the option names of a call; null counts as left out. Throws InvalidOptionError for an unknown option. */
export function checkCall<T extends object>(call: keyof typeof CALLS, options: T | undefined): T | undefined {
  return checkNames(`options of ${call}`, options, CALLS[call]);
}

/** Checks the options of a call that runs, submits or waits. Throws InvalidOptionError. */
export function readRunOptions(given: RunOptions | undefined, call: keyof typeof CALLS, jobType: JobType, settings: ClientSettings): RunPlan {
  const options = checkCall(call, given);
  return {
    policy: checkPolicy(options?.policy),
    privacy: checkChoice("privacy", options?.privacy, ["PUBLIC", "PRIVATE"]) ?? "PUBLIC",
    signal: checkSignal(options),
    timeout: checkInteger("timeout", options?.timeout, 1) ?? settings.timeout[jobType],
    idempotencyKey: checkHeaderText("idempotencyKey", options?.idempotencyKey, LIMITS.idempotencyKeyChars) ?? random128(),
    onUpdate: checkFunction("onUpdate", options?.onUpdate) ?? (() => {}),
    onRateLimit: checkFunction("onRateLimit", options?.onRateLimit) ?? (() => {}),
    requireVerified: checkBoolean("requireVerified", options?.requireVerified) ?? settings.requireVerified,
    cancelOnAbort: checkBoolean("cancelOnAbort", options?.cancelOnAbort) ?? settings.cancelOnAbort,
    longPoll: false,
  };
}

/** A policy; `AUTO` when left out. */
export function checkPolicy(policy: Policy | null | undefined): Policy {
  return checkChoice("policy", policy ?? undefined, ["FAST", "CHEAP", "AUTO"]) ?? "AUTO";
}

/** The signal of a call, if it has one. */
export function checkSignal(options: RequestOptions | undefined): AbortSignal | undefined {
  const signal: unknown = options?.signal;
  // Not instanceof, because a signal of a polyfill or of another realm works too.
  if (signal === undefined || (typeof signal === "object" && signal !== null && "aborted" in signal && "addEventListener" in signal)) {
    return options?.signal;
  }
  throw wrong("signal", "must be an AbortSignal", signal);
}
