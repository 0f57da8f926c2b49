import { Embedded, type EmbeddedOptions } from "../runtimes/embedded.ts";
import { installEmbedded, isEmbeddedInstalled } from "../runtimes/embedded-install.ts";
import { type Found, findRuntime } from "../runtimes/probe.ts";

/** Which LLM a worker's owner wants, and the most tokens that one answer may have. */
export type LlmWish = (
  | { kind: "found"; llmUrl?: string; model?: string }
  /** llama.cpp in a child process; without `modelFile` the very small model of this package. */
  | { kind: "embedded"; modelFile?: string }
) & { maxTokens?: number };

/** What a worker looks for its LLM with, again and again. `onProgress` gets lines for a person while the embedded runtime is installed. */
export function llmFinder(wish: LlmWish, onProgress: (line: string) => void): (signal: AbortSignal) => Promise<Found> {
  const limit = wish.maxTokens === undefined ? {} : { maxTokens: wish.maxTokens };
  if (wish.kind === "embedded") return embeddedFinder({ ...limit, ...(wish.modelFile !== undefined && { modelPath: wish.modelFile }) }, onProgress);
  const { llmUrl, model } = wish;
  return (signal) => findRuntime({ env: process.env, signal, ...limit, ...(llmUrl !== undefined && { llmUrl }), ...(model !== undefined && { model }) });
}

function embeddedFinder(options: EmbeddedOptions, onProgress: (line: string) => void): (signal: AbortSignal) => Promise<Found> {
  let present: Embedded | undefined;
  return async (signal) => {
    if (present !== undefined && isRunning(present.pid)) return { ok: true, runtime: present };
    if (!isEmbeddedInstalled()) {
      const installed = await installEmbedded(onProgress, { signal });
      if (!installed.ok) return { ok: false, tried: [], hint: installed.message };
    }
    present = await Embedded.start({ ...options, signal });
    return { ok: true, runtime: present };
  };
}

function isRunning(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Whether the first look would install something. */
export function needsInstall(wish: LlmWish): boolean {
  return wish.kind === "embedded" && !isEmbeddedInstalled();
}
