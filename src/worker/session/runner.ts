import { readChat } from "../../protocol/chat.ts";
import { type Runtime, RuntimeError } from "../runtimes/runtime.ts";
import type { Output } from "./seal.ts";
import type { Run } from "./state.ts";

/** The outcome of a run. `tokens` are those of an LLM's answer. */
export type Execution = { ok: true; output: Output; tokens: number | null } | { ok: false; error: string; message: string; retryable: boolean };

/** What a run gets besides its job. */
export type Hooks = {
  signal: AbortSignal;
  /** Visible text, or an empty string as a sign of life. */
  onProgress: (delta: string) => void;
};

/** Executes jobs. Never rejects. */
export type Executor = (run: Run, hooks: Hooks) => Promise<Execution>;

/** Executes one TASK. The built-in logic takes up to a second of CPU, so a desktop worker runs it in a thread. */
export type TaskExecutor = (taskType: string, input: string, signal: AbortSignal) => Promise<Record<string, unknown>> | Record<string, unknown>;

/** Makes the executor of a worker. It calls `llm` for each job, because a runtime may start and stop at any time. */
export function createExecutor(parts: { task: TaskExecutor; llm?: () => Pick<Runtime, "generate"> | undefined; onFault?: (fault: unknown) => void }): Executor {
  return async (run, hooks) => {
    try {
      return run.jobType === "TASK" ? await runTaskJob(parts.task, run, hooks) : await runLlmJob(parts.llm?.(), run, hooks);
    } catch (fault) {
      if (fault instanceof RuntimeError) return { ok: false, error: fault.code, message: fault.message, retryable: fault.retryable };
      if (!hooks.signal.aborted) parts.onFault?.(fault);
      // The message of an unexpected error may repeat text of the job. Its name does not.
      return { ok: false, error: "worker_error", message: fault instanceof Error ? fault.name : "unexpected error", retryable: true };
    }
  };
}

async function runTaskJob(task: TaskExecutor, run: Run, { signal }: Hooks): Promise<Execution> {
  const output = await task(String(run.payload["task_type"]), String(run.payload["input"]), signal);
  return { ok: true, output, tokens: null };
}

async function runLlmJob(llm: Pick<Runtime, "generate"> | undefined, run: Run, { signal, onProgress }: Hooks): Promise<Execution> {
  if (llm === undefined) return { ok: false, error: "runtime_unreachable", message: "the LLM runtime is no longer available", retryable: true };
  const maxTokens = run.payload["max_tokens"];
  const generation = await llm.generate(String(run.payload["prompt"]), {
    signal,
    ...(typeof maxTokens === "number" && Number.isInteger(maxTokens) && maxTokens > 0 && { maxTokens }),
    chat: readChat(run.payload),
    onDelta: onProgress,
    onActivity: () => onProgress(""),
  });
  const { completion_tokens, prompt_tokens } = generation.usage;
  const { finishReason: finish_reason, model, text: output } = generation;
  return { ok: true, output: { finish_reason, model, output, usage: { completion_tokens, prompt_tokens } }, tokens: completion_tokens };
}
