// The options of the `worker` commands, and the plan that they make together with the configuration: coordinators, key, LLM, name.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { LIMITS } from "../protocol/limits.ts";
import { coordinatorName, type CoordinatorPlace } from "../worker/node/desktop-worker.ts";
import { defaultKeyFile } from "../worker/node/key-file.ts";
import { type MetricsAddress, readMetricsAddress } from "../worker/node/metrics-page.ts";
import type { LlmWish } from "../worker/node/runtime-watch.ts";
import { configFile, configFolder, readConfig, type WorkerConfig } from "../worker/node/worker-config.ts";
import { CliError, EXIT } from "./command.ts";
import { coordinatorUrls, readCount } from "./seeker.ts";

/** The options for the place of the worker's key. */
export const KEY_ARGS = {
  key: { type: "string", valueHint: "file", description: "Key file; default worker.key in the configuration folder" },
  "config-dir": { type: "string", valueHint: "dir", description: "Configuration folder; default $XDG_CONFIG_HOME/compute-router or the system's own" },
} as const;

/** The options for a worker's coordinators, key and configuration. */
export const WORKER_PLACE_ARGS = {
  url: {
    type: "string",
    valueHint: "url",
    description: "Coordinator: ws:, wss:, http: or https:; repeat the option for more. Default $ROUTER_BASE_URL, the configuration, ws://127.0.0.1:4010/",
  },
  ...KEY_ARGS,
} as const;

/** The setup of a worker. `worker init` stores it, and `worker start` uses it unless an option overrides it. */
export const WORKER_ARGS = {
  ...WORKER_PLACE_ARGS,
  "llm-url": { type: "string", valueHint: "url", description: "LLM server with an OpenAI-compatible API; default: search this machine" },
  model: { type: "string", valueHint: "name", description: "Model that answers; default: the first one of the server" },
  "max-tokens": {
    type: "string",
    valueHint: "n",
    description: `The most tokens of one answer, whatever the job asks for; default ${LIMITS.workerMaxTokens}`,
  },
  runtime: { type: "string", valueHint: "embedded", description: "`embedded`: run llama.cpp in a child process" },
  "model-file": { type: "string", valueHint: "file", description: "GGUF file for the embedded runtime" },
  "tasks-only": { type: "boolean", description: "Take no LLM_INFER jobs" },
  name: { type: "string", description: "Name to show for this worker" },
  network: { type: "string", valueHint: "id", description: "Work and sign only for this network (a CAIP-2 id)" },
  metrics: {
    type: "string",
    valueHint: "address",
    description: "Serve Prometheus metrics at this address, such as 127.0.0.1:9464; with a port alone, for this machine only",
  },
} as const;

/** The options of `worker start`, with those for this run only. */
export const WORKER_START_ARGS = {
  ...WORKER_ARGS,
  standby: { type: "boolean", description: "Take LLM_INFER jobs only while no other worker of the coordinator does" },
  json: { type: "boolean", description: "One JSON object per line, as without a terminal" },
} as const;

/** The values of the options of the `worker` commands. */
export type WorkerOptions = {
  "llm-url"?: string | undefined;
  model?: string | undefined;
  "max-tokens"?: string | undefined;
  runtime?: string | undefined;
  "model-file"?: string | undefined;
  "tasks-only"?: boolean | undefined;
  standby?: boolean | undefined;
  name?: string | undefined;
  network?: string | undefined;
  metrics?: string | undefined;
  key?: string | undefined;
  "config-dir"?: string | undefined;
};

/** What a worker will do. Options have priority over the configuration, and the configuration over the defaults. */
export type WorkerPlan = {
  coordinators: readonly CoordinatorPlace[];
  /** Null: no LLM. */
  wish: LlmWish | null;
  /** True to take LLM jobs only while no other worker takes them. */
  standby: boolean;
  name: string | undefined;
  folder: string;
  keyFile: string;
  metrics: MetricsAddress | undefined;
  /** The configuration that was read; null if there is none. */
  config: WorkerConfig | null;
  configFile: string;
};

/**
 * Makes the plan. With `replacesConfig` a configuration that cannot be read counts as none.
 * @throws {CliError} if options or configuration are not valid
 */
export function workerPlan(args: WorkerOptions, urls: readonly string[], { replacesConfig = false }: { replacesConfig?: boolean } = {}): WorkerPlan {
  const folder = configFolder({ configDir: args["config-dir"] });
  const file = configFile(folder);
  const result = readConfig(file);
  if (!result.ok && !replacesConfig) throw new CliError(EXIT.usage, result.message);
  const config = result.ok ? result.config : null;
  // A path in the configuration begins at its folder: a service may start the worker in any other one.
  const key = args.key === undefined ? resolve(folder, config?.key ?? defaultKeyFile(folder)) : resolve(args.key);
  const metrics = args.metrics ?? config?.metrics;
  const name = args.name ?? config?.name;
  const wish = withMaxTokens(wishOf(args, config, folder), args["max-tokens"], config);
  const standby = args.standby === true;
  if (standby && wish === null) throw new CliError(EXIT.usage, "--standby is only for LLM jobs, but this worker takes only tasks");
  return {
    coordinators: coordinatorPlaces(urls, args.network, config),
    wish,
    standby,
    name,
    folder,
    keyFile: key,
    metrics: metrics === undefined ? undefined : metricsAddress(metrics),
    config,
    configFile: file,
  };
}

/** The coordinators of the options, or else of the environment, of the configuration, or of this machine. */
function coordinatorPlaces(urls: readonly string[], network: string | undefined, config: WorkerConfig | null): CoordinatorPlace[] {
  const isSaid = urls.length > 0 || Boolean(process.env["ROUTER_BASE_URL"]);
  const said = urls.length > 0 ? urls : [undefined];
  const places: CoordinatorPlace[] =
    isSaid || config === null
      ? said.map((url) => ({ url: coordinatorUrls(url).socket }))
      : config.coordinators.map((place) => ({ url: place.url, ...(place.network !== undefined && { network: place.network }) }));
  if (network !== undefined) {
    if (places.length > 1)
      throw new CliError(EXIT.usage, "--network is for one coordinator; with several, write `network` beside each `url` in the configuration");
    return places.map(({ url }) => ({ url, network }));
  }
  const twice = namedTwice(places);
  if (twice !== undefined) throw new CliError(EXIT.usage, `--url: ${twice} is named twice`);
  return places;
}

/** The name of a coordinator that is named twice; its two URLs may differ, as `ws:` and `wss:` do. */
export function namedTwice(places: readonly CoordinatorPlace[]): string | undefined {
  const names = places.map(({ url }) => coordinatorName(url));
  return names.find((name, i) => names.indexOf(name) < i);
}

/** The LLM that the owner wants; null for none. Any option about the LLM replaces the whole configuration of the LLM. */
function wishOf(args: WorkerOptions, config: WorkerConfig | null, folder: string): LlmWish | null {
  const { runtime, model, "llm-url": llmUrl, "model-file": modelFile } = args;
  if (runtime !== undefined && runtime !== "embedded") throw new CliError(EXIT.usage, `--runtime: the only value is "embedded"; for a server use --llm-url`);
  if (modelFile !== undefined && runtime === undefined) throw new CliError(EXIT.usage, "--model-file is for --runtime embedded");
  if (modelFile !== undefined && !existsSync(modelFile)) throw new CliError(EXIT.usage, `--model-file: there is no file ${modelFile}`);
  if (runtime !== undefined && llmUrl !== undefined) throw new CliError(EXIT.usage, "use --runtime embedded or --llm-url, not both");
  if (args["tasks-only"] === true) {
    if (runtime !== undefined || llmUrl !== undefined || model !== undefined)
      throw new CliError(EXIT.usage, "--tasks-only cannot be combined with --llm-url, --model or --runtime");
    return null;
  }
  if (runtime === "embedded") return { kind: "embedded", ...(modelFile !== undefined && { modelFile: resolve(modelFile) }) };
  if (llmUrl === undefined && model === undefined && config !== null) return configuredWish(config.llm, folder);
  return { kind: "found", ...(llmUrl !== undefined && { llmUrl }), ...(model !== undefined && { model }) };
}

/** Adds the limit of tokens. It is independent of the choice of an LLM: an option for one keeps the configuration of the other. */
function withMaxTokens(wish: LlmWish | null, said: string | undefined, config: WorkerConfig | null): LlmWish | null {
  const maxTokens = readCount("max-tokens", said, 1, LIMITS.maxTokens) ?? config?.max_tokens;
  return wish === null || maxTokens === undefined ? wish : { ...wish, maxTokens };
}

function configuredWish(llm: WorkerConfig["llm"], folder: string): LlmWish | null {
  switch (llm.kind) {
    case "none":
      return null;
    case "embedded":
      return { kind: "embedded", ...(llm.model_file !== undefined && { modelFile: resolve(folder, llm.model_file) }) };
    case "find":
      return { kind: "found", ...(llm.url !== undefined && { llmUrl: llm.url }), ...(llm.model !== undefined && { model: llm.model }) };
    default:
      return llm satisfies never;
  }
}

/** The wish in the form of the configuration. */
export function configOfWish(wish: LlmWish | null): WorkerConfig["llm"] {
  if (wish === null) return { kind: "none" };
  if (wish.kind === "embedded") return { kind: "embedded", ...(wish.modelFile !== undefined && { model_file: wish.modelFile }) };
  return { kind: "find", ...(wish.llmUrl !== undefined && { url: wish.llmUrl }), ...(wish.model !== undefined && { model: wish.model }) };
}

function metricsAddress(text: string): MetricsAddress {
  const address = readMetricsAddress(text);
  if (address === null) throw new CliError(EXIT.usage, `--metrics: "${text}" is not an address such as 127.0.0.1:9464`);
  return address;
}
