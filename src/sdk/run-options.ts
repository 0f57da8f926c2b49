// Options of each call: their types, defaults and checks.
import { LIMITS } from "../protocol/limits.ts";
import type { Job, JobType, Policy, PrivacyClass } from "../protocol/job.ts";
import { checkBoolean, checkChoice, checkFunction, checkHeaderText, checkInteger, checkNames, optionNames, wrong } from "./check.ts";
import { type ClientSettings, random128 } from "./options.ts";
import type { RunResult } from "./result.ts";

/** Who may run a job: anyone capable, or only workers that are paired with the client's user. */
export type Privacy = PrivacyClass;

/** Options of every call. */
export type RequestOptions = {
  /** Ends the call, which then rejects with the signal's reason. A job that was committed goes on. */
  signal?: AbortSignal;
};

/** Options of `submit`. */
export type CommitOptions = RequestOptions & {
  /** `FAST`, `CHEAP` or `AUTO` (default: FAST for LLM_INFER, CHEAP for TASK). */
  policy?: Policy;
  /** Default `PUBLIC`. */
  privacy?: Privacy;
  /** Milliseconds; default the client's. */
  timeout?: number;
  /** Names this job: the same job committed again with it by the same user within 24 h is the same job. Default: random. */
  idempotencyKey?: string;
};

/** Options of `waitFor`. */
export type WaitOptions = RequestOptions & {
  /** Milliseconds; default the client's, for LLM_INFER. */
  timeout?: number;
  /** Called with the job when its status has changed; what it throws ends the call. */
  onUpdate?: (job: Job) => void;
  /** Throw ReceiptError for a result without a valid receipt; default the client's. */
  requireVerified?: boolean;
};

/** Options of `run`. With a fallback, `timeout` is for the router and again for each provider. */
export type RunOptions = CommitOptions & WaitOptions;

/** Options of `get`. */
export type GetOptions = RequestOptions & {
  /** Seconds that the router may hold its answer for the end of the job, 0 to 25; default 0. */
  wait?: number;
};

/** Options of `stream`. Only the first two and `signal` count for a job that was committed before. */
export type StreamOptions = Pick<WaitOptions, "timeout" | "requireVerified"> & CommitOptions;

/** Options of `llm`. */
export type LlmOptions = RunOptions & {
  /** The most tokens of the answer, 1 to 32,768. */
  maxTokens?: number;
};

/** Options of `map`: those of `run` count for each job. */
export type MapOptions = Omit<RunOptions, "idempotencyKey" | "onUpdate"> & {
  /** Jobs under way at once, 1 to 100; default 4. More than the workers can begin within 30 s fail with `no_eligible_worker`. */
  concurrency?: number;
  /** Called when a job of the list has ended, with how, and with its place in the list; what it throws ends the call. */
  onResult?: (result: MapResult, index: number) => void;
};

/** How one job of a `map` ended, in the form of `Promise.allSettled`. */
export type MapResult = PromiseSettledResult<RunResult>;

/** Options of `trust.waitForWorker`. */
export type PairingWaitOptions = RequestOptions & {
  /** Milliseconds between two looks; default 10,000, because the router takes ten pairing requests a minute from an address. */
  interval?: number;
};

/** The options of a run, checked and complete. */
export type RunPlan = {
  policy: Policy;
  privacy: Privacy;
  signal: AbortSignal | undefined;
  timeout: number;
  idempotencyKey: string;
  onUpdate: (job: Job) => void;
  requireVerified: boolean;
  /** Whether the router may hold its answers to polls: one request says what many would ask. */
  held: boolean;
};

const COMMIT = { signal: 0, policy: 0, privacy: 0, timeout: 0, idempotencyKey: 0 } as const;
const RUN = { ...COMMIT, onUpdate: 0, requireVerified: 0 } as const;

/** The calls that take options, and which. */
const CALLS = {
  run: optionNames<RunOptions>(RUN),
  llm: optionNames<LlmOptions>({ maxTokens: 0, ...RUN }),
  map: optionNames<MapOptions>({ concurrency: 0, onResult: 0, signal: 0, policy: 0, privacy: 0, timeout: 0, requireVerified: 0 }),
  stream: optionNames<StreamOptions>({ ...COMMIT, requireVerified: 0 }),
  submit: optionNames<CommitOptions>(COMMIT),
  waitFor: optionNames<WaitOptions>({ signal: 0, timeout: 0, onUpdate: 0, requireVerified: 0 }),
  get: optionNames<GetOptions>({ signal: 0, wait: 0 }),
  "trust.waitForWorker": optionNames<PairingWaitOptions>({ signal: 0, interval: 0 }),
  quote: optionNames<RequestOptions>({ signal: 0 }),
  health: optionNames<RequestOptions>({ signal: 0 }),
  "trust.create": optionNames<RequestOptions>({ signal: 0 }),
  "trust.claim": optionNames<RequestOptions>({ signal: 0 }),
  "trust.list": optionNames<RequestOptions>({ signal: 0 }),
};

/** The options of a call, null among them counting as left out. Throws InvalidOptionError for one that the call does not know. */
export function checkCall<T extends object>(call: keyof typeof CALLS, options: T | undefined): T | undefined {
  return checkNames(`options of ${call}`, options, CALLS[call]);
}

/** Checks the options of a call that runs, submits or waits. Throws InvalidOptionError. */
export function readRunOptions(given: RunOptions | undefined, call: keyof typeof CALLS, jobType: JobType, settings: ClientSettings): RunPlan {
  const options = checkCall(call, given);
  const onUpdate = checkFunction("onUpdate", options?.onUpdate) ? options?.onUpdate : undefined;
  return {
    policy: checkPolicy(options?.policy),
    privacy: checkChoice("privacy", options?.privacy, ["PUBLIC", "PRIVATE"]) ?? "PUBLIC",
    signal: checkSignal(options),
    timeout: checkInteger("timeout", options?.timeout, 1) ?? settings.timeout[jobType],
    idempotencyKey: checkHeaderText("idempotencyKey", options?.idempotencyKey, LIMITS.idempotencyKeyChars) ?? random128(),
    onUpdate: onUpdate ?? (() => {}),
    requireVerified: checkBoolean("requireVerified", options?.requireVerified) ?? settings.requireVerified,
    held: false,
  };
}

/** A policy; `AUTO` when left out. */
export function checkPolicy(policy: Policy | null | undefined): Policy {
  return checkChoice("policy", policy ?? undefined, ["FAST", "CHEAP", "AUTO"]) ?? "AUTO";
}

/** The signal of a call, if it has one. */
export function checkSignal(options: RequestOptions | undefined): AbortSignal | undefined {
  const signal: unknown = options?.signal;
  // Not instanceof: a polyfill's or another realm's signal serves as well.
  if (signal === undefined || (typeof signal === "object" && signal !== null && "aborted" in signal && "addEventListener" in signal)) {
    return options?.signal;
  }
  throw wrong("signal", "must be an AbortSignal", signal);
}
