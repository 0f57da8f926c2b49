// The options of a client: types, defaults and checks. On a job's way: every step on the client's side.
import { isJsonObject } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import { CLIENT } from "../protocol/times.ts";
import { toHex } from "../receipt/bytes.ts";
import {
  checkBaseUrl,
  checkBoolean,
  checkChoice,
  checkFunction,
  checkHeaderText,
  checkInteger,
  checkNames,
  environmentVariable,
  optionNames,
  wrong,
} from "./check.ts";
import { InvalidOptionError } from "./errors.ts";
import type { JobInput } from "./job-input.ts";
import { type JobList, readJobList, UsageSum } from "./local-jobs.ts";
import { type PaymentHook, readMaxPrice } from "./payment.ts";
import type { RetryRule } from "./retry.ts";

/** The two instances of a router. They differ only in chain and payment. */
export type Instance = "evm" | "svm";

/**
 * A hosted third party that can run some jobs if the router is unreachable. It sees the job unencrypted.
 *
 * @example
 * const provider: FallbackProvider = {
 *   name: "local",
 *   supports: (job) => job.job_type === "TASK" && job.task_type === "classify",
 *   run: async () => ({ sentiment: "neutral", confidence: 0 }),
 * };
 */
export type FallbackProvider = {
  /** Appears as `source: "fallback:<name>"`. */
  name: string;
  /** True if this provider can run the job. */
  supports: (job: JobInput) => boolean;
  /** Returns the output: a text for LLM_INFER, the task's object for TASK. It must stop when the signal aborts. */
  run: (job: JobInput, signal: AbortSignal) => Promise<string | Record<string, unknown>>;
};

/**
 * Options of a client. All are optional, and null counts as left out. Times are in milliseconds.
 *
 * @example
 * const options: ClientOptions = { baseUrl: "https://router.example", userId, maxPrice: "$0.01", requireVerified: true };
 */
export type ClientOptions = {
  /**
   * Address of the router: http, https, ws or wss, with or without `/v1`. Default: environment variable `ROUTER_BASE_URL`, then the local address of
   * `instance`.
   */
  baseUrl?: string;
  /** `evm` (default, http://127.0.0.1:4010) or `svm` (http://127.0.0.1:4020). It only selects the default of `baseUrl`. */
  instance?: Instance;
  /** Owner of jobs and pairings; a secret, because everyone who knows it can use the pairings. Default: 128 random bits, new for every client. */
  userId?: string;
  /** Proof of `userId`, sent with pairing and PRIVATE jobs only (`X-User-Token`). */
  userToken?: string;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
  /** Pause between two polls; default 500. */
  pollInterval?: number;
  /** How long a run may take; default 30,000 for TASK and 60,000 for LLM_INFER. */
  timeout?: number;
  /** How long one request may take; default 10,000, and 30,000 for a commit, which may wait until a payment settles. */
  requestTimeout?: number;
  /** How often a request is retried after no answer, 429, 502, 503 or 504; default 2. */
  maxRetries?: number;
  /** The pause before the first retry; default 500. It doubles with each retry, up to 16 times. A longer `Retry-After` has priority. */
  retryDelay?: number;
  /** Providers that are asked in order if the router is unreachable; never for PRIVATE jobs. */
  fallback?: readonly FallbackProvider[];
  /** Pays if the router asks for money. Without it, a 402 becomes a PaymentRequiredError. */
  payment?: PaymentHook;
  /** The most that a job may cost, in US dollars: `0.01` or `"$0.01"`. Higher quotes and offers throw PaymentLimitError. Default: no limit. */
  maxPrice?: number | string;
  /** Cancel the job when the `signal` of its call aborts; default true. */
  cancelOnAbort?: boolean;
  /** Where the client keeps the jobs that it committed, with the tokens that cancel them; default: the last 1,000 in memory. */
  jobList?: JobList;
  /** Throw ReceiptError for a result without a valid receipt. This also excludes every fallback. Default false. */
  requireVerified?: boolean;
};

/** The options of a client, checked and complete, and the sum of what its jobs use. */
export type ClientSettings = {
  baseUrl: string;
  userId: string;
  userToken: string | undefined;
  fetch: typeof fetch;
  pollInterval: number;
  timeout: { LLM_INFER: number; TASK: number };
  requestTimeout: number;
  commitTimeout: number;
  retry: RetryRule;
  fallback: readonly FallbackProvider[];
  payment: PaymentHook | undefined;
  maxPrice: number | undefined;
  cancelOnAbort: boolean;
  jobList: JobList;
  usage: UsageSum;
  requireVerified: boolean;
};

const NAMES = optionNames<ClientOptions>({
  baseUrl: 0,
  instance: 0,
  userId: 0,
  userToken: 0,
  fetch: 0,
  pollInterval: 0,
  timeout: 0,
  requestTimeout: 0,
  maxRetries: 0,
  retryDelay: 0,
  fallback: 0,
  payment: 0,
  maxPrice: 0,
  cancelOnAbort: 0,
  jobList: 0,
  requireVerified: 0,
});

const LOCAL = { evm: "http://127.0.0.1:4010", svm: "http://127.0.0.1:4020" } as const;
const REQUEST_TIMEOUT = 10_000;
const COMMIT_TIMEOUT = 30_000;

/** Checks a client's options and fills in the rest. Throws InvalidOptionError. */
export function readOptions(given?: ClientOptions): ClientSettings {
  const options = checkNames("options of ComputeRouter", given, NAMES) ?? {};
  checkFunction("fetch", options.fetch);
  if ((options.fetch ?? globalThis.fetch) === undefined) throw new InvalidOptionError("fetch", "must be set, because there is no global fetch");
  checkFunction("payment", options.payment);
  const timeout = checkInteger("timeout", options.timeout, 1);
  const requestTimeout = checkInteger("requestTimeout", options.requestTimeout, 1);
  return {
    baseUrl: readBaseUrl(options),
    userId: readUserId(options.userId),
    userToken: checkHeaderText("userToken", options.userToken, LIMITS.userTokenChars),
    fetch: options.fetch ?? globalThis.fetch,
    pollInterval: checkInteger("pollInterval", options.pollInterval, 1) ?? CLIENT.pollInterval,
    timeout: { LLM_INFER: timeout ?? CLIENT.timeoutLlm, TASK: timeout ?? CLIENT.timeoutTask },
    requestTimeout: requestTimeout ?? REQUEST_TIMEOUT,
    commitTimeout: requestTimeout ?? COMMIT_TIMEOUT,
    retry: {
      retries: checkInteger("maxRetries", options.maxRetries, 0, 20) ?? 2,
      delay: checkInteger("retryDelay", options.retryDelay, 0, 60_000) ?? 500,
    },
    fallback: checkProviders(options.fallback ?? []),
    payment: options.payment,
    maxPrice: options.maxPrice === undefined ? undefined : readMaxPrice(options.maxPrice),
    cancelOnAbort: checkBoolean("cancelOnAbort", options.cancelOnAbort) ?? true,
    jobList: readJobList(options.jobList),
    usage: new UsageSum(),
    requireVerified: checkBoolean("requireVerified", options.requireVerified) ?? false,
  };
}

function readBaseUrl({ baseUrl, instance }: ClientOptions): string {
  const local = LOCAL[checkChoice("instance", instance, ["evm", "svm"]) ?? "evm"];
  const variable = environmentVariable("ROUTER_BASE_URL");
  const [name, value] = baseUrl === undefined ? ["ROUTER_BASE_URL", variable ?? local] : ["baseUrl", baseUrl];
  // Workers and the command line have the same address with ws:, OpenAI's clients with the version in it.
  return checkBaseUrl(name, typeof value === "string" ? value.replace(/^ws(?=s?:)/i, "http") : value).replace(/\/v1$/, "");
}

function readUserId(userId: string | undefined): string {
  if (userId === undefined) return random128();
  if (typeof userId !== "string") throw wrong("userId", "must be a string", userId);
  const length = userId.isWellFormed() && !/\p{Cc}/u.test(userId) ? [...userId].length : 0;
  if (length >= 1 && length <= LIMITS.userIdChars) return userId;
  throw new InvalidOptionError("userId", `must have 1 to ${LIMITS.userIdChars} characters and no control characters`);
}

/** Checks a list of providers. Throws InvalidOptionError. */
function checkProviders(providers: readonly FallbackProvider[]): readonly FallbackProvider[] {
  if (!Array.isArray(providers)) throw wrong("fallback", "must be an array of providers", providers);
  providers.forEach((provider: unknown, at) => {
    const fits = isJsonObject(provider) && typeof provider.name === "string" && typeof provider.supports === "function" && typeof provider.run === "function";
    if (!fits) throw new InvalidOptionError(`fallback[${at}]`, "must have name, supports and run");
  });
  return providers;
}

/** 128 random bits as 32 hex characters. */
export function random128(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}
