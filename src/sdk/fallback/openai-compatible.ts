import { isJsonObject } from "../../protocol/text.ts";
import { checkBaseUrl, checkFunction, checkHeaderText, checkNames, optionNames, wrong } from "../check.ts";
import { describeBreak, oneLine } from "../error-text.ts";
import { FallbackError } from "../errors.ts";
import type { LlmJob } from "../job-input.ts";
import { type BodyReading, readBody } from "../response-body.ts";
import type { FallbackProvider } from "./provider.ts";

/** Where and what to ask. */
export type OpenAiCompatibleOptions = {
  /** With its version path, as `https://api.openai.com/v1`. */
  baseUrl: string;
  /** Sent as a bearer token. */
  apiKey?: string;
  model: string;
  /** Default: the host of `baseUrl`. */
  name?: string;
  /** Stands in for the global `fetch`. */
  fetch?: typeof fetch;
};

const NAMES = optionNames<OpenAiCompatibleOptions>({ baseUrl: 0, apiKey: 0, model: 0, name: 0, fetch: 0 });

/** A fallback for LLM_INFER jobs: any server that speaks `POST /chat/completions`. Throws InvalidOptionError. */
export function openaiCompatible(options: OpenAiCompatibleOptions): FallbackProvider {
  checkNames("options of openaiCompatible", options, NAMES);
  const baseUrl = checkBaseUrl("baseUrl", options.baseUrl);
  checkHeaderText("apiKey", options.apiKey, 4_096);
  checkFunction("fetch", options.fetch);
  if (typeof options.model !== "string" || options.model === "") throw wrong("model", "must be a non-empty string", options.model);
  if (options.name !== undefined && typeof options.name !== "string") throw wrong("name", "must be a string", options.name);
  const name = options.name ?? new URL(baseUrl).host;
  return {
    name,
    supports: (job) => job.job_type === "LLM_INFER",
    run: async (job, signal) => {
      if (job.job_type !== "LLM_INFER") throw new FallbackError(`${name} does LLM_INFER only`);
      const { response, reading } = await ask({ ...options, baseUrl }, job, signal).catch((cause: unknown) => {
        signal.throwIfAborted();
        const { message, reason } = describeBreak(new URL(baseUrl).host, cause);
        throw new FallbackError(`${name}: ${message}`, { reason, cause });
      });
      if (!response.ok) {
        const why = reading.ok ? complaintOf(reading.value, options.apiKey) : "";
        throw new FallbackError(`${name} answered ${response.status}${why && `: ${why}`}`, { status: response.status });
      }
      const text = reading.ok ? contentOf(reading.value) : undefined;
      if (text === undefined) throw new FallbackError(`${name} answered without a text`, { status: response.status });
      return text;
    },
  };
}

async function ask(
  { baseUrl, apiKey, model, fetch: send = globalThis.fetch }: OpenAiCompatibleOptions,
  { prompt, max_tokens }: LlmJob,
  signal: AbortSignal,
): Promise<{ response: Response; reading: BodyReading }> {
  const response = await send(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json", ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify({ model, messages: [{ role: "user", content: prompt }], ...(max_tokens !== undefined && { max_tokens }), stream: false }),
    // A redirect would carry the key to a host nobody chose; it reads as an answer that is not ok.
    redirect: "manual",
    signal,
  });
  return { response, reading: await readBody(response) };
}

/** The text of a chat completion; undefined if there is none. */
function contentOf(answer: unknown): string | undefined {
  const choice: unknown = isJsonObject(answer) && Array.isArray(answer.choices) ? answer.choices[0] : undefined;
  const content = isJsonObject(choice) && isJsonObject(choice.message) ? choice.message.content : undefined;
  return typeof content === "string" && content.trim() !== "" ? content : undefined;
}

/** What the provider says is wrong, without the key, which some repeat; empty if it says nothing. */
function complaintOf(answer: unknown, apiKey: string | undefined): string {
  const error: unknown = isJsonObject(answer) ? answer.error : undefined;
  const message: unknown = isJsonObject(error) ? error.message : error;
  if (typeof message !== "string") return "";
  return oneLine(apiKey === undefined ? message : message.replaceAll(apiKey, "(the key)"), 200);
}
