import { LIMITS } from "../protocol/limits.ts";
import type { Job, JobType, Policy, PrivacyClass } from "../protocol/job.ts";
import { checkBoolean, checkChoice, checkFunction, checkHeaderText, checkInteger, checkNames } from "./check.ts";
import { InvalidOptionError } from "./errors.ts";
import type { Settings } from "./options.ts";
import { random128 } from "./random.ts";

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

/** Options of `stream`. Only the first two and `signal` count for a job that was committed before. */
export type StreamOptions = Pick<WaitOptions, "timeout" | "requireVerified"> & CommitOptions;

/** Options of `llm`. */
export type LlmOptions = RunOptions & {
  /** The most tokens of the answer, 1 to 32,768. */
  maxTokens?: number;
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
};

const REQUEST = ["signal"];
const COMMIT = [...REQUEST, "policy", "privacy", "timeout", "idempotencyKey"];
const WAIT = [...REQUEST, "timeout", "onUpdate", "requireVerified"];

/** The options that each call knows. */
export const OPTION_NAMES = {
  request: REQUEST,
  commit: COMMIT,
  wait: WAIT,
  run: [...COMMIT, ...WAIT],
  stream: [...COMMIT, "requireVerified"],
  get: [...REQUEST, "wait"],
  pairing: [...REQUEST, "interval"],
};

/** Checks the options of a call that runs, submits or waits. Throws InvalidOptionError. */
export function readRunOptions(options: RunOptions | undefined, names: readonly string[], jobType: JobType, settings: Settings): RunPlan {
  checkNames("call options", options, names);
  const onUpdate = checkFunction("onUpdate", options?.onUpdate) ? options?.onUpdate : undefined;
  return {
    policy: checkPolicy(options?.policy),
    privacy: checkChoice("privacy", options?.privacy, ["PUBLIC", "PRIVATE"]) ?? "PUBLIC",
    signal: checkSignal(options),
    timeout: checkInteger("timeout", options?.timeout, 1) ?? settings.timeout[jobType],
    idempotencyKey: checkHeaderText("idempotencyKey", options?.idempotencyKey, LIMITS.idempotencyKeyChars) ?? random128(),
    onUpdate: onUpdate ?? (() => {}),
    requireVerified: checkBoolean("requireVerified", options?.requireVerified) ?? settings.requireVerified,
  };
}

/** A policy; `AUTO` when left out. */
export function checkPolicy(policy: Policy | undefined): Policy {
  return checkChoice("policy", policy, ["FAST", "CHEAP", "AUTO"]) ?? "AUTO";
}

/** The signal of a call, if it has one. */
export function checkSignal(options: RequestOptions | undefined): AbortSignal | undefined {
  const signal: unknown = options?.signal;
  // Not instanceof: a polyfill's or another realm's signal serves as well.
  if (signal === undefined || (typeof signal === "object" && signal !== null && "aborted" in signal && "addEventListener" in signal)) {
    return options?.signal;
  }
  throw new InvalidOptionError("signal", "must be an AbortSignal");
}
