// Finds a local LLM for the worker: asks known addresses or a chosen one, picks a model and learns its context, and tells the owner what to do if there is
// none.
import * as z from "zod";
import { parseJson } from "../../protocol/json.ts";
import { bodyText } from "./answer.ts";
import { OpenAiCompatible } from "./openai-compatible.ts";
import { codeIn, reasonOf } from "./reason.ts";
import { chooseModel, type ListedModel, modelName, readModelList, type Runtime, RuntimeError } from "./runtime.ts";

const LIST_TIMEOUT_MS = 500;
/** A chosen URL may be on another machine, which answers more slowly. */
const CHOSEN_TIMEOUT_MS = 5000;
const EXAMPLE_MODEL = "llama3.2";
/** The name of a runtime at a chosen URL, until its model list tells what it is. */
const CHOSEN_NAME = "openai-compatible";
const UNSENDABLE_KEY = "was not asked: LLM_API_KEY has a character that a key cannot have, as a line break or a typographic quote";

/** Where to look for a runtime. */
export type FindOptions = {
  /** `--llm-url`. */
  llmUrl?: string;
  /** `--model`. */
  model?: string;
  /** `--max-tokens`: the most tokens for one job. */
  maxTokens?: number;
  /** Used variables: LLM_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST, LLM_API_KEY. */
  env: Readonly<Record<string, string | undefined>>;
  fetch?: typeof fetch;
  signal: AbortSignal;
  /** How long each known runtime may take to answer, in ms; default 500, because the worker repeats the search. */
  timeoutMs?: number;
  /** The addresses to try if the owner chose none; default KNOWN_RUNTIMES. */
  candidates?: readonly Candidate[];
};

/** An address without a usable runtime. */
export type Attempt = { name: string; url: string; why: string };

/** A runtime; or the addresses that were tried, and a hint how to get a runtime. */
export type Found = { ok: true; runtime: Runtime } | { ok: false; tried: Attempt[]; hint: string };

type Probed = { ok: true; runtime: Runtime } | { ok: false; why: string };

/**
 * Finds the LLM to use. If the owner chose a URL (`--llm-url`, else LLM_BASE_URL, else OPENAI_BASE_URL), only that one is tried. Otherwise all known runtimes
 * are asked at the same time (Ollama at OLLAMA_HOST if set), and the first ready one in the list is used. LLM_API_KEY is sent to a chosen URL only.
 * OPENAI_API_KEY is never used, because jobs of strangers would spend the owner's money. Rejects only if aborted.
 */
export async function findRuntime(options: FindOptions): Promise<Found> {
  const { env } = options;
  const chosen = [options.llmUrl, env["LLM_BASE_URL"], env["OPENAI_BASE_URL"]].find((url) => url !== undefined && url.trim() !== "");
  const tried: Attempt[] = [];
  const stop = new AbortController();
  try {
    for (const { candidate, probed } of chosen === undefined ? probeList(options, stop.signal) : probeChosen(chosen, options, stop.signal)) {
      const result = await probed;
      if (options.signal.aborted) throw new RuntimeError("aborted", "the search for a runtime was aborted", { cause: options.signal.reason });
      if (result.ok) return result;
      tried.push({ name: candidate.name, url: candidate.baseUrl, why: result.why });
    }
  } finally {
    stop.abort();
  }
  const { cure, instead } = remedy(tried, options.model);
  return { ok: false, tried, hint: `${cure}${instead}` };
}

type Running = { candidate: Candidate; probed: Promise<Probed> };

function probeList(options: FindOptions, stop: AbortSignal): Running[] {
  const ollamaHost = options.env["OLLAMA_HOST"]?.trim();
  return (options.candidates ?? KNOWN_RUNTIMES).map((known) => {
    if (known.name !== "ollama" || !ollamaHost) return { candidate: known, probed: probe(known, options, stop, options.timeoutMs ?? LIST_TIMEOUT_MS) };
    const baseUrl = baseUrlOfOllamaHost(ollamaHost);
    if (baseUrl === undefined) return { candidate: { ...known, baseUrl: "OLLAMA_HOST" }, probed: Promise.resolve({ ok: false, why: "is not an address" }) };
    const candidate = { ...known, baseUrl };
    return { candidate, probed: probe(candidate, options, stop, CHOSEN_TIMEOUT_MS) };
  });
}

function probeChosen(text: string, options: FindOptions, stop: AbortSignal): Running[] {
  const baseUrl = baseUrlOf(text);
  const name = CHOSEN_NAME;
  // The text may contain a password, so it is not repeated.
  if (baseUrl === undefined)
    return [
      {
        candidate: { name, baseUrl: "the URL given" },
        probed: Promise.resolve({ ok: false, why: "is not an http(s) URL, or has a password in it (use LLM_API_KEY)" }),
      },
    ];
  const candidate = { name, baseUrl };
  const apiKey = options.env["LLM_API_KEY"];
  return [{ candidate, probed: probe(candidate, options, stop, CHOSEN_TIMEOUT_MS, apiKey) }];
}

async function probe(candidate: Candidate, options: FindOptions, stop: AbortSignal, timeoutMs: number, apiKey?: string): Promise<Probed> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([options.signal, stop, timeout]);
  // The error of fetch would have the key in it.
  if (/[^\t -~\u0080-\u00FF]/.test(apiKey?.trim() ?? "")) return { ok: false, why: UNSENDABLE_KEY };
  // A redirect is not followed. Its status is read, because the error of fetch would not say that it was one.
  const ask = (url: string): Promise<Response> =>
    (options.fetch ?? fetch)(url, { signal, redirect: "manual", ...(apiKey && { headers: { authorization: `Bearer ${apiKey}` } }) });
  try {
    if (candidate.healthPath !== undefined) {
      const health = await ask(new URL(candidate.healthPath, candidate.baseUrl).href);
      await health.body?.cancel();
      if (!health.ok) return { ok: false, why: refusal(health.status) };
    }
    const response = await ask(`${candidate.baseUrl}/models`);
    if (!response.ok) {
      await response.body?.cancel();
      return { ok: false, why: refusal(response.status) };
    }
    const models = readModelList(parseJson(await bodyText(response)));
    if (models === undefined) return { ok: false, why: "answers, but is not an OpenAI-compatible server" };
    return withModel(candidate, models, options, apiKey);
  } catch (error) {
    return { ok: false, why: timeout.aborted ? `no answer in ${timeoutMs} ms` : whyUnusable(error) };
  }
}

function withModel(candidate: Candidate, models: readonly ListedModel[], options: FindOptions, apiKey?: string): Probed {
  const model = chooseModel(models, options.model);
  const ids = models.map(({ id }) => id);
  if (model === undefined && options.model !== undefined && ids.length > 0) return { ok: false, why: `has no model "${options.model}"; it has ${listed(ids)}` };
  if (model === undefined) return { ok: false, why: ids.length === 0 ? "has no model" : `has no model for chat, only ${listed(ids)}` };
  const name = runtimeOfOwner(model.ownedBy) ?? candidate.name;
  const headers = { ...(apiKey && { authorization: `Bearer ${apiKey}` }), "content-type": "application/json" };
  const askContext = (signal: AbortSignal) =>
    loadedContext(name, candidate.baseUrl, model.id, (url, init) =>
      (options.fetch ?? fetch)(url, { ...init, headers, redirect: "error", signal: AbortSignal.any([signal, AbortSignal.timeout(CHOSEN_TIMEOUT_MS)]) }),
    );
  const runtime = new OpenAiCompatible({
    baseUrl: candidate.baseUrl,
    name,
    askContext,
    model: model.id,
    models: ids,
    ...(apiKey && { apiKey }),
    ...(options.maxTokens !== undefined && { maxTokens: options.maxTokens }),
    ...(model.contextTokens !== undefined && { contextTokens: model.contextTokens }),
    ...(options.fetch && { fetch: options.fetch }),
  });
  return { ok: true, runtime };
}

/** Why a server has not answered. Nothing listens at most of the known addresses. */
function whyUnusable(error: unknown): string {
  if (codeIn(error) === "ECONNREFUSED") return "not running";
  if (error instanceof RuntimeError) return `cannot be used: ${error.message}`;
  const reason = reasonOf(error);
  return reason === null ? "cannot be reached" : `cannot be reached: ${reason}`;
}

function refusal(status: number): string {
  if (status >= 300 && status < 400) return `answers with a redirect (HTTP ${status}), which the worker does not follow`;
  if (status === 503) return "is loading its model";
  if (status === 401 || status === 403) return "requires a key: set LLM_API_KEY";
  return `answers HTTP ${status}`;
}

function listed(ids: readonly string[]): string {
  const names = [...new Set(ids.map(modelName))];
  return names.length > 5 ? `${names.slice(0, 5).join(", ")}, …` : names.join(", ");
}

/** What the owner can do to get an LLM, without the options of the worker. */
export function cureFor(tried: readonly Attempt[]): string {
  return remedy(tried).cure;
}

/** What the owner can do; `instead` is the end of that sentence: the options of the worker that may help too. */
function remedy(tried: readonly Attempt[], model = EXAMPLE_MODEL): { cure: string; instead: string } {
  const lacking = tried.find(({ why }) => why.startsWith("has no model"));
  if (lacking?.name === "ollama") return { cure: `run: ollama pull ${model}`, instead: "" };
  if (lacking?.why.startsWith('has no model "'))
    return { cure: `load the model in ${lacking.name} (${lacking.why})`, instead: ", or name another one with --model" };
  if (lacking !== undefined) return { cure: `load a chat model in ${lacking.name}`, instead: ", or use --model <name>" };
  if (tried.some(({ why }) => why === "is loading its model")) return { cure: "wait until the model is loaded", instead: "" };
  const chosen = tried.find(({ name }) => name === CHOSEN_NAME);
  if (chosen !== undefined) {
    const isDown = chosen.why === "not running" || chosen.why.startsWith("no answer in ");
    return {
      cure: isDown ? "start the runtime at that URL" : "check that URL, its server and LLM_API_KEY",
      instead: ", or omit --llm-url to search this machine",
    };
  }
  const cure = `install Ollama (https://ollama.com) and run: ollama pull ${model}`;
  return { cure, instead: " — or use --llm-url <url> or --runtime embedded" };
}

/** A runtime that may run on this machine. */
type Candidate = {
  name: string;
  /** Address with the version path and without a final slash. */
  baseUrl: string;
  /** A path that answers 2xx if the runtime is ready. Without it, the model list alone tells. */
  healthPath?: string;
};

/** The default addresses of local runtimes, in order of preference. Always 127.0.0.1, because `localhost` may be only ::1. */
export const KNOWN_RUNTIMES: readonly Candidate[] = [
  { name: "ollama", baseUrl: "http://127.0.0.1:11434/v1", healthPath: "/api/version" },
  { name: "llama.cpp", baseUrl: "http://127.0.0.1:8080/v1", healthPath: "/health" },
  { name: "lm-studio", baseUrl: "http://127.0.0.1:1234/v1" },
  { name: "vllm", baseUrl: "http://127.0.0.1:8000/v1", healthPath: "/health" },
  { name: "jan", baseUrl: "http://127.0.0.1:1337/v1" },
  { name: "docker-model-runner", baseUrl: "http://127.0.0.1:12434/engines/v1" },
  { name: "koboldcpp", baseUrl: "http://127.0.0.1:5001/v1" },
];

const OWNER_NAMES: Readonly<Record<string, string>> = {
  library: "ollama",
  llamacpp: "llama.cpp",
  organization_owner: "lm-studio",
  vllm: "vllm",
  "compute-router": "embedded",
};

/** The runtime that writes this `owned_by` into its model list, on any port. */
function runtimeOfOwner(ownedBy: string | undefined): string | undefined {
  return ownedBy === undefined ? undefined : OWNER_NAMES[ownedBy];
}

/**
 * Makes a base URL from what a person writes: `host:8080`, `http://host:8080/` and `http://host:8080/v1/` mean the same. Undefined if it is not an http(s)
 * URL, or has a password in it (fetch refuses those; a key belongs in LLM_API_KEY).
 */
function baseUrlOf(text: string): string | undefined {
  const url = parse(text);
  if (url === undefined) return undefined;
  const path = url.pathname.replace(/\/+$/, "");
  return `${url.origin}${path === "" ? "/v1" : path}`;
}

/**
 * Makes a base URL from OLLAMA_HOST, the address that Ollama's server binds. The default port is 11434, or that of the scheme if there is one. An address that
 * means "all interfaces" becomes 127.0.0.1. Source: `envconfig.Host` in Ollama.
 */
function baseUrlOfOllamaHost(given: string): string | undefined {
  const bare = given.trim().replaceAll(/^["']+|["']+$/g, "");
  // An IPv6 address needs no brackets there.
  const text = /^[\da-f.]*:[\da-f.]*:[\da-f.:]*$/i.test(bare) ? `[${bare}]` : bare;
  const url = parse(text);
  if (url === undefined) return undefined;
  if (["0.0.0.0", "[::]"].includes(url.hostname)) url.hostname = "127.0.0.1";
  // A URL has no port if it is that of its scheme.
  const portSaid = /:\d+\/*$/.test(text) || url.port !== "" || /^https?:\/\//i.test(text);
  if (!portSaid) url.port = "11434";
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}/v1`;
}

function parse(text: string): URL | undefined {
  const trimmed = text.trim();
  const withHost = trimmed.startsWith(":") ? `127.0.0.1${trimmed}` : trimmed;
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(withHost) ? withHost : `http://${withHost}`;
  const url = URL.canParse(whole) ? new URL(whole) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  return url;
}

/** A request to a runtime, with its key and without redirects. */
type Ask = (url: string, init?: { method: "POST"; body: string }) => Promise<Response>;

const Tokens = z.int().positive();
const Props = z.object({ default_generation_settings: z.object({ n_ctx: Tokens }) });
const LmStudio = z.object({ data: z.array(z.object({ id: z.string(), loaded_context_length: Tokens.optional().catch(undefined) })) });
const OllamaRunning = z.object({ models: z.array(z.object({ name: z.string(), context_length: Tokens.optional().catch(undefined) })) });
const OllamaShow = z.object({ parameters: z.string() });

/**
 * The context of a loaded model in tokens: prompt and answer together. It is often much smaller than the context of the model's training, and no
 * OpenAI-compatible list states it. Undefined if the runtime does not state it.
 */
async function loadedContext(runtime: string, baseUrl: string, model: string, ask: Ask): Promise<number | undefined> {
  const root = baseUrl.replace(/\/v1$/, "");
  const read = async <T>(schema: z.ZodType<T>, ...asked: Parameters<Ask>): Promise<T | undefined> => {
    const response = await ask(...asked);
    const text = await bodyText(response);
    return response.ok ? schema.safeParse(parseJson(text)).data : undefined;
  };
  try {
    switch (runtime) {
      case "llama.cpp":
        return (await read(Props, `${root}/props`))?.default_generation_settings.n_ctx;
      case "lm-studio":
        return (await read(LmStudio, `${root}/api/v0/models`))?.data.find(({ id }) => id === model)?.loaded_context_length;
      case "ollama": {
        const running = await read(OllamaRunning, `${root}/api/ps`);
        const loaded = running?.models.find(({ name }) => name === model)?.context_length;
        if (loaded !== undefined) return loaded;
        // Older versions only state what the model's file sets. Their default depends on the version and the machine.
        const show = await read(OllamaShow, `${root}/api/show`, { method: "POST", body: JSON.stringify({ model }) });
        return Tokens.safeParse(Number(/^num_ctx\s+(\d+)\s*$/m.exec(show?.parameters ?? "")?.[1])).data;
      }
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}
