import { defineCommand } from "citty";
import { command } from "../command.ts";
import { KEY_ARGS } from "../key-option.ts";
import { URL_ARG } from "../url-option.ts";
import { workerKey } from "./worker-key.ts";

const DESCRIPTION = "Work for a coordinator until stopped (Ctrl-C finishes the present job first, twice leaves at once)";

const ARGS = {
  url: URL_ARG,
  "llm-url": { type: "string", valueHint: "url", description: "LLM server with an OpenAI-compatible API; default: search this machine" },
  model: { type: "string", valueHint: "name", description: "Model to answer with; default: the server's first" },
  runtime: { type: "string", valueHint: "embedded", description: "`embedded`: run llama.cpp in a child process" },
  "model-file": { type: "string", valueHint: "file", description: "GGUF file for the embedded runtime" },
  "tasks-only": { type: "boolean", description: "Take no LLM_INFER jobs" },
  name: { type: "string", description: "Name to show for this worker" },
  network: { type: "string", valueHint: "id", description: "Work for this network (CAIP-2) only, and sign for no other" },
  ...KEY_ARGS,
  json: { type: "boolean", description: "One JSON object a line, as without a terminal" },
} as const;

const start = command({
  hidden: true,
  name: "worker",
  description: DESCRIPTION,
  args: ARGS,
  run: async (args) => {
    // Loaded only to work: the built-in tasks bring a dictionary.
    const { work } = await import("../work.ts");
    await work(args);
  },
});

/** `compute-router worker [key path|show]`. */
export const worker = defineCommand({
  meta: { name: "compute-router worker", description: DESCRIPTION },
  // citty has to know which options take a value to find the sub-command.
  args: ARGS,
  default: "start",
  subCommands: { start, key: workerKey },
});
