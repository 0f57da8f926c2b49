import { LIMITS } from "../protocol/limits.ts";
import { KEY_ARGS } from "./key-option.ts";

/** Where a worker's coordinators, key and configuration are. */
export const WORKER_PLACE_ARGS = {
  url: {
    type: "string",
    valueHint: "url",
    description: "Coordinator: ws:, wss:, http: or https:; say it again for more. Default $ROUTER_BASE_URL, the configuration, ws://127.0.0.1:4010/",
  },
  ...KEY_ARGS,
} as const;

/** What a worker is set up with; `worker init` keeps it, `worker start` takes it from there unless it is said again. */
export const WORKER_ARGS = {
  ...WORKER_PLACE_ARGS,
  "llm-url": { type: "string", valueHint: "url", description: "LLM server with an OpenAI-compatible API; default: search this machine" },
  model: { type: "string", valueHint: "name", description: "Model to answer with; default: the server's first" },
  "max-tokens": {
    type: "string",
    valueHint: "n",
    description: `Most tokens of one answer, whatever the job asks for; default ${LIMITS.workerMaxTokens}`,
  },
  runtime: { type: "string", valueHint: "embedded", description: "`embedded`: run llama.cpp in a child process" },
  "model-file": { type: "string", valueHint: "file", description: "GGUF file for the embedded runtime" },
  "tasks-only": { type: "boolean", description: "Take no LLM_INFER jobs" },
  name: { type: "string", description: "Name to show for this worker" },
  network: { type: "string", valueHint: "id", description: "Work for this network (CAIP-2) only, and sign for no other" },
  metrics: { type: "string", valueHint: "address", description: "Serve Prometheus metrics, as 127.0.0.1:9464; a port alone means this machine only" },
} as const;

/** What `worker start` takes besides: how to run this once. */
export const WORKER_START_ARGS = {
  ...WORKER_ARGS,
  standby: { type: "boolean", description: "Take LLM_INFER jobs only while no other worker of the coordinator does" },
  json: { type: "boolean", description: "One JSON object a line, as without a terminal" },
} as const;
