// Fallback providers. They may run a job only if the router did not accept it. This file decides that, asks the providers, and has the provider for servers
// with OpenAI's API.
import { isJsonObject } from "../protocol/json.ts";
import { inWords } from "../protocol/text.ts";
import { checkBaseUrl, checkFunction, checkHeaderText, checkNames, optionNames, wrong } from "./check.ts";
import { type BodyResult, describeBreak, errorCodes, oneLine, readBody } from "./connection.ts";
import { type ComputeRouterError, FallbackError, RouterConnectionError, UnavailableError } from "./errors.ts";
import { answerMembersOf, type JobInput, type LlmJob } from "./job-input.ts";
import type { FallbackProvider } from "./options.ts";
import { fallbackResult, type FallbackResult } from "./result.ts";
import { untilAborted, within } from "./retry.ts";
import type { RunPlan } from "./run-options.ts";

/**
 * True if a fallback provider may run the job after `error`. The router must have been unreachable or must have failed (5xx), after the retries. A PRIVATE
 * job never falls back, because only paired workers may see it. A result that must be verified cannot come from a provider. A commit that may have
 * an effect (`mayHaveEffect`) rules out a fallback too: a payment was sent, or a try got no answer that excludes a job. It has none if there was no try yet,
 * if every try failed to connect, or if the router answered that it kept nothing.
 */
export function mayFallBack(error: unknown, { privacy, requireVerified }: RunPlan, mayHaveEffect: boolean): error is ComputeRouterError {
  const outage = error instanceof RouterConnectionError || error instanceof UnavailableError;
  return outage && !mayHaveEffect && privacy !== "PRIVATE" && !requireVerified;
}

/**
 * Asks the providers in order, each for at most the run's timeout. If all fail, it throws a FallbackError that names each problem, with `outage` as its
 * cause. If none supports the job, it throws `outage`.
 */
export async function fallBack(providers: readonly FallbackProvider[], job: JobInput, plan: RunPlan, outage: ComputeRouterError): Promise<FallbackResult> {
  const failures: { name: string; error: unknown }[] = [];
  const outer = untilAborted(plan.signal);
  for (const provider of providers) {
    const expired = (): Error => new FallbackError(`${provider.name} gave no answer within ${plan.timeout} ms`, { reason: "timeout" });
    try {
      if (!provider.supports(job)) continue;
      const output: unknown = await within(plan.timeout, outer, expired, async ({ signal }) => provider.run(job, signal));
      if (typeof output === "string" || isJsonObject(output)) return fallbackResult(provider.name, output);
      const error = new FallbackError(`${provider.name} returned an output that is neither text nor an object`);
      failures.push({ name: provider.name, error });
    } catch (error) {
      outer.signal.throwIfAborted();
      failures.push({ name: provider.name, error });
    }
  }
  if (failures.length === 0) throw outage;
  const problems = failures.map(({ name, error }) => describeFailure(name, error)).join("; ");
  const error = new FallbackError(`${outage.message}; the fallback failed too: ${problems}`, { cause: outage });
  error.fallbackErrors = failures.map((failure) => failure.error);
  throw error;
}

/** Which provider failed and why, in one line. Errors of the SDK name the provider already. */
function describeFailure(name: string, error: unknown): string {
  if (!(error instanceof Error)) return `${name} threw ${inWords(error)}`;
  const [code] = errorCodes(error.cause);
  const why = `${oneLine(error.message) || error.name}${code === undefined || error instanceof FallbackError ? "" : ` (${code})`}`;
  return why.startsWith(name) ? why : `${name}: ${why}`;
}

/** Options of {@link openaiCompatible}. */
export type OpenAiCompatibleOptions = {
  /** Address of the server with its version path, as `https://api.openai.com/v1`. */
  baseUrl: string;
  /** Sent as a bearer token. */
  apiKey?: string;
  /** Name of the model that answers. */
  model: string;
  /** Name of the provider in `source`. Default: the host of `baseUrl`. */
  name?: string;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
};

const NAMES = optionNames<OpenAiCompatibleOptions>({ baseUrl: 0, apiKey: 0, model: 0, name: 0, fetch: 0 });

/**
 * Makes a fallback provider for LLM_INFER jobs from any server that has `POST /chat/completions`.
 *
 * @param given address, model and key of the server
 * @returns a provider for the option `fallback` of the client
 * @throws InvalidOptionError for a wrong option
 * @example
 * const fallback = [openaiCompatible({ baseUrl: "https://api.openai.com/v1", apiKey, model: "gpt-4o-mini" })];
 * const router = new ComputeRouter({ fallback });
 */
export function openaiCompatible(given: OpenAiCompatibleOptions): FallbackProvider {
  const options = checkNames("options of openaiCompatible", given, NAMES);
  if (options === undefined) throw wrong("options of openaiCompatible", "must be an object", given);
  const baseUrl = checkBaseUrl("baseUrl", options.baseUrl);
  checkHeaderText("apiKey", options.apiKey, 4_096);
  checkFunction("fetch", options.fetch);
  if (typeof options.model !== "string" || options.model === "") throw wrong("model", "must be a non-empty string", options.model);
  if (options.name !== undefined && typeof options.name !== "string") throw wrong("name", "must be a string", options.name);
  const name = options.name ?? new URL(baseUrl).host;
  return {
    name,
    // A job that asks for a model must not get another one.
    supports: (job) => job.job_type === "LLM_INFER" && [undefined, null, "auto", options.model.toLowerCase()].includes(job.model?.toLowerCase()),
    run: async (job, signal) => {
      if (job.job_type !== "LLM_INFER") throw new FallbackError(`${name} does LLM_INFER only`);
      const { response, body } = await ask({ ...options, baseUrl }, job, signal).catch((cause: unknown) => {
        signal.throwIfAborted();
        const { message, reason } = describeBreak(new URL(baseUrl).host, cause);
        throw new FallbackError(`${name}: ${message}`, { reason, cause });
      });
      if (!response.ok) {
        const why = body.ok ? complaintOf(body.value, options.apiKey) : "";
        throw new FallbackError(`${name} answered ${response.status}${why && `: ${why}`}`, { status: response.status });
      }
      const text = body.ok ? contentOf(body.value) : undefined;
      if (text === undefined) throw new FallbackError(`${name} answered without a text`, { status: response.status });
      return text;
    },
  };
}

async function ask(
  { baseUrl, apiKey, model, fetch: send = globalThis.fetch }: OpenAiCompatibleOptions,
  job: LlmJob,
  signal: AbortSignal,
): Promise<{ response: Response; body: BodyResult }> {
  const response = await send(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json", ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify({ ...answerMembersOf(job), model, messages: job.messages ?? [{ role: "user", content: job.prompt }], stream: false }),
    // A redirect would send the key to a host that the user did not choose. Without following it, the answer is simply not ok.
    redirect: "manual",
    signal,
  });
  return { response, body: await readBody(response) };
}

/** The text of a chat completion; undefined if it has none. */
function contentOf(answer: unknown): string | undefined {
  const choice: unknown = isJsonObject(answer) && Array.isArray(answer.choices) ? answer.choices[0] : undefined;
  const content = isJsonObject(choice) && isJsonObject(choice.message) ? choice.message.content : undefined;
  return typeof content === "string" && content.trim() !== "" ? content : undefined;
}

/** The error text of the provider without the API key, which some providers repeat; empty if there is none. */
function complaintOf(answer: unknown, apiKey: string | undefined): string {
  const error: unknown = isJsonObject(answer) ? answer.error : undefined;
  const message: unknown = isJsonObject(error) ? error.message : error;
  if (typeof message !== "string") return "";
  return oneLine(apiKey === undefined ? message : message.replaceAll(apiKey, "(the key)"), 200);
}
