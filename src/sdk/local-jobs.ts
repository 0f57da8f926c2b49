// What a client remembers of its own jobs. On a job's way: a job enters the list, with the token that cancels it, when the router has accepted it, and enters
// the sum of what the jobs have used and cost when its end is known.
import type { Job, JobType } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/json.ts";
import type { Credit } from "../protocol/rest.ts";
import { InvalidOptionError } from "./errors.ts";
import { inDollars, parsePrice } from "./payment.ts";

/** A job that a client committed. `userId` and `cancelToken` are secrets. */
export type LocalJob = {
  /** UUID of the job. */
  jobId: string;
  jobType: JobType;
  /** When the router had accepted the job, by the clock of this machine; ISO 8601. */
  createdAt: string;
  /** The token that cancels the job; null if the router sent none. */
  cancelToken: string | null;
  /** The router that has the job. */
  baseUrl: string;
  /** The user who committed it. */
  userId: string;
};

/**
 * Where a client keeps the jobs that it committed. Without one it keeps the last 1,000 in memory, so another client or process does not know them.
 *
 * @example
 * const stored: LocalJob[] = [];
 * const jobList: JobList = { add: (job) => void stored.push(job), all: () => stored };
 * const router = new ComputeRouter({ jobList });
 */
export type JobList = {
  /** Keeps a job. If it throws, the job goes on, and the client does not report it: the job is already accepted and perhaps paid. */
  add: (job: LocalJob) => void | Promise<void>;
  /** The jobs that are kept, in any order. */
  all: () => readonly LocalJob[] | Promise<readonly LocalJob[]>;
};

/** The most jobs in memory. */
const KEPT = 1_000;

/** A list in memory, which forgets the oldest jobs. */
class MemoryJobList implements JobList {
  readonly #jobs = new Map<string, LocalJob>();

  add(job: LocalJob): void {
    this.#jobs.delete(job.jobId);
    this.#jobs.set(job.jobId, job);
    const [oldest] = this.#jobs.keys();
    if (this.#jobs.size > KEPT && oldest !== undefined) this.#jobs.delete(oldest);
  }

  all(): LocalJob[] {
    return [...this.#jobs.values()];
  }
}

/** Checks the option `jobList`. Throws InvalidOptionError. */
export function readJobList(given: JobList | undefined): JobList {
  if (given === undefined) return new MemoryJobList();
  if (isJsonObject(given) && typeof given.add === "function" && typeof given.all === "function") return given;
  throw new InvalidOptionError("jobList", "must have the functions add and all");
}

/** Keeps a job. A failure must not become that of the run, which has committed and perhaps paid its job. */
export async function keepJob(list: JobList, job: LocalJob): Promise<void> {
  try {
    await list.add(job);
  } catch {
    // The caller still has the job's id and its token.
  }
}

/** The token that cancels a job of this router; null if the list does not have it. */
export async function keptToken(list: JobList, baseUrl: string, jobId: string): Promise<string | null> {
  const jobs = await list.all();
  return jobs.find((job) => job.baseUrl === baseUrl && job.jobId.toLowerCase() === jobId.toLowerCase())?.cancelToken ?? null;
}

/**
 * What the jobs of a client have used and cost since the client was made: those whose end it has seen, each once. Those of a fallback do not count.
 */
export type Usage = {
  /** Jobs that completed. */
  completed: number;
  /** Jobs that failed. */
  failed: number;
  /** Tokens of the prompts, as far as the workers reported them. Nobody checks these numbers. */
  promptTokens: number;
  /** Tokens of the answers, as far as the workers reported them. */
  completionTokens: number;
  /** What these jobs cost, in US dollars as `$0.013`. Money that became a credit counts when a job is paid from it. */
  spent: string;
  /** Jobs that this client paid for and whose end or payment it does not know: their price is not part of `spent`. */
  unclear: number;
};

/** What became of the money of a job: whether it has moved (null: not known), and whether it is a credit. */
type Money = { charged: boolean | null; credit: Credit | null };

/** Jobs that are remembered, so that a second look at the same job, or a second run of it, does not count again. */
const REMEMBERED = 10_000;

/** Sums the usage of one client. */
export class UsageSum {
  readonly #counted = new Set<string>();
  /** The prices of the jobs that the client paid for, until it is known whether the money has moved. */
  readonly #paid = new Map<string, string>();
  /** How many of them were forgotten because there were too many: they stay unclear. */
  #lost = 0;
  /** The jobs whose money is known. A job that is run again with its idempotency key is the same job, and its payment the same payment. */
  readonly #clear = new Set<string>();
  readonly #jobs = { completed: 0, failed: 0 };
  #promptTokens = 0;
  #completionTokens = 0;
  /** In atomic units of the token. */
  #spent = 0n;

  /** Notes that the client paid for a job. */
  paid(jobId: string, price: string): void {
    if (this.#clear.has(jobId)) return;
    this.#paid.set(jobId, price);
    if (forgetOldest(this.#paid)) this.#lost++;
  }

  /** Counts the end of a job once, and its payment as soon as it is known. */
  add({ id: jobId, status, result }: Job, { charged, credit }: Money): void {
    const price = this.#paid.get(jobId);
    if (charged !== null && this.#paid.delete(jobId)) remember(this.#clear, jobId);
    // The money of a failed job that was credited to the balance is not spent.
    if (price !== undefined && charged === true && !(status === "failed" && credit !== null)) this.#spent += parsePrice(price) ?? 0n;
    if (this.#counted.has(jobId)) return;
    remember(this.#counted, jobId);
    this.#jobs[status === "failed" ? "failed" : "completed"]++;
    const usage = result?.["usage"];
    if (status === "failed" || !isJsonObject(usage)) return;
    this.#promptTokens += countOf(usage.prompt_tokens);
    this.#completionTokens += countOf(usage.completion_tokens);
  }

  /** The sums of now. */
  get now(): Usage {
    return {
      ...this.#jobs,
      promptTokens: this.#promptTokens,
      completionTokens: this.#completionTokens,
      spent: inDollars(String(this.#spent)),
      unclear: this.#paid.size + this.#lost,
    };
  }
}

function remember(jobs: Set<string>, jobId: string): void {
  jobs.add(jobId);
  forgetOldest(jobs);
}

/** Forgets the oldest job if there are too many: a client may live for ever. True if it forgot one. */
function forgetOldest(jobs: Set<string> | Map<string, string>): boolean {
  const [oldest] = jobs.keys();
  return jobs.size > REMEMBERED && oldest !== undefined && jobs.delete(oldest);
}

/** A number of tokens. It comes from a stranger, so anything else than a plausible count is 0. */
function countOf(tokens: unknown): number {
  return typeof tokens === "number" && Number.isSafeInteger(tokens) && tokens > 0 && tokens < 2 ** 32 ? tokens : 0;
}
